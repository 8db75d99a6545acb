package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Committer makes a turn durable. puts and deletes are records of the vocabulary, such as *cluster.Task; what is deleted is given as it was.
type Committer interface {
	Commit(ctx context.Context, rev cluster.Revision, now cluster.Time, puts, deletes []any) error
}

// Ports is where Run sends what was committed. Its functions are called by the engine's goroutine and must not block.
type Ports struct {
	Committed []func(Turn)
	Plugins   func(PluginUpdate)
	Timed     func(Timing) // nil: nobody wants to know
}

// Timing is how long a turn took, and for how much.
type Timing struct {
	Inputs  int
	Changes int           // 0: nothing was committed
	Decide  time.Duration // to take the inputs and decide
	Commit  time.Duration // to make it durable
}

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
// have been carried out or not.
func (e *Engine) Do(ctx context.Context, by string, op Op) (any, error) {
	reply := make(chan Reply, 1)
	q := &e.queue
	q.mu.Lock()
	q.tickets++
	ticket := q.tickets
	q.waiting[ticket] = reply
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		delete(q.waiting, ticket)
		q.mu.Unlock()
	}()
	if err := e.Send(ctx, command{op: op, by: by, ticket: ticket}); err != nil {
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

// Run takes inputs, decides, commits and publishes, until ctx ends or a commit fails. It returns nil in the first case. After an error the outcome of the
// last turn is unknown, and the process has to load again what is durable.
func (e *Engine) Run(ctx context.Context, clock Clock, log Committer, ports Ports) error {
	defer e.queue.once.Do(func() { close(e.queue.stopped) })
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var batch []Input
		select {
		case <-ctx.Done():
			return nil
		case in := <-e.queue.in:
			batch = e.drainQueue(append(batch, in))
		case <-timer.C:
		}
		began := clock.Now()
		out := e.Step(batch, began)
		decided := clock.Now()
		if err := e.commit(ctx, log, out); err != nil {
			return fmt.Errorf("commit revision %d: %w", out.Turn.State.Revision, err)
		}
		if ports.Timed != nil {
			ports.Timed(Timing{Inputs: len(batch), Changes: len(out.Turn.Changes), Decide: decided.Sub(began), Commit: clock.Now().Sub(decided)})
		}
		e.publish(out, ports)
		next := out.Wake
		switch {
		case out.More:
			next = 0
		case next == 0:
			next = idle
		}
		timer.Reset(next)
	}
}

// idle is how long the engine rests when nothing is to be expected.
const idle = time.Minute

// Waiting returns how many inputs wait for a turn.
func (e *Engine) Waiting() int { return len(e.queue.in) }

func (e *Engine) drainQueue(batch []Input) []Input {
	weight := 0
	for _, in := range batch {
		weight += weigh(in)
	}
	for len(batch) < batchLimit && weight < batchWeight {
		select {
		case in := <-e.queue.in:
			batch = append(batch, in)
			weight += weigh(in)
		default:
			return batch
		}
	}
	return batch
}

// weigh returns about how many records of usual size an input writes. A large job weighs as many of them.
func weigh(in Input) int {
	switch in := in.(type) {
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

func (e *Engine) commit(ctx context.Context, log Committer, out Output) error {
	if len(out.Turn.Changes) == 0 {
		return nil
	}
	puts, deletes := e.Records(out.Turn)
	return log.Commit(context.WithoutCancel(ctx), out.Turn.State.Revision, out.Turn.State.Now, puts, deletes)
}

func (e *Engine) publish(out Output, ports Ports) {
	if len(out.Turn.Changes) > 0 {
		e.Publish(out.Turn)
		for _, f := range ports.Committed {
			f(out.Turn)
		}
	}
	for _, u := range out.Plugins {
		if ports.Plugins != nil {
			ports.Plugins(u)
		}
	}
	for _, f := range out.Acks {
		f()
	}
	for _, r := range out.Replies {
		e.queue.answer(r)
	}
}
