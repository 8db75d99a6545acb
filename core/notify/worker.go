package notify

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// deliverer carries a batch to people. It returns once they have it.
type deliverer interface {
	deliver(ctx context.Context, b *batch) error
	target() string // who is told, for people; never a secret
}

// resender is a deliverer that says again and again what still waits.
type resender interface{ resend() time.Duration }

// look is what waits at a time.
type look struct {
	now     cluster.Time
	waiting []Waiting
}

// worker tells what one sink is to tell, one delivery after the other.
type worker struct {
	n     *Notifier
	sink  *Sink
	to    deliverer
	looks chan look

	// Owner of what follows: the goroutine of run.

	memory    Memory
	retry     backoff
	notBefore time.Time // after a failure
	saidAgain time.Time
	fails     string // what the engine knows of a failure
	asked     bool   // the engine was told whether it fails

	mu     sync.Mutex // guards status
	status SinkStatus
}

// State says in one word how a sink is.
type State string

// The states of a sink.
const (
	Idle    State = "idle"    // it had nothing to tell since the server's start
	Working State = "working" // what it told last has arrived
	Failing State = "failing" // what it told last has not
)

// SinkStatus is how a sink is.
type SinkStatus struct {
	Name      string
	Kind      string
	Target    string // who is told; never a secret
	State     State
	Open      int // causes that were told and have not ended
	Waiting   int // beginnings and ends that are still to be told
	Omitted   int // causes that nobody is told of, since too many are open
	Delivered uint64
	Failed    uint64
	Last      time.Time // of the last delivery that arrived
	Failure   string    // of the last that did not; "" once one arrives
	Since     time.Time // when it began to fail
	Next      time.Time // when it is tried again
}

func (w *worker) current() SinkStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.status
	s.Name, s.Kind, s.Target = w.sink.Name, w.sink.Kind(), w.to.target()
	s.Open = len(w.n.opts.Engine.View().NoticesOf(s.Name))
	switch {
	case s.Failure != "":
		s.State = Failing
	case s.Delivered > 0:
		s.State = Working
	default:
		s.State = Idle
	}
	return s
}

func (w *worker) note(f func(*SinkStatus)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(&w.status)
}

// run tells what is to be told until the context ends.
func (w *worker) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case seen := <-w.looks:
			w.tell(ctx, seen)
		}
	}
}

// tell tells what follows from a look, in as many deliveries as that takes, until one fails.
func (w *worker) tell(ctx context.Context, seen look) {
	for ctx.Err() == nil {
		sent := w.n.opts.Engine.View().NoticesOf(w.sink.Name)
		w.memory = Remember(w.memory, seen.waiting, sent, w.sink.Rules, seen.now)
		plan := Decide(seen.waiting, w.memory, sent, w.sink.Rules, seen.now)
		w.note(func(s *SinkStatus) { s.Waiting, s.Omitted = len(plan.Begin)+len(plan.End), plan.Omitted })
		now := time.Now()
		again := w.again(&plan, now)
		if len(plan.Begin)+len(plan.End) == 0 && !again {
			if w.retry.failures > 0 || !w.asked {
				w.recovered(ctx) // nothing is left to be told
			}
			return
		}
		if now.Before(w.notBefore) {
			return
		}
		b := w.batch(now)
		b.begin, b.end = plan.Begin[:min(len(plan.Begin), maxBatch)], plan.End[:min(len(plan.End), maxBatch)]
		if _, says := w.to.(resender); says {
			b.open, w.saidAgain = plan.Open, now
		}
		w.explain(ctx, b.begin)
		if err := w.to.deliver(ctx, b); err != nil {
			w.failed(ctx, err)
			return
		}
		w.delivered(ctx, b, now)
	}
}

// again reports whether what still waits is to be said again.
func (w *worker) again(p *Plan, now time.Time) bool {
	r, ok := w.to.(resender)
	return ok && len(p.Open) > 0 && now.Sub(w.saidAgain) >= r.resend()
}

func (w *worker) batch(now time.Time) *batch {
	return &batch{cluster: w.n.opts.Engine.View().ClusterID, server: w.n.opts.Server, link: w.n.opts.Link, now: now}
}

// maxExplained is about how many causes placement is asked for amounts in one delivery.
const maxExplained = 20

// explain adds to what waits to be placed what it lacks, and what would help.
func (w *worker) explain(ctx context.Context, alerts []Alert) {
	for i := range alerts[:min(len(alerts), maxExplained)] {
		a := &alerts[i]
		if a.Task == "" {
			continue
		}
		v, err := w.n.opts.Engine.Do(ctx, "notifier", engine.Why{Task: a.Task})
		if why, ok := v.(engine.WhyResult); err == nil && ok && why.Sentence != "" {
			a.Message, a.Clears = why.Sentence, why.Clears
		}
	}
}

// delivered has the engine store what was told, and waits until it is durable: it would be told again otherwise.
func (w *worker) delivered(ctx context.Context, b *batch, now time.Time) {
	in := engine.SinkTold{Sink: w.sink.Name}
	for i := range b.begin {
		a := &b.begin[i]
		in.Begun = append(in.Begun, cluster.Notice{Cause: a.Cause, Since: a.Since, Message: a.Message})
	}
	for i := range b.end {
		in.Ended = append(in.Ended, b.end[i].Cause)
	}
	if len(in.Begun)+len(in.Ended) > 0 {
		stored := make(chan struct{})
		in.Done = func() { close(stored) }
		if w.n.opts.Engine.Send(ctx, in) != nil {
			return // the server ends
		}
		select {
		case <-stored:
		case <-ctx.Done():
			return
		}
	}
	w.note(func(s *SinkStatus) {
		s.Delivered++
		s.Last = now
	})
	w.n.opts.Log.Info("people told", "sink", w.sink.Name, "stalled", len(b.begin), "cleared", len(b.end))
	w.recovered(ctx)
}

// toldAfter is after how many failures in a row a sink counts as failing for everybody.
const toldAfter = 2

func (w *worker) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	var after time.Duration
	if no, ok := errors.AsType[*refused](err); ok {
		after = no.after
	}
	now := time.Now()
	w.notBefore = now.Add(w.retry.failed(after))
	text := clip(err.Error(), 500)
	w.note(func(s *SinkStatus) {
		if s.Failed++; s.Failure == "" {
			s.Since = now
		}
		s.Failure, s.Next = text, w.notBefore
	})
	w.n.opts.Log.Warn("people not told, tried again later", "sink", w.sink.Name, "failures", w.retry.failures, "next", w.notBefore, "error", text)
	if w.retry.failures >= toldAfter {
		w.say(ctx, w.sink.Kind()+" "+w.sink.Name+" cannot tell anybody: "+text)
	}
}

func (w *worker) recovered(ctx context.Context) {
	w.retry.worked()
	w.notBefore = time.Time{}
	w.note(func(s *SinkStatus) { s.Failure, s.Since, s.Next = "", time.Time{}, time.Time{} })
	w.say(ctx, "")
}

// say has the engine know whether the sink fails.
func (w *worker) say(ctx context.Context, failure string) {
	if w.asked && w.fails == failure {
		return
	}
	if w.n.opts.Engine.Send(ctx, engine.SinkFails{Sink: w.sink.Name, Message: failure}) == nil {
		w.fails, w.asked = failure, true
	}
}
