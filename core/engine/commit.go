package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Committer makes a turn durable. puts and deletes are records of the vocabulary, such as *cluster.Task; what is deleted is given as it was.
type Committer interface {
	Commit(ctx context.Context, rev cluster.Revision, now cluster.Time, puts, deletes []any) error
}

// Ports is where Run sends what was committed. Its functions are called one at a time, in the order of the turns, beside the next turn's decisions; they must not
// block.
type Ports struct {
	Committed []func(Turn)
	Plugins   func(PluginUpdate)
	Timed     func(Timing) // nil: nobody wants to know
	Swept     func(Swept)  // what the net found, if it found anything or a round ended; nil: nobody wants to know

	// Traced is told of turns whose inputs somebody follows, once they are durable. It returns of what their questions to plugins are part. Nil: nobody follows.
	Traced func(*TracedTurn) Trace
}

// Timing is how long a turn took, and for how much. A turn may be decided while the one before is committed, so the times of two turns overlap.
type Timing struct {
	Inputs  int
	Changes int           // 0: nothing was committed
	Decide  time.Duration // to take the inputs and decide
	Commit  time.Duration // to make it durable, without waiting for the turn before
}

// decided is a turn on its way to be committed and told.
type decided struct {
	out    Output
	inputs int
	took   time.Duration
	traced *TracedTurn // nil: nobody follows any of its inputs
}

// largeTurn is how many changes make a turn one whose commit takes longer than it takes to decide something small.
const largeTurn = 512

// writer commits turns and tells of them, in their order, beside the goroutine that decides.
type writer struct {
	e     *Engine
	clock Clock
	log   Committer
	ports Ports

	turns chan decided
	told  chan struct{} // has one value for each turn that is durable and told
	ended chan struct{} // closed when run has returned
	err   error         // why run ended early; for those who saw ended

	// Owner of what follows: the goroutine that decides.

	busy  bool // the turn that was handed over last is not known to be told yet
	large bool // it has many changes
}

func newWriter(e *Engine, clock Clock, log Committer, ports Ports) *writer {
	return &writer{e: e, clock: clock, log: log, ports: ports, turns: make(chan decided, 1), told: make(chan struct{}, 1), ended: make(chan struct{})}
}

// run commits and tells what is handed over, until turns is closed or a commit fails.
func (w *writer) run(ctx context.Context) {
	defer close(w.ended)
	for x := range w.turns {
		began := w.clock.Now()
		if err := w.commit(ctx, x.out.Turn); err != nil {
			w.err = fmt.Errorf("commit revision %d: %w", x.out.Turn.State.Revision, err)
			return
		}
		if w.ports.Timed != nil {
			w.ports.Timed(Timing{Inputs: x.inputs, Changes: len(x.out.Turn.Changes), Decide: x.took, Commit: w.clock.Now().Sub(began)})
		}
		w.trace(x, began)
		w.tell(x.out)
		w.told <- struct{}{}
	}
}

// commit makes a turn durable. One that was begun is not broken off.
func (w *writer) commit(ctx context.Context, t Turn) error {
	if len(t.Changes) == 0 {
		return nil
	}
	puts, deletes := w.e.Records(t)
	return w.log.Commit(context.WithoutCancel(ctx), t.State.Revision, t.State.Now, puts, deletes)
}

// tell says what a turn made, which is durable, as everything that it builds upon is.
func (w *writer) tell(out Output) {
	if len(out.Turn.Changes) > 0 {
		w.e.Publish(out.Turn)
		for _, f := range w.ports.Committed {
			f(out.Turn)
		}
	}
	for _, u := range out.Plugins {
		if w.ports.Plugins != nil {
			w.ports.Plugins(u)
		}
	}
	for _, f := range out.Acks {
		f()
	}
	for _, r := range out.Replies {
		w.e.queue.answer(r)
	}
	if w.ports.Swept != nil && (out.Swept.Round || len(out.Swept.Caught) > 0) {
		w.ports.Swept(out.Swept)
	}
}

// trace tells who follows it of a turn that is durable, and gives on of what the questions are part that it has for plugins.
func (w *writer) trace(x decided, began cluster.Time) {
	if x.traced == nil {
		return
	}
	if len(x.out.Turn.Changes) > 0 {
		x.traced.Commit, x.traced.Committed = began, w.clock.Now()
	}
	t := w.ports.Traced(x.traced)
	for i := range x.out.Plugins {
		x.out.Plugins[i].Trace = t
	}
}

// hand waits until the turn before was told, and hands the next over. It reports false if a commit failed: then the turn is dropped.
func (w *writer) hand(x decided) bool {
	if w.busy {
		select {
		case <-w.told:
		case <-w.ended:
			return false
		}
	}
	w.turns <- x
	w.busy, w.large = true, len(x.out.Turn.Changes) >= largeTurn
	return true
}

// look takes note of a turn that was told.
func (w *writer) look() {
	select {
	case <-w.told:
		w.busy = false
	default:
	}
}
