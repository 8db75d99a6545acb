package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
	"github.com/setpointd/setpoint/sdk/sdktest"
)

// labelFilter allows nodes that have the label which the settings name, and ranks them by the length of its value.
type labelFilter struct{ stuck chan struct{} }

type labelSettings struct {
	Label string `setpoint:"label,required" desc:"A label that nodes must have."`
	Mode  string `setpoint:"mode" desc:"How the filter behaves."`
}

type labelMatcher struct{ settings labelSettings }

func (f labelFilter) Compile(ctx context.Context, req sdk.CompileRequest) (sdk.Matcher, error) {
	if req.Settings == "" {
		return nil, nil
	}
	m := labelMatcher{}
	if err := req.Settings.Decode(&m.settings); err != nil {
		return nil, err
	}
	switch m.settings.Mode {
	case "stall":
		return nil, &sdk.Stall{Code: "no_such_label", Message: "nobody has it"}
	case "error":
		return nil, errors.New("the inventory is away")
	case "panic":
		panic("out of luck")
	case "hang":
		<-ctx.Done()
		return nil, ctx.Err()
	case "stuck":
		<-f.stuck
	}
	return m, nil
}

func (m labelMatcher) Match(n *cluster.Node) error {
	value, ok := n.Spec.Labels[m.settings.Label]
	switch {
	case m.settings.Mode == "panic-on-"+n.Spec.Name:
		panic("no node like " + n.Spec.Name)
	case m.settings.Mode == "error-on-"+n.Spec.Name:
		return errors.New("the inventory is away")
	case !ok:
		return &sdk.Stall{Code: "no_label", Detail: m.settings.Label, Clears: "a node gets it", Evicts: true}
	case value == "bad":
		return fmt.Errorf("wrapped: %w", sdk.NewStall(cluster.CodeConstraint, "%s is bad", m.settings.Label))
	}
	return nil
}

func (m labelMatcher) Rank(n *cluster.Node) int { return 60 * len(n.Spec.Labels[m.settings.Label]) }

func labelPlugin() sdk.Plugin {
	return sdk.Plugin{
		Name: "label", Version: "1.0.0", Filter: labelFilter{}, Job: sdk.SchemaOf[labelSettings](), Watches: []sdk.Watch{sdk.WatchLabels},
	}
}

func settings(label, mode string) sdk.CompileRequest {
	return sdk.CompileRequest{JobType: "replicated", Settings: sdk.Settings(fmt.Sprintf(`{"label":%q,"mode":%q}`, label, mode))}
}

func TestFilterAnswers(t *testing.T) {
	h := sdktest.New(t, labelPlugin())
	h.SetNodes(sdktest.Node("a", "disk=x"), sdktest.Node("b"), sdktest.Node("c", "disk=bad"), sdktest.Node("d", "disk"))
	got := h.AddClass(settings("disk", "")).Answer()
	want := sdktest.Answer{Revision: 1, Verdicts: map[cluster.NodeID]sdktest.Verdict{
		"a": {Allowed: true, Rank: 60},
		"b": {Code: "label.no_label", Detail: "disk", Clears: "a node gets it", Evicts: true},
		"c": {Code: "constraint", Detail: "disk is bad"},
		"d": {Allowed: true},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	if a := h.AddClass(sdk.CompileRequest{}).Answer(); !a.Indifferent {
		t.Errorf("a class without settings: got %+v, want indifference", a)
	}
	if s := h.AddClass(settings("disk", "stall")).Answer().Stall; s.GetCode() != "label.no_such_label" || s.GetMessage() != "nobody has it" {
		t.Errorf("stall: got %v", s)
	}
	if s := h.AddClass(sdk.CompileRequest{Settings: `{"lable":"disk"}`}).Answer().Stall; s.GetCode() != "label.settings_invalid" ||
		!strings.Contains(s.GetMessage(), `did you mean "label"?`) {
		t.Errorf("settings that do not fit: got %v", s)
	}
}

func TestFilterTellsOnlyWhatFlips(t *testing.T) {
	h := sdktest.New(t, labelPlugin())
	h.SetNodes(sdktest.Node("a", "disk=x"), sdktest.Node("b"))
	disk, zone := h.AddClass(settings("disk", "")), h.AddClass(settings("zone", ""))
	h.UpdateNode(sdktest.Node("b", "disk=x"))
	if got, want := disk.Answer().Allowed(), []cluster.NodeID{"a", "b"}; !slices.Equal(got, want) {
		t.Errorf("disk: allowed %v, want %v", got, want)
	}
	if got, want := disk.Messages(), 2; got != want {
		t.Errorf("disk: %d answers, want %d", got, want)
	}
	if got, want := zone.Messages(), 1; got != want {
		t.Errorf("zone: %d answers, want %d", got, want)
	}
	if got, want := zone.Answer().Revision, uint64(2); got != want {
		t.Errorf("zone stands at %d, want %d", got, want)
	}
}

func TestRemovedIndexIsUsedAgain(t *testing.T) {
	h := sdktest.New(t, labelPlugin())
	h.SetNodes(sdktest.Node("a", "disk=x"), sdktest.Node("b"))
	c := h.AddClass(settings("disk", ""))
	h.Apply(sdktest.Change{Remove: []cluster.NodeID{"b"}, Put: []*cluster.Node{sdktest.Node("c")}})
	h.WaitApplied()
	got := c.Answer().Verdicts
	if len(got) != 2 || got["c"].Code != "label.no_label" {
		t.Errorf("verdicts %+v, want a refusal of c and none of b", got)
	}
	h.RemoveNode("c")
	h.UpdateNode(sdktest.Node("d", "disk=y"))
	if got, want := c.Answer().Allowed(), []cluster.NodeID{"a", "d"}; !slices.Equal(got, want) {
		t.Errorf("allowed %v, want %v", got, want)
	}
	h.SetNodes(sdktest.Node("z", "disk=1"))
	h.Settle()
	if got, want := c.Answer().Allowed(), []cluster.NodeID{"z"}; !slices.Equal(got, want) {
		t.Errorf("after a reset: allowed %v, want %v", got, want)
	}
	h.SetNodes(sdktest.Node("y", "disk=2"))
	h.Settle()
	if got, want := c.Answer().Allowed(), []cluster.NodeID{"y"}; !slices.Equal(got, want) {
		t.Errorf("after a reset to the like: allowed %v, want %v", got, want)
	}
}

func TestFailuresAreTold(t *testing.T) {
	for _, test := range []struct{ mode, kind, message string }{
		{"error", "error", "compile: the inventory is away"},
		{"panic", "panic", "panic: out of luck (filter_test.go:44)"},
		{"panic-on-b", "panic", "panic: no node like b (filter_test.go:58)"},
		{"error-on-b", "error", "match node b: the inventory is away"},
		{"hang", "timeout", ""},
		{"stuck", "timeout", "no answer within 50ms"},
	} {
		t.Run(test.mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { failureIsTold(t, test.mode, test.kind, test.message) })
		})
	}
}

func failureIsTold(t *testing.T, mode, kind, message string) {
	p, free := labelPlugin(), make(chan struct{})
	p.Filter = labelFilter{stuck: free}
	h := sdktest.NewWith(t, p, sdktest.Options{Deadline: 50 * time.Millisecond})
	t.Cleanup(func() { close(free) })
	h.SetNodes(sdktest.Node("a", "disk=x"), sdktest.Node("b"))
	broken := h.RegisterClass(settings("disk", mode))
	well := h.AddClass(settings("disk", ""))
	h.Await("failure", broken.Answered)
	f := broken.Answer().Failure
	if f.GetKind() != kind || !strings.Contains(f.GetMessage(), message) {
		t.Errorf("failure %v, want %s: %s", f, kind, message)
	}
	h.UpdateNode(sdktest.Node("a"))
	if got := well.Answer().Allowed(); len(got) != 0 {
		t.Errorf("beside a failing class: allowed %v, want none", got)
	}
	if late := h.WaitApplied().LateClasses; !slices.Equal(late, []uint32{broken.ID()}) {
		t.Errorf("late %v, want only the failing class %d", late, broken.ID())
	}
}

func TestFailureKeepsEarlierVerdicts(t *testing.T) {
	synctest.Test(t, failureKeepsEarlierVerdicts)
}

func failureKeepsEarlierVerdicts(t *testing.T) {
	h := sdktest.New(t, labelPlugin())
	h.SetNodes(sdktest.Node("a", "disk=x"))
	c := h.AddClass(settings("disk", "error-on-b"))
	h.UpdateNode(sdktest.Node("b", "disk=x"))
	a := c.Answer()
	if a.Failure == nil || !a.Verdicts["a"].Allowed || a.Revision != 1 {
		t.Errorf("answer %+v, want a failure, and the verdict on a at revision 1", a)
	}
	h.RemoveNode("b")
	h.Await("recovery", func() bool { return c.Answer().Failure == nil })
	if a := c.Answer(); a.Revision != 3 || !slices.Equal(a.Allowed(), []cluster.NodeID{"a"}) {
		t.Errorf("answer after the retry %+v, want a alone at revision 3", a)
	}
}

func TestReplacedAndRemovedClasses(t *testing.T) {
	h := sdktest.New(t, labelPlugin())
	h.SetNodes(sdktest.Node("a", "disk=x"), sdktest.Node("b", "zone=y"))
	c, other := h.AddClass(settings("disk", "")), h.AddClass(settings("disk", ""))
	c.Replace(settings("zone", ""))
	if got, want := c.Answer().Allowed(), []cluster.NodeID{"b"}; !slices.Equal(got, want) {
		t.Errorf("after replacing: allowed %v, want %v", got, want)
	}
	c.Remove()
	h.UpdateNode(sdktest.Node("a"))
	if got := other.Answer().Allowed(); len(got) != 0 {
		t.Errorf("the class that is left: allowed %v, want none", got)
	}
}

func TestTrialKeepsNothing(t *testing.T) {
	h := sdktest.New(t, labelPlugin())
	h.SetNodes(sdktest.Node("a", "disk=x"), sdktest.Node("b"))
	got := h.Try([]sdk.CompileRequest{settings("disk", ""), {}, settings("disk", "panic"), settings("disk", "stall")},
		sdktest.Node("b", "disk=z"), sdktest.Node("new", "disk=1"))
	if want := []cluster.NodeID{"a", "b", "new"}; !slices.Equal(got[0].Allowed(), want) {
		t.Errorf("trial: allowed %v, want %v", got[0].Allowed(), want)
	}
	if !got[1].Indifferent || got[2].Failure.GetKind() != "panic" || got[3].Stall.GetCode() != "label.no_such_label" {
		t.Errorf("trial: got %+v", got[1:])
	}
	if a := h.AddClass(settings("disk", "")).Answer(); !slices.Equal(a.Allowed(), []cluster.NodeID{"a"}) {
		t.Errorf("after the trial: allowed %v, want a alone", a.Allowed())
	}
}

func TestSmallMessages(t *testing.T) {
	nodes := sdktest.Nodes(4000, func(i int, n *cluster.Node) {
		n.Spec.Labels[fmt.Sprintf("only-%d", i%3)] = strings.Repeat("x", i%2)
	})
	h := sdktest.NewWith(t, verbosePlugin(), sdktest.Options{MaxMessageBytes: 16 << 10})
	h.SetNodes(nodes...)
	big := sdktest.New(t, verbosePlugin())
	big.SetNodes(nodes...)
	req := settings("only-1", "")
	c := h.AddClass(req)
	if diff := cmp.Diff(big.AddClass(req).Answer(), c.Answer()); diff != "" {
		t.Errorf("in small parts (-one message +parts):\n%s", diff)
	}
	if diff := cmp.Diff(c.Answer(), h.Try([]sdk.CompileRequest{req})[0]); diff != "" {
		t.Errorf("trial in small parts (-class +trial):\n%s", diff)
	}
	if h.Messages() < 10 {
		t.Errorf("%d messages, want many", h.Messages())
	}
}

// verboseFilter gives each node a reason of its own.
type verboseFilter struct{ labelFilter }

func (f verboseFilter) Compile(ctx context.Context, req sdk.CompileRequest) (sdk.Matcher, error) {
	m, err := f.labelFilter.Compile(ctx, req)
	return verboseMatcher{m.(labelMatcher)}, err
}

type verboseMatcher struct{ labelMatcher }

func (m verboseMatcher) Match(n *cluster.Node) error {
	if m.labelMatcher.Match(n) == nil {
		return nil
	}
	return &sdk.Stall{Code: "no_label", Detail: n.Spec.Name + " has no label " + m.settings.Label}
}

func verbosePlugin() sdk.Plugin {
	p := labelPlugin()
	p.Filter = verboseFilter{}
	return p
}
