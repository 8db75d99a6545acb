package api_test

import (
	"bytes"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

func TestWhoChangedWhatIsLogged(t *testing.T) {
	var log bytes.Buffer
	s := serve(t, func(o *api.Options) { o.Log = hclog.New(&hclog.LoggerOptions{Output: &log, JSONFormat: true}) })
	s.engine.answer(func(engine.Op) (any, error) { return []engine.NodeResult{{Node: node("a", "n1"), Changed: true}}, nil })
	s.engine.set(9, node("a", "n1"))
	c := s.as(pki.RoleOperator)
	if _, err := c.SetAvailability(t.Context(), connect.NewRequest(&apiv1.SetAvailabilityRequest{Nodes: []string{"n1"}, Availability: "drain"})); err != nil {
		t.Fatal(err)
	}
	label := &apiv1.LabelNodeRequest{Node: "n1", Set: map[string]string{"b": "2", "a": "1"}, Remove: []string{"x", "y"}}
	s.engine.answer(func(op engine.Op) (any, error) {
		if _, ok := op.(engine.TrialLabels); ok {
			return engine.Trial{}, nil
		}
		return engine.NodeResult{Node: node("a", "n1"), Changed: true}, nil
	})
	if _, err := c.LabelNode(t.Context(), connect.NewRequest(label)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ListJobs(t.Context(), connect.NewRequest(&apiv1.ListJobsRequest{})); err != nil {
		t.Fatal(err)
	}
	text := log.String()
	for _, want := range []string{`"@message":"call carried out"`, `"availability":"drain"`, `"node":"n1"`, `"caller":"`, "SetAvailability", `"set":"a=1 b=2"`, `"remove":"x y"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %s: %s", want, text)
		}
	}
	if strings.Count(text, "call carried out") != 2 {
		t.Errorf("reading is logged too: %s", text)
	}
}
