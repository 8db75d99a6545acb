package engine

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Clock tells the two times. Engine time goes on while the clock runs.
type Clock interface {
	Now() cluster.Time
}

// Limits of what waits to be taken, and of what one turn takes.
const (
	queueLimit  = 16384
	batchLimit  = 2048
	batchWeight = 4096 // records that the inputs of a turn write by themselves, about
)

// queue is what waits to be taken.
type queue struct {
	in      chan Input
	stopped chan struct{}
	once    sync.Once

	gathered atomic.Int64 // inputs that were taken out for the next turn, which has not begun

	mu      sync.Mutex // guards tickets and waiting
	tickets uint64
	waiting map[uint64]chan Reply
}

func (q *queue) init() {
	q.in, q.stopped, q.waiting = make(chan Input, queueLimit), make(chan struct{}), map[uint64]chan Reply{}
}

// Send gives the engine an input. It blocks while too many wait, until ctx ends.
func (e *Engine) Send(ctx context.Context, in Input) error {
	select {
	case <-e.queue.stopped:
		return ErrStopped
	default:
	}
	select {
	case e.queue.in <- in:
		return nil
	case <-e.queue.stopped:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Do has an operation carried out and returns its result once it is durable. by says who asks. A refusal is an *OpError. If ctx ends first, the operation may
// have been carried out or not. It is part of the trace of ctx.
func (e *Engine) Do(ctx context.Context, by string, op Op) (any, error) {
	reply := make(chan Reply, 1)
	q, c := &e.queue, unwrapped(by, op)
	q.mu.Lock()
	q.tickets++
	c.ticket = q.tickets
	q.waiting[c.ticket] = reply
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		delete(q.waiting, c.ticket)
		q.mu.Unlock()
	}()
	if err := e.Send(ctx, traced(c, TraceOf(ctx))); err != nil {
		return nil, err
	}
	select {
	case r := <-reply:
		return r.value, r.err
	case <-q.stopped:
		return nil, ErrStopped
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (q *queue) answer(r Reply) {
	q.mu.Lock()
	ch := q.waiting[r.ticket]
	q.mu.Unlock()
	if ch != nil {
		ch <- r
	}
}

// Run takes inputs, decides, commits and publishes, until ctx ends or a commit fails. It returns nil in the first case, after what was decided is committed and
// told. After an error the outcome of the last turn is unknown, and the process has to load again what is durable.
//
// A turn is decided while the one before is committed, if there is enough to do. Nothing of it is told before it is durable, and no other is decided meanwhile.
func (e *Engine) Run(ctx context.Context, clock Clock, log Committer, ports Ports) error {
	defer e.queue.once.Do(func() { close(e.queue.stopped) })
	w := newWriter(e, clock, log, ports)
	go w.run(ctx)
	e.decide(ctx, clock, w)
	close(w.turns)
	<-w.ended
	return w.err
}

// decide makes turns of what comes, until ctx or w ends.
func (e *Engine) decide(ctx context.Context, clock Clock, w *writer) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	more, follow := false, follower{clock: clock, on: w.ports.Traced != nil}
	for {
		batch, ok := e.gather(ctx, w, timer.C, more)
		if !ok {
			return
		}
		began := clock.Now()
		out, traced := follow.step(e, batch, began)
		if more = out.More; !more {
			timer.Reset(cmp.Or(out.Wake, idle))
		}
		x := decided{out: out, inputs: len(batch), traced: traced}
		ended := clock.Now()
		if x.took = ended.Sub(began); traced != nil {
			traced.Decided = ended
		}
		if !w.hand(x) {
			return
		}
	}
}

// idle is how long the engine rests when nothing is to be expected.
const idle = time.Minute

// gather waits for something to decide, and returns the inputs that the next turn takes. It reports false once ctx or w has ended.
//
// While a turn is committed it goes on gathering, so that all who wait meanwhile share one commit; unless there is more to decide than one turn takes, or the
// commit is a large one. more says that the turn before left something to decide.
func (e *Engine) gather(ctx context.Context, w *writer, wake <-chan time.Time, more bool) (batch []Input, ok bool) {
	due, weight := more, 0
	defer e.queue.gathered.Store(0)
	for ctx.Err() == nil {
		batch, weight = e.drainQueue(batch, weight)
		w.look()
		full := len(batch) >= batchLimit || weight >= batchWeight
		if beside := more || full || w.large; (due || len(batch) > 0) && (beside || !w.busy) {
			return batch, true
		}
		e.queue.gathered.Store(int64(len(batch)))
		select {
		case <-ctx.Done():
		case <-w.ended:
			return nil, false
		case <-w.told:
			w.busy = false
		case <-wake:
			due = true
		case in := <-e.queue.in:
			batch, weight = append(batch, in), weight+weigh(in)
		}
	}
	return nil, false
}

// Waiting returns how many inputs wait for a turn.
func (e *Engine) Waiting() int { return len(e.queue.in) + int(e.queue.gathered.Load()) }

// drainQueue adds what waits to a batch of a certain weight, as far as one turn takes it.
func (e *Engine) drainQueue(batch []Input, weight int) ([]Input, int) {
	for len(batch) < batchLimit && weight < batchWeight {
		select {
		case in := <-e.queue.in:
			batch, weight = append(batch, in), weight+weigh(in)
		default:
			return batch, weight
		}
	}
	return batch, weight
}

// weigh returns about how many records of usual size an input writes. A large job weighs as many of them.
func weigh(in Input) int {
	switch in := in.(type) {
	case Traced:
		return weigh(in.Input)
	case AgentReports:
		return 1 + len(in.Tasks)
	case command:
		if run, ok := in.op.(RunJob); ok {
			return 1 + sizeOf(&run.Spec.Task)/kilobyte
		}
	}
	return 1
}

// kilobyte is about how much a record of usual size takes.
const kilobyte = 1024

// sizeOf returns how many bytes of a task section are the user's.
func sizeOf(t *cluster.TaskSpec) int {
	n := 0
	for _, c := range t.Command {
		n += len(c)
	}
	for k, v := range t.Env {
		n += len(k) + len(v)
	}
	for k, v := range t.Config {
		n += len(k) + len(v)
	}
	return n
}
