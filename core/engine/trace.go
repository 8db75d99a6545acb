package engine

import (
	"context"
	"slices"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Trace says of what an input is part, for whoever follows what comes of it: the ids of a trace and of a span in it, as W3C Trace Context has them
// (w3.org/TR/trace-context). The engine passes traces on and never looks into one, so that nothing that it decides can depend on them. The zero Trace: nobody
// follows.
type Trace struct {
	ID    [16]byte
	Span  [8]byte
	Turns uint8 // through which it came
}

// Followed reports whether somebody follows.
func (t Trace) Followed() bool { return t.ID != [16]byte{} }

// Traced is an input that is part of traces. Run takes the two apart: Step is given the input alone.
type Traced struct {
	Input
	Traces []Trace
}

// traced returns an input as part of a trace, or as it is if nobody follows.
func traced(in Input, t Trace) Input {
	if !t.Followed() {
		return in
	}
	return Traced{in, []Trace{t}}
}

type traceKey struct{}

// WithTrace returns a context in which commands are part of a trace.
func WithTrace(ctx context.Context, t Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// TraceOf returns the trace of which commands are part in a context.
func TraceOf(ctx context.Context) Trace {
	t, _ := ctx.Value(traceKey{}).(Trace)
	return t
}

// TracedTurn is a turn that took inputs which somebody follows. Its times were measured around what it did, and nothing was decided by them.
type TracedTurn struct {
	Causes    []Trace // of its inputs, each once and in their order, up to a limit. Where the turn before left something to decide they are that turn's too
	Turn      Turn    // without changes: there was nothing to commit
	Inputs    int
	More      bool // it left something to decide
	Began     cluster.Time
	Phases    []PhaseBegan
	Decided   cluster.Time
	Commit    cluster.Time // when its commit began; zero if there was none
	Committed cluster.Time
}

// Phase is a part of a turn.
type Phase string

// The phases, in their order.
const (
	PhaseApply     Phase = "apply"     // inputs are applied
	PhaseMonitor   Phase = "monitor"   // which nodes are there
	PhaseReconcile Phase = "reconcile" // which tasks there should be
	PhasePlace     Phase = "place"     // where they run
	PhaseDrain     Phase = "drain"     // what leaves nodes that are to be emptied
	PhaseFinish    Phase = "finish"    // the net looks at its part, and what is to be told is gathered
)

// PhaseBegan says when a phase began. It ended when the next began, the last one when the turn was decided.
type PhaseBegan struct {
	Phase Phase
	At    cluster.Time
}

// maxCauses is of how many traces a turn says that it is part. Each of them gets spans of its own.
const maxCauses = 128

// follower notes of which traces turns are part. Owner: the goroutine that decides.
type follower struct {
	clock Clock
	on    bool    // somebody wants to know
	left  []Trace // of the turn before, which left something to decide
}

// step decides a turn of what comes, and says what is to be told of it: nil if nobody follows any of its inputs.
func (f *follower) step(e *Engine, batch []Input, began cluster.Time) (Output, *TracedTurn) {
	causes := f.left
	for i, in := range batch {
		t, ok := in.(Traced)
		if !ok {
			continue
		}
		batch[i] = t.Input
		for _, x := range t.Traces {
			if f.on && len(causes) < maxCauses && !slices.Contains(causes, x) {
				causes = append(causes, x)
			}
		}
	}
	f.left = nil
	if len(causes) == 0 {
		return e.Step(batch, began), nil
	}
	turn := &TracedTurn{Causes: causes, Inputs: len(batch), Began: began}
	e.phase = func(p Phase) { turn.Phases = append(turn.Phases, PhaseBegan{p, f.clock.Now()}) }
	out := e.Step(batch, began)
	e.phase = nil
	if turn.Turn, turn.More = out.Turn, out.More; out.More {
		f.left = slices.Clip(causes)
	}
	return out, turn
}

// enter says that a phase begins, if somebody wants to know.
func (e *Engine) enter(p Phase) {
	if e.phase != nil {
		e.phase(p)
	}
}
