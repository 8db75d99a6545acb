package worker

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/agent/secrets"
	"github.com/setpointd/setpoint/agent/state"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// task is one task and the goroutine that looks after it.
type task struct {
	set    *Set
	id     cluster.TaskID
	log    hclog.Logger
	wake   chan struct{} // holds a value if what the task was told has changed
	events chan func()   // what its operations found out; called by its goroutine

	mu        sync.Mutex       // guards what follows
	told      state.Assignment // Owner: Set.Apply
	confirmed bool             // Owner: Set.Apply; the server said so to this process
	forgotten bool             // Owner: Set.Apply
	halt      *time.Duration   // Owner: Set.Halt
	status    state.Status     // Owner: the task's goroutine
	runtime   runtime          // Owner: the task's goroutine
	values    secrets.Values   // of its secrets, from when it may start until it has; in memory only

	// Owner: the task's goroutine, and before it runs whoever made it.
	handle   driver.Handle
	since    time.Time // when it began to run
	exit     driver.Exit
	revived  bool   // how it ended was found out after the agent's restart
	refusal  string // why its driver will never start it
	startErr error
	gaveUp   bool   // its start was given up: that it failed means nothing
	passed   bool   // its health check passed
	sick     string // what its health check said in the end
	order    order
	fenced   bool // the first order to stop was its own, for want of a server
	unsaved  bool
	failures int // in a row, of one thing
	retryAt  time.Time
	ops      sync.WaitGroup
	giveUp   context.CancelFunc // ends the start that goes on
	unwatch  context.CancelFunc // ends the health check
}

func newTask(s *Set, a state.Assignment, status state.Status) *task {
	return &task{
		set: s, id: a.Task, log: s.opts.Log.With("task", a.Task), wake: make(chan struct{}, 1), events: make(chan func()),
		told: a, status: status, giveUp: func() {}, unwatch: func() {},
	}
}

// tell changes what the task was told, and wakes its goroutine.
func (t *task) tell(change func()) {
	t.mu.Lock()
	change()
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// seen returns what was observed of the task, and whether it is to be forgotten.
func (t *task) seen() (state.Status, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status, t.forgotten
}

func (t *task) ended() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status.State.Terminal()
}

// live reports whether something of the task runs, or may.
func (t *task) live() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.status.State.Terminal() && t.runtime != absent
}

func (t *task) driverName() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.told.Spec == nil {
		return t.handle.Driver
	}
	return t.told.Spec.Driver
}

// driver returns the task's driver, or nil if this agent has none of that name.
func (t *task) driver() driver.Driver { return t.set.drivers[t.driverName()] }

func (t *task) setRuntime(r runtime) {
	t.mu.Lock()
	t.runtime = r
	t.mu.Unlock()
	if r == absent {
		t.set.changed(t.id) // Halt may wait for it
	}
}

// run looks after the task until nothing of it is left, or the context ends.
func (t *task) run(ctx context.Context) {
	defer t.ops.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	switch t.runtime {
	case running, orphaned:
		t.attend(ctx)
	}
	for ctx.Err() == nil {
		now := time.Now()
		v, told := t.look(now)
		next := decide(v)
		if next == rest || now.Before(t.retryAt) && next.canFail() {
			t.sleep(ctx, now)
			continue
		}
		if t.act(ctx, next, v, told) {
			return
		}
	}
}

// canFail reports whether an action that failed is tried again after a pause.
func (a action) canFail() bool {
	switch a {
	case inquire, intend, stop, save, remove:
		return true
	case rest, start, abandon, announce, conclude:
	}
	return false
}

// look returns what the next step depends on.
func (t *task) look(now time.Time) (view, state.Assignment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := view{
		observed: t.status.State, runtime: t.runtime, forgotten: t.forgotten, sick: t.sick != "", startErr: t.startErr != nil,
		refused: t.refusal != "", unsaved: t.unsaved,
		wanted:   t.told.Desired.Wanted() && !t.forgotten,
		mayStart: t.confirmed && t.told.Start && t.told.Spec != nil && t.halt == nil,
	}
	if t.halt != nil && t.runtime != absent {
		v.wanted = false
	}
	if tooLong, _ := t.alone(); tooLong && t.runtime != absent {
		v.wanted, v.fenced = false, v.wanted
	}
	v.stopDue = t.order.due(now, t.graceNow())
	return v, t.told
}

// graceNow returns how long the task may take to stop. It is called with the lock held.
func (t *task) graceNow() time.Duration {
	g := grace(&t.told)
	if t.halt != nil && *t.halt >= 0 {
		g = min(g, *t.halt)
	}
	return g
}

// sleep waits until something may have changed.
func (t *task) sleep(ctx context.Context, now time.Time) {
	var at time.Time
	if now.Before(t.retryAt) {
		at = t.retryAt
	}
	if !t.ended() {
		t.mu.Lock()
		_, soon := t.alone()
		t.mu.Unlock()
		if look := now.Add(fenceCheck); soon && (at.IsZero() || look.Before(at)) {
			at = look
		}
	}
	if t.order.given && !t.ended() && (at.IsZero() || t.order.repeat.Before(at)) && now.Before(t.order.repeat) {
		at = t.order.repeat
	}
	var timeout <-chan time.Time
	if !at.IsZero() {
		timer := time.NewTimer(at.Sub(now))
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-ctx.Done():
	case <-t.wake:
	case f := <-t.events:
		f()
	case <-timeout:
	}
}

// post gives the task's goroutine what an operation found out.
func (t *task) post(ctx context.Context, f func()) {
	select {
	case t.events <- f:
	case <-ctx.Done():
	}
}

// observe takes a status over and makes it durable with the handle. It reports whether it is on the disk; if not, that is tried again.
func (t *task) observe(change func(*state.Status)) bool {
	t.mu.Lock()
	before := t.status
	change(&t.status)
	if t.status != before {
		t.status.At = time.Now()
		t.unsaved = true
	}
	changed := t.status != before
	ended := t.forgotten && t.status.State.Terminal()
	t.mu.Unlock()
	if !t.unsaved {
		return true
	}
	ok := t.saved()
	if changed {
		t.set.changed(t.id)
	}
	if ended {
		t.set.mu.Lock()
		t.set.straysChanged()
		t.set.mu.Unlock()
	}
	return ok
}

// saved writes what was observed, and reports whether it is on the disk.
func (t *task) saved() bool {
	status, _ := t.seen()
	b := state.Batch{Statuses: []state.Status{status}}
	if t.handle.TaskID != "" {
		b.Handles = []driver.Handle{t.handle}
	}
	if err := t.set.opts.Store.Commit(b); err != nil {
		t.failed("task state could not be written", err)
		return false
	}
	t.unsaved = false
	t.worked()
	return true
}

// failed notes that something could not be done, and when to try again.
func (t *task) failed(what string, err error) {
	t.log.Error(what, "error", err)
	t.retryAt = time.Now().Add(delay(t.failures))
	t.failures++
}

func (t *task) worked() { t.failures, t.retryAt = 0, time.Time{} }
