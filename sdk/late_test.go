package sdk_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
	"github.com/setpointd/setpoint/sdk/sdktest"
)

// gateFilter has matchers that wait at a gate for nodes with the label "wait", if their class is labelled slow.
type gateFilter struct{ gate chan struct{} }

type gateMatcher struct {
	gate chan struct{} // nil: never waits
}

func (f gateFilter) Compile(_ context.Context, req sdk.CompileRequest) (sdk.Matcher, error) {
	if req.Labels["slow"] == "" {
		return gateMatcher{}, nil
	}
	return gateMatcher(f), nil
}

func (m gateMatcher) Match(n *cluster.Node) error {
	_, wait := n.Spec.Labels["wait"]
	if wait && m.gate != nil {
		<-m.gate
	}
	if wait {
		return sdk.NewStall("waited", "has the label wait")
	}
	return nil
}

func gatePlugin(gate chan struct{}) sdk.Plugin {
	return sdk.Plugin{Name: "gate", Version: "1.0.0", Filter: gateFilter{gate: gate}, Watches: []sdk.Watch{sdk.WatchLabels}}
}

func slow(i int) sdk.CompileRequest {
	return sdk.CompileRequest{Labels: map[string]string{"slow": fmt.Sprint(i)}}
}

func TestHungClassesDelayNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		h := sdktest.NewWith(t, gatePlugin(gate), sdktest.Options{Deadline: time.Minute / 2})
		h.SetNodes(sdktest.Node("a"))
		var hung []*sdktest.Class
		var names []uint32
		for i := range 20 {
			hung = append(hung, h.AddClass(slow(i)))
			names = append(names, hung[i].ID())
		}
		well := h.AddClass(sdk.CompileRequest{})

		begun := time.Now()
		h.UpdateNode(sdktest.Node("a", "wait"))
		if took := time.Since(begun); took > time.Second {
			t.Errorf("applied after %s, want it not to wait for what hangs", took)
		}
		if got := well.Answer().Verdicts["a"]; got.Code != "gate.waited" {
			t.Errorf("the class that does not hang says %+v of a, want a refusal", got)
		}
		if late := h.WaitApplied().LateClasses; !slices.Equal(late, names) {
			t.Errorf("late %v, want the hung ones %v", late, names)
		}
		if a := hung[7].Answer(); a.Revision != 1 || !a.Verdicts["a"].Allowed {
			t.Errorf("a hung class says %+v, want its verdict at revision 1", a)
		}

		begun = time.Now()
		h.UpdateNode(sdktest.Node("b"))
		if took := time.Since(begun); took > 0 {
			t.Errorf("the next revision was applied after %s, want at once", took)
		}

		close(gate)
		h.Settle()
		for i, c := range hung {
			if a := c.Answer(); a.Revision != 3 || a.Verdicts["a"].Code != "gate.waited" || !a.Verdicts["b"].Allowed {
				t.Fatalf("class %d says %+v after the gate opened, want it to have caught up", i, a)
			}
		}
	})
}

func TestLateClassConfirmsWithoutFlips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		h := sdktest.New(t, gatePlugin(gate))
		h.SetNodes(sdktest.Node("a", "x=1"))
		c := h.AddClass(slow(1))
		h.UpdateNode(sdktest.Node("b", "wait"))
		h.UpdateNode(sdktest.Node("a", "x=2")) // changes no verdict
		close(gate)
		h.Settle()
		if a := c.Answer(); a.Revision != 3 || len(a.Verdicts) != 2 {
			t.Errorf("answer %+v, want both nodes at revision 3", a)
		}
	})
}

func TestDeadlineIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		h := sdktest.NewWith(t, gatePlugin(gate), sdktest.Options{Deadline: 5 * time.Second})
		h.SetNodes(sdktest.Node("a"))
		c := h.AddClass(slow(1))
		begun := time.Now()
		h.UpdateNode(sdktest.Node("a", "wait"))
		h.Await("timeout", func() bool { return c.Answer().Failure != nil })
		if took := time.Since(begun); took < 5*time.Second || took > 6*time.Second {
			t.Errorf("told after %s, want the deadline of 5s", took)
		}
		if f := c.Answer().Failure; f.Kind != "timeout" || f.Message != "no answer within 5s" {
			t.Errorf("failure %v, want a timeout", f)
		}
		close(gate)
		h.Await("the late answer", func() bool { return c.Answer().Failure == nil })
		if got := c.Answer().Verdicts["a"]; got.Code != "gate.waited" {
			t.Errorf("late answer %+v, want a refusal", got)
		}
	})
}

func TestFailuresAreRetriedWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := labelPlugin(), &countingFilter{fail: true}
		p.Filter = f
		h := sdktest.New(t, p)
		h.SetNodes(sdktest.Node("a"))
		c := h.AddClass(settings("disk", ""))
		time.Sleep(40 * time.Second) // after 1, 2, 4, 8 and 16 s
		synctest.Wait()
		if got := f.asked.Load(); got != 6 {
			t.Errorf("asked %d times in 40s, want 6", got)
		}
		h.UpdateNode(sdktest.Node("a", "x=1"))
		synctest.Wait()
		if got := f.asked.Load(); got != 6 {
			t.Errorf("asked %d times after a node changed, want no more", got)
		}
		f.mend()
		h.Await("recovery", func() bool { return c.Answer().Failure == nil })
		if a := c.Answer(); a.Revision != 2 || !a.Verdicts["a"].Allowed {
			t.Errorf("answer %+v, want a allowed at revision 2", a)
		}
	})
}

// countingFilter allows all nodes with the label x=1, or all if its expiry is set, and counts how often it is asked.
type countingFilter struct {
	asked   atomic.Int64
	fail    bool
	session atomic.Pointer[sdk.Session]
	mended  atomic.Bool
	expires time.Duration
}

type expiring struct {
	allow   bool
	expires time.Duration
}

func (f *countingFilter) Compile(context.Context, sdk.CompileRequest) (sdk.Matcher, error) {
	n := f.asked.Add(1)
	if f.fail && !f.mended.Load() {
		return nil, fmt.Errorf("asked %d times", n)
	}
	return expiring{allow: n%2 == 1, expires: f.expires}, nil
}

// mend ends the failing and says that answers changed.
func (f *countingFilter) mend() {
	f.mended.Store(true)
	(*f.session.Load()).Changed()
}

func (f *countingFilter) RunSession(ctx context.Context, s sdk.Session) error {
	f.session.Store(&s)
	<-ctx.Done()
	return nil
}

func (m expiring) Match(*cluster.Node) error {
	if m.allow {
		return nil
	}
	return sdk.NewStall("not_now", "not now")
}

func (m expiring) Expires() time.Duration { return m.expires }

func TestExpiredAnswersAreAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := labelPlugin(), &countingFilter{expires: time.Minute}
		p.Filter = f
		h := sdktest.New(t, p)
		h.SetNodes(sdktest.Node("a"))
		c := h.AddClass(settings("disk", ""))
		time.Sleep(50 * time.Second)
		h.UpdateNode(sdktest.Node("a", "x=1")) // does not prolong it
		if !c.Answer().Verdicts["a"].Allowed {
			t.Error("before expiry: refused, want allowed")
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if c.Answer().Verdicts["a"].Allowed {
			t.Error("after a minute: allowed, want refused")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if !c.Answer().Verdicts["a"].Allowed || f.asked.Load() != 3 {
			t.Errorf("after two minutes: refused, or asked %d times, want 3", f.asked.Load())
		}
	})
}

func TestChangedAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := labelPlugin(), &countingFilter{}
		p.Filter = f
		h := sdktest.New(t, p)
		h.SetNodes(sdktest.Node("a"))
		c := h.AddClass(settings("disk", ""))
		synctest.Wait()
		session := *f.session.Load()
		session.Changed()
		session.Problem("away", "the inventory is away")
		synctest.Wait()
		if got := c.Answer().Verdicts["a"].Code; got != "label.not_now" {
			t.Errorf("after Changed: code %q, want label.not_now", got)
		}
		if p := h.Problems(); len(p) != 1 || p[0].Code != "away" || p[0].Message != "the inventory is away" {
			t.Errorf("problems %v, want the one that was told", p)
		}
	})
}

// configuredFilter refuses all nodes if its configuration says so.
type configuredFilter struct{ closed atomic.Bool }

type closing struct {
	Closed bool `setpoint:"closed"`
}

func (f *configuredFilter) Configure(_ context.Context, req sdk.ConfigureRequest) error {
	var c closing
	if err := req.Config.Decode(&c); err != nil {
		return err
	}
	f.closed.Store(c.Closed)
	return nil
}

func (f *configuredFilter) Compile(context.Context, sdk.CompileRequest) (sdk.Matcher, error) {
	return closedMatcher{closed: f.closed.Load()}, nil
}

type closedMatcher struct{ closed bool }

func (m closedMatcher) Match(*cluster.Node) error {
	var s *sdk.Stall // a nil *Stall is no refusal
	if m.closed {
		s = &sdk.Stall{Code: "closed"}
	}
	return s
}

func TestConfigurationChangesAnswers(t *testing.T) {
	p := sdk.Plugin{Name: "conf", Version: "1.0.0", Filter: &configuredFilter{}, Config: sdk.SchemaOf[closing]()}
	h := sdktest.New(t, p)
	h.SetNodes(sdktest.Node("a"))
	c := h.AddClass(sdk.CompileRequest{})
	if !c.Answer().Verdicts["a"].Allowed {
		t.Error("before: refused, want allowed")
	}
	if d := h.Configure(`{"closed":"maybe"}`); len(d) != 1 || d[0].Path[0].GetAttribute() != "closed" {
		t.Errorf("diagnostics %v, want one at closed", d)
	}
	if d := h.Configure(`{"closed":true}`); d != nil {
		t.Fatalf("configure: %v", d)
	}
	h.Await("the new answer", func() bool { return c.Answer().Verdicts["a"].Code == "conf.closed" })
}

func TestAnswerUnderWayCatchesUpWithARevisionWithoutChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		h := sdktest.NewWith(t, gatePlugin(gate), sdktest.Options{Deadline: time.Minute})
		h.SetNodes(sdktest.Node("a", "wait"))
		c := h.RegisterClass(slow(1))
		synctest.Wait()
		h.Repeat()
		late := h.WaitApplied().LateClasses
		if !slices.Equal(late, []uint32{c.ID()}) {
			t.Errorf("late: %v, want the class", late)
		}
		close(gate)
		h.Settle()
		if at := c.Answer().Revision; at != 2 {
			t.Errorf("the answer stands at revision %d, want 2", at)
		}
	})
}
