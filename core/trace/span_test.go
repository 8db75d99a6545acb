package trace

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/trace/tracetest"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// at returns a moment of engine time on a wall clock that jumps an hour back after 21 milliseconds.
func at(ms int) cluster.Time {
	d := time.Duration(ms) * time.Millisecond
	wall := time.Unix(1_700_000_000, 0).Add(d)
	if ms > 21 {
		wall = wall.Add(-time.Hour)
	}
	return cluster.Time{Engine: time.Minute + d, Wall: wall.UnixNano()}
}

// turn is one that began at a moment, in milliseconds.
func turn(began int, causes ...engine.Trace) *engine.TracedTurn {
	return &engine.TracedTurn{
		Causes: causes, Inputs: 2, Began: at(began), Decided: at(began + 3), Commit: at(began + 4), Committed: at(began + 9),
		Phases: []engine.PhaseBegan{{Phase: engine.PhaseApply, At: at(began)}, {Phase: engine.PhasePlace, At: at(began + 1)}},
		Turn: engine.Turn{State: engine.Assemble("c1", 7, at(began)), Changes: []engine.Authored{
			{Change: cluster.AddTask{}},
			{Change: cluster.SetPlacement{}},
			{Change: cluster.PutStall{Stall: &cluster.Stall{Code: cluster.CodeConstraint, Message: "T0K3N"}}},
			{Change: cluster.PutStall{Stall: &cluster.Stall{Code: cluster.CodeConstraint}}},
		}},
	}
}

const (
	parent    = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	unsampled = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
)

func TestOneTrace(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	x := run(t, func(o *Options) { o.Now = func() time.Time { return now } })
	step := func(d time.Duration) { now = now.Add(d) }

	command := x.Command(Command{Procedure: "RunJob", Role: "operator", About: map[string]string{"job": "web"}, Parent: parent, State: "a=b"})
	step(5 * time.Millisecond)
	of := x.Turn(turn(5, command.Trace()), Written{Bytes: 99, Sync: 4 * time.Millisecond})
	step(10 * time.Millisecond)
	question := x.Question(of, Question{Plugin: "constraint", Kind: "class", Count: 2})
	command.End("", false)
	step(5 * time.Millisecond)
	question.End("answered")
	nothing := turn(20, question.Trace())
	nothing.Turn.Changes, nothing.Commit, nothing.Committed = nil, cluster.Time{}, cluster.Time{}
	x.Turn(nothing, Written{Bytes: 99})
	x.stop()

	want := `of 4bf92f3577b34da6a3ce929d0e0e4736 00f067aa0ba902b7
setpoint.command RunJob +0.00ms 15.00ms procedure=RunJob role=operator job=web code=ok
└─ turn +5.00ms 9.00ms revision=7 turn.inputs=2 turn.changes=4 turn.tasks_created=1 turn.tasks_placed=1 turn.stalls=2 turn.stall_codes=[constraint]
   ├─ decide +5.00ms 3.00ms
   │     · apply +5.00ms
   │     · place +6.00ms
   ├─ commit +9.00ms 5.00ms commit.bytes=99 commit.sync_seconds=0.004
   └─ plugin question constraint +15.00ms 5.00ms plugin=constraint question.kind=class question.classes=2 question.outcome=answered
      └─ turn +20.00ms 3.00ms turn.inputs=2 turn.changes=0
         └─ decide +20.00ms 3.00ms
               · apply +20.00ms
               · place +21.00ms
`
	if diff := cmp.Diff(want, tracetest.Draw(x.collector.Spans(), true)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	root := x.collector.Spans()[3]
	if root.GetKind() != tracepb.Span_SPAN_KIND_SERVER || root.GetTraceState() != "a=b" || root.GetFlags() != flagSampled|flagKnown|flagRemote {
		t.Errorf("the command's span is %v", root)
	}
	var about []string
	for _, a := range x.collector.Resource().GetAttributes() {
		about = append(about, a.GetKey()+"="+tracetest.Text(a.GetValue()))
	}
	if diff := cmp.Diff([]string{"service.name=setpoint", "service.instance.id=s1", "service.version=1.2.3", "setpoint.cluster.id=c1", "site=eu"}, about); diff != "" {
		t.Errorf("of the server is said (-want +got):\n%s", diff)
	}
	if s := x.Status(); s != (Status{Exported: 7}) {
		t.Errorf("status %+v", s)
	}
}

// A turn that serves two commands is whole in the first one's trace, and in the other's with a link to that.
func TestTurnOfTwoCommands(t *testing.T) {
	x := run(t, nil)
	a, b := x.Command(Command{Procedure: "A"}), x.Command(Command{Procedure: "B"})
	x.Turn(turn(0, a.Trace(), b.Trace()), Written{})
	a.End("", false)
	b.End("conflict", true)
	x.stop()
	var texts []string
	for _, c := range []*CommandSpan{a, b} {
		var spans []*tracepb.Span
		for _, s := range x.collector.Spans() {
			if string(s.GetTraceId()) == string(c.span.GetTraceId()) {
				spans = append(spans, s)
			}
		}
		texts = append(texts, tracetest.Draw(spans, false))
	}
	if strings.Count(texts[0], "\n") != 6 || !strings.Contains(texts[0], "└─ turn") || !strings.Contains(texts[0], " -> another trace\n") || !strings.Contains(texts[0], "commit") {
		t.Errorf("the first trace is\n%s", texts[0])
	}
	if want := "procedure=B code=conflict replayed=true ERROR\n└─ turn "; strings.Count(texts[1], "\n") != 2 || !strings.Contains(texts[1], want) || !strings.Contains(texts[1], " -> another trace\n") {
		t.Errorf("the second trace is\n%s", texts[1])
	}
	for _, s := range x.collector.Spans() {
		for _, l := range s.GetLinks() {
			if s.GetName() != "turn" || string(l.GetTraceId()) == string(s.GetTraceId()) {
				t.Errorf("%s links to %x", s.GetName(), l.GetTraceId())
			}
		}
	}
}

// What plugins are asked for ever is followed for so long.
func TestTracesEnd(t *testing.T) {
	x := New(Options{SampleRatio: 1})
	of := x.Command(Command{}).Trace()
	turns := 0
	for ; of.Followed(); turns++ {
		of = x.Question(x.Turn(turn(0, of), Written{}), Question{}).Trace()
		if turns > 1000 {
			t.Fatal("it goes on for ever")
		}
		if of.Turns == 0 { // the question was no part of a trace
			break
		}
	}
	if turns != maxTurns {
		t.Errorf("it is followed through %d turns, want %d", turns, maxTurns)
	}
}

func TestSampling(t *testing.T) {
	count := func(ratio float64, header string) int {
		x, n := New(Options{SampleRatio: ratio}), 0
		for range 1000 {
			if x.Command(Command{Parent: header}) != nil {
				n++
			}
		}
		return n
	}
	for _, c := range []struct {
		ratio    float64
		header   string
		min, max int
	}{
		{1, "", 1000, 1000},
		{0, "", 0, 0},
		{0.5, "", 350, 650},
		{0, parent, 1000, 1000},
		{1, unsampled, 0, 0},
		{0, "00-nonsense", 0, 0},
		{1, "00-00000000000000000000000000000000-00f067aa0ba902b7-01", 1000, 1000}, // no trace
	} {
		if n := count(c.ratio, c.header); n < c.min || n > c.max {
			t.Errorf("ratio %v, header %q: %d of 1000", c.ratio, c.header, n)
		}
	}
	// The same trace is decided about alike everywhere, and the more so the greater the ratio.
	id, err := hex.DecodeString("4bf92f3577b34da6a3ce929d0e0e4736")
	if err != nil {
		t.Fatal(err)
	}
	if at := float64(0xa3ce929d0e0e4736>>11) / (1 << 53); sampled(id, at-0.001) || !sampled(id, at+0.001) {
		t.Errorf("the trace is not decided about by its id")
	}
}

// A caller's state is passed on if it is one, and not too long to wait with its span.
func TestStateOfACaller(t *testing.T) {
	x := New(Options{SampleRatio: 1})
	for state, want := range map[string]string{
		"":                                     "",
		"a=b,c=d":                              "a=b,c=d",
		"a=\xff\xfe":                           "",
		"a=\x00":                               "",
		"nonsense":                             "",
		"a=b," + strings.Repeat("x", maxState): "",
	} {
		x.Command(Command{Procedure: "P", Parent: parent, State: state}).End("", false)
		if s := <-x.queue; s.GetTraceState() != want || len(s.GetParentSpanId()) == 0 {
			t.Errorf("state %.20q: passed on as %q below %x, want %q", state, s.GetTraceState(), s.GetParentSpanId(), want)
		}
	}
}

func TestLongTextsAreCut(t *testing.T) {
	x := New(Options{SampleRatio: 1})
	c := x.Command(Command{Procedure: "P", About: map[string]string{"nodes": strings.Repeat("é", 1000)}})
	c.End("", false)
	s := <-x.queue
	if text := tracetest.Text(s.GetAttributes()[1].GetValue()); len(text) > maxText+3 || !strings.HasSuffix(text, "é…") {
		t.Errorf("it has %d bytes: %s", len(text), text)
	}
}
