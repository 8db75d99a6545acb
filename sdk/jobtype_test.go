package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
	"github.com/setpointd/setpoint/sdk/sdktest"
)

// scriptedType answers as its job's settings say.
type scriptedType struct{}

type script struct {
	Slots []string `setpoint:"slots" desc:"Keys, each with the name of a node after a colon, if any."`
	Mode  string   `setpoint:"mode"`
}

func (scriptedType) Slots(ctx context.Context, req sdk.SlotsRequest) (sdk.SlotsResponse, error) {
	var s script
	if err := req.Job.Settings.Decode(&s); err != nil {
		return sdk.SlotsResponse{}, err
	}
	var out sdk.SlotsResponse
	for _, text := range s.Slots {
		key, node, pinned := strings.Cut(text, ":")
		slot := sdk.Slot{Key: cluster.SlotKey(key)}
		if pinned {
			slot.Nodes = []cluster.NodeID{cluster.NodeID(node)}
		}
		out.Slots = append(out.Slots, slot)
	}
	switch s.Mode {
	case "error":
		return out, errors.New("no calendar")
	case "panic":
		panic("no calendar")
	case "hold":
		return out, sdk.NewStall("closed", "closed for today")
	case "wait":
		<-ctx.Done()
		return out, ctx.Err()
	case "created":
		out.Slots = append(out.Slots, sdk.Slot{Key: cluster.SlotKey(req.Job.Created.Format("2006-01-02T15:04:05Z07:00"))})
	case "minutely":
		out.Again = time.Minute
		out.Slots = append(out.Slots, sdk.Slot{Key: cluster.SlotKey(time.Now().Format("15:04"))})
	}
	return out, nil
}

func scriptedPlugin() sdk.Plugin {
	return sdk.Plugin{
		Name: "script", Version: "1.0.0", JobTypes: map[string]sdk.JobType{"scripted": scriptedType{}}, Job: sdk.SchemaOf[script](),
		Watches: []sdk.Watch{sdk.WatchLabels},
	}
}

func scripted(mode string, slots ...string) sdk.Job {
	j := sdktest.Job("j", "scripted")
	j.Settings = sdk.Settings(fmt.Sprintf(`{"mode":%q,"slots":["%s"]}`, mode, strings.Join(slots, `","`)))
	return j
}

func TestSlots(t *testing.T) {
	h := sdktest.New(t, scriptedPlugin())
	h.SetNodes(sdktest.Node("a"), sdktest.Node("b"))
	got := h.AddJob(scripted("", "two:b", "one", "three:a")).Slots
	want := []sdktest.Slot{{Key: "one"}, {Key: "three", Nodes: []cluster.NodeID{"a"}}, {Key: "two", Nodes: []cluster.NodeID{"b"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("slots (-want +got):\n%s", diff)
	}
	h.UpdateNode(sdktest.Node("a", "x=1"))
	if got := h.SlotMessages("j"); got != 1 {
		t.Errorf("%d answers after a change without consequence, want 1", got)
	}
	if got := h.Slots("j").Revision; got != 2 {
		t.Errorf("slots stand at %d, want 2", got)
	}
	h.Apply(sdktest.Change{Remove: []cluster.NodeID{"b"}, Put: []*cluster.Node{sdktest.Node("c")}})
	h.Settle()
	if f := h.Slots("j").Failure; f.GetMessage() != `slot "two" names the node "b", which does not exist` {
		t.Errorf("failure %v, want the unknown node named", f)
	}
}

func TestSlotsThatHoldOrFail(t *testing.T) { synctest.Test(t, slotsThatHoldOrFail) }

func slotsThatHoldOrFail(t *testing.T) {
	h := sdktest.NewWith(t, scriptedPlugin(), sdktest.Options{Deadline: 50 * time.Millisecond})
	h.SetNodes(sdktest.Node("a"))
	for _, test := range []struct{ job, kind, message string }{
		{"error", "error", "slots: no calendar"},
		{"panic", "panic", "panic: no calendar"},
		{"wait", "timeout", ""},
	} {
		f := h.AddJob(scripted(test.job, "one")).Failure
		if f.GetKind() != test.kind || !strings.Contains(f.GetMessage(), test.message) {
			t.Errorf("%s: failure %v, want %s: %s", test.job, f, test.kind, test.message)
		}
	}
	if f := h.AddJob(scripted("", "one", "two", "one")).Failure; f.GetMessage() != `slot "one" is named twice` {
		t.Errorf("failure %v, want the double key named", f)
	}
	if f := h.AddJob(scripted("", "")).Failure; f.GetMessage() != "slot 0 of the answer has no key" {
		t.Errorf("failure %v, want the missing key named", f)
	}
	want := &pluginv1.Stall{Code: "script.closed", Message: "closed for today"}
	if diff := cmp.Diff(want, h.AddJob(scripted("hold", "one")).Stall, protocmp.Transform()); diff != "" {
		t.Errorf("stall (-want +got):\n%s", diff)
	}
	bad := sdktest.Job("j", "scripted")
	bad.Settings = `{"slot":[]}`
	if s := h.AddJob(bad).Stall; s.GetCode() != "script.settings_invalid" {
		t.Errorf("stall %v, want the settings refused", s)
	}
	if got := h.AddJob(scripted("", "one")); got.Stall != nil || len(got.Slots) != 1 {
		t.Errorf("after all that: %+v, want one slot", got)
	}
}

func TestSlotsAreAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := sdktest.New(t, scriptedPlugin())
		h.SetNodes(sdktest.Node("a"))
		first := h.AddJob(scripted("minutely", "one")).Slots
		time.Sleep(61 * time.Second)
		synctest.Wait()
		second := h.Slots("j").Slots
		if len(first) != 2 || len(second) != 2 || first[0].Key == second[0].Key {
			t.Errorf("slots %v, a minute later %v: want another minute", first, second)
		}
	})
}

// scriptedDrainer answers as the labels of each task's job say.
type scriptedDrainer struct{}

func (scriptedDrainer) Drain(ctx context.Context, req sdk.DrainRequest) (sdk.DrainResponse, error) {
	out := sdk.DrainResponse{Again: req.Deadline}
	for _, t := range req.Tasks {
		switch t.Labels["do"] {
		case "keep":
			out.Keep = append(out.Keep, sdk.Kept{Task: t.ID, Why: sdk.NewStall("leader", "%s leads", t.Job)})
		case "kill":
			out.Transitions = append(out.Transitions, sdk.Transition{Task: t.ID, To: cluster.DesiredRemove, Forced: true, Grace: sdk.NoGrace})
		case "ask":
			out.Transitions = append(out.Transitions, sdk.Transition{Task: t.ID, Reason: "please", Grace: time.Second})
		case "revive":
			out.Transitions = append(out.Transitions, sdk.Transition{Task: t.ID, To: cluster.DesiredRunning})
		case "stray":
			out.Transitions = append(out.Transitions, sdk.Transition{Task: "other/1/1"})
		case "keep all":
			return out, sdk.NewStall(cluster.CodeWaitingForReplacement, "not today")
		case "panic":
			panic("no idea")
		case "hang":
			<-ctx.Done()
			return out, ctx.Err()
		}
	}
	return out, nil
}

func doing(what string, revision uint64) sdk.DrainTask {
	t := sdktest.Task("web", revision)
	t.Labels = map[string]string{"do": what}
	return t
}

func drainHost(t *testing.T, opts sdktest.Options) (*sdktest.Host, func(tasks ...sdk.DrainTask) (*pluginv1.DrainAnswer, *pluginv1.Failure)) {
	h := sdktest.NewWith(t, sdk.Plugin{Name: "drainer", Version: "1.0.0", Drainer: scriptedDrainer{}}, opts)
	node := sdktest.Node("n1")
	h.SetNodes(node)
	return h, func(tasks ...sdk.DrainTask) (*pluginv1.DrainAnswer, *pluginv1.Failure) {
		return h.Drain(sdk.DrainRequest{Node: node, Deadline: time.Minute, Tasks: tasks})
	}
}

func TestDrainAnswers(t *testing.T) {
	_, ask := drainHost(t, sdktest.Options{})
	got, failure := ask(doing("ask", 1), doing("keep", 2), doing("kill", 3), doing("", 4))
	want := &pluginv1.DrainAnswer{
		Revision: 1, UntilNs: int64(time.Minute),
		Transitions: []*pluginv1.Transition{
			{Task: "web/1/1", To: "shutdown", Reason: "please", GraceNs: int64(time.Second)},
			{Task: "web/1/3", To: "remove", Forced: true, GraceNs: 0},
		},
		Kept: []*pluginv1.Kept{{Task: "web/1/2", Stall: &pluginv1.Stall{Code: "drainer.leader", Message: "web leads"}}},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || failure != nil {
		t.Errorf("failure %v, answer (-want +got):\n%s", failure, diff)
	}
	got, _ = ask(doing("", 1), doing("keep all", 2))
	if len(got.GetKept()) != 2 || got.Kept[0].Task != "web/1/1" || got.Kept[0].Stall.Code != "waiting_for_replacement" {
		t.Errorf("a stall as error: got %v, want all tasks kept", got)
	}
}

func TestDrainFailures(t *testing.T) { synctest.Test(t, drainFailures) }

func drainFailures(t *testing.T) {
	h, ask := drainHost(t, sdktest.Options{Deadline: 50 * time.Millisecond})
	for _, test := range []struct{ do, kind, message string }{
		{"revive", "error", "transition to running: a task can go to shutdown or remove only"},
		{"stray", "error", `transition of task "other/1/1": it is not on the node`},
		{"panic", "panic", "panic: no idea"},
		{"hang", "timeout", ""},
	} {
		_, f := ask(doing(test.do, 1))
		if f.GetKind() != test.kind || !strings.Contains(f.GetMessage(), test.message) {
			t.Errorf("%s: failure %v, want %s: %s", test.do, f, test.kind, test.message)
		}
	}
	if _, f := h.Drain(sdk.DrainRequest{Node: sdktest.Node("n1"), Tasks: []sdk.DrainTask{doing("", 1)}}); f != nil {
		t.Errorf("after all that: failure %v, want an answer", f)
	}
}

func TestLargeDrainComesInParts(t *testing.T) {
	h, ask := drainHost(t, sdktest.Options{MaxMessageBytes: 16 << 10})
	var tasks []sdk.DrainTask
	for i := range uint64(2000) {
		tasks = append(tasks, doing("ask", i), doing("keep", 10_000+i))
	}
	before := h.Messages()
	got, failure := ask(tasks...)
	if failure != nil || len(got.Transitions) != 2000 || len(got.Kept) != 2000 {
		t.Errorf("failure %v, %d transitions and %d kept, want 2000 each", failure, len(got.GetTransitions()), len(got.GetKept()))
	}
	if n := h.Messages() - before; n < 5 {
		t.Errorf("%d messages, want several", n)
	}
}

// pickyType refuses every job.
type pickyType struct{ name string }

func (pickyType) Slots(context.Context, sdk.SlotsRequest) (sdk.SlotsResponse, error) {
	return sdk.SlotsResponse{}, nil
}

func (p pickyType) Validate(context.Context, sdk.CompileRequest) error {
	return sdk.Diagnostics{{Summary: p.name + " refuses"}}
}

func TestTheJobsOwnTypeValidatesIt(t *testing.T) {
	h := sdktest.New(t, sdk.Plugin{Name: "picky", Version: "1.0.0", JobTypes: map[string]sdk.JobType{"a": pickyType{"a"}, "b": pickyType{"b"}}})
	if d := h.Validate(sdk.CompileRequest{JobType: "b"}); len(d) != 1 || d[0].Summary != "b refuses" {
		t.Errorf("a job of type b: got %v, want b's word", d)
	}
	if d := h.Validate(sdk.CompileRequest{JobType: "replicated"}); len(d) != 0 {
		t.Errorf("a job of another type: got %v, want nothing", d)
	}
}

func TestJobTypesAreToldWhenAJobWasMade(t *testing.T) {
	h := sdktest.New(t, scriptedPlugin())
	h.SetNodes()
	job := sdk.Job{Name: "j", Type: "scripted", Settings: `{"mode":"created"}`}
	for want, created := range map[cluster.SlotKey]time.Time{
		"2026-09-14T03:00:00Z": time.Date(2026, 9, 14, 5, 0, 0, 0, time.FixedZone("", 7200)), "0001-01-01T00:00:00Z": {},
	} {
		job.Created = created
		if got := h.AddJob(job).Slots; len(got) != 1 || got[0].Key != want {
			t.Errorf("created %s: got %v, want %s", created, got, want)
		}
	}
}
