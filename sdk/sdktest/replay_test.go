package sdktest_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
	"github.com/setpointd/setpoint/sdk/sdktest"
)

// whole is a plugin with all interfaces, whose refusals say more if it talks. Its settings have a secret.
func whole(talks string) sdk.Plugin {
	p := matching(func(n *cluster.Node, label string) error {
		if hasLabel(n, label) != nil {
			return &sdk.Stall{Code: "no_label", Detail: label + talks}
		}
		return nil
	})
	p.Drainer = drainer(func(req sdk.DrainRequest) sdk.DrainResponse {
		return sdk.DrainResponse{Transitions: []sdk.Transition{{Task: req.Tasks[0].ID, Reason: "drain", Forced: talks != ""}}}
	})
	p.JobTypes = map[string]sdk.JobType{"rack": slots(func(req sdk.SlotsRequest) (sdk.SlotsResponse, error) {
		var out sdk.SlotsResponse
		for _, n := range req.Nodes {
			out.Slots = append(out.Slots, sdk.Slot{Key: cluster.SlotKey(n.ID) + cluster.SlotKey(talks), Nodes: []cluster.NodeID{n.ID}})
		}
		return out, nil
	})}
	return p
}

// recording has a plugin asked a few things and returns what was recorded of it.
func recording(t *testing.T) string {
	t.Helper()
	plugin, err := sdktest.Go(func() sdk.Plugin { return whole("") }).Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer plugin.Kill()
	var out bytes.Buffer
	recorder := sdktest.NewRecorder(&out, plugin.Client())
	front, err := sdktest.Server(func() pluginv1.PluginServer { return recorder }).Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		h := sdktest.Open(t, front.Client(), sdktest.Options{})
		h.SetNodes(sdktest.Node("a", "disk=1"), sdktest.Node("b"))
		class := h.AddClass(sdk.CompileRequest{Settings: `{"label":"disk","key":"hush"}`})
		h.AddJob(sdktest.Job("j", "rack"))
		h.UpdateNode(sdktest.Node("b", "disk=2"))
		h.RemoveNode("a")
		h.UpdateNode(sdktest.Node("c"))
		h.Settle()
		h.Try([]sdk.CompileRequest{{Settings: `{"label":"zone"}`}}, sdktest.Node("new", "zone=1"))
		if _, failure := h.Drain(sdk.DrainRequest{Node: sdktest.Node("b"), Tasks: []sdk.DrainTask{sdktest.Task("web", 1)}}); failure != nil {
			t.Fatal(failure)
		}
		class.Remove()
		h.AddClass(sdk.CompileRequest{})
		h.Close()
	}
	front.Kill() // also ends what the recorder writes
	if err := recorder.Err(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestReplayOfTheSamePlugin(t *testing.T) {
	text := recording(t)
	if strings.Contains(text, "hush") {
		t.Error("a sensitive setting was recorded")
	}
	got, err := sdktest.Replay(t.Context(), sdktest.Go(func() sdk.Plugin { return whole("") }), strings.NewReader(text), sdktest.ReplayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Sessions != 2 || got.Compared < 20 || len(got.Differences) > 0 || got.Plugin != "broken 1.0.0" {
		t.Errorf("replayed: %+v", got)
	}
}

func TestReplayOfAnotherPlugin(t *testing.T) {
	got, err := sdktest.Replay(t.Context(), sdktest.Go(func() sdk.Plugin { return whole("!") }), strings.NewReader(recording(t)), sdktest.ReplayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, d := range got.Differences {
		if d.Session == 1 {
			said = append(said, fmt.Sprintf("%s: %s | %s", d.What, d.Recorded, d.Replayed))
		}
	}
	for _, want := range []string{
		`a class with settings {"key":"(sensitive)","label":"disk"}: node b refused, broken.no_label (disk) | node b refused, broken.no_label (disk!)`,
		`job j: slot a on a; slot a! not wanted; slot b on b; slot b! not wanted | slot a not wanted; slot a! on a; slot b not wanted; slot b! on b`,
		`drain of node 1: web/1/1 to shutdown, grace -1 ns | web/1/1 to shutdown, grace -1 ns, forced`,
		`as a trial, a class with settings {"label":"zone"}: node b refused, broken.no_label (zone); node c refused, broken.no_label (zone) | ` +
			`node b refused, broken.no_label (zone!); node c refused, broken.no_label (zone!)`,
	} {
		if !slices.Contains(said, want) {
			t.Errorf("missing: %s\namong:\n%s", want, strings.Join(said, "\n"))
		}
	}
}

func TestReplayOfWhatCannotBe(t *testing.T) {
	target := sdktest.Go(func() sdk.Plugin { return whole("") })
	for name, text := range map[string]string{"empty": "", "no lines": "hello", "no message": `{"kind":"core","session":1,"message":{"hello":1}}`} {
		if got, err := sdktest.Replay(t.Context(), target, strings.NewReader(text), sdktest.ReplayOptions{}); err == nil {
			t.Errorf("%s: %+v, want an error", name, got)
		}
	}
	hangs := sdktest.Go(func() sdk.Plugin {
		return filter(needs{compile: func(ctx context.Context, _ string) (sdk.Matcher, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
	})
	_, err := sdktest.Replay(t.Context(), hangs, strings.NewReader(recording(t)), sdktest.ReplayOptions{Patience: 300 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "in time") && !strings.Contains(err.Error(), "not serve") {
		t.Errorf("a plugin that hangs: %v", err)
	}
}
