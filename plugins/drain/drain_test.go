package drain_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/setpointd/setpoint/plugins/drain"
	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
	"github.com/setpointd/setpoint/sdk/sdktest"
)

func leaving(id string, grace int64) *pluginv1.Transition {
	return &pluginv1.Transition{Task: id, To: "shutdown", Reason: "node n1 is drained", GraceNs: grace}
}

func TestDrain(t *testing.T) {
	first, second, last, stopping := sdktest.Task("web", 1), sdktest.Task("db", 2), sdktest.Task("log", 3), sdktest.Task("old", 4)
	last.OnDrain, stopping.Desired = cluster.DrainLast, cluster.DesiredShutdown
	stoppingLast := stopping
	stoppingLast.OnDrain = cluster.DrainLast
	for _, test := range []struct {
		name   string
		config string
		tasks  []sdk.DrainTask
		want   []*pluginv1.Transition
	}{
		{name: "nothing is left"},
		{
			name: "first before last", tasks: []sdk.DrainTask{last, first, second},
			want: []*pluginv1.Transition{leaving("web/1/1", -1), leaving("db/1/2", -1)},
		},
		{name: "last waits for one that still stops", tasks: []sdk.DrainTask{last, stopping}},
		{name: "last once no first is left", tasks: []sdk.DrainTask{last, stoppingLast}, want: []*pluginv1.Transition{leaving("log/1/3", -1)}},
		{name: "grace", config: `{"grace":"2s"}`, tasks: []sdk.DrainTask{first}, want: []*pluginv1.Transition{leaving("web/1/1", 2e9)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := sdktest.NewWith(t, drain.New(), sdktest.Options{Config: test.config})
			node := sdktest.Node("n1")
			h.SetNodes(node)
			got, failure := h.Drain(sdk.DrainRequest{Node: node, Tasks: test.tasks})
			if failure != nil {
				t.Fatalf("failure: %v", failure)
			}
			want := &pluginv1.DrainAnswer{Revision: 1, Transitions: test.want}
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConfigIsChecked(t *testing.T) {
	h := sdktest.New(t, drain.New())
	for config, want := range map[string]string{
		`{"grace":"-1s"}`:  "the grace is negative",
		`{"grace":"soon"}`: `"soon" is no duration`,
		`{"gracce":"1s"}`:  `unknown setting "gracce", did you mean "grace"?`,
	} {
		if d := h.Configure(config); len(d) != 1 || d[0].Summary != want {
			t.Errorf("%s: got %v, want %s", config, d, want)
		}
	}
}
