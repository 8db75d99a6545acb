package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/agent/state"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// act takes the next step. It reports true once nothing of the task is left.
func (t *task) act(ctx context.Context, next action, v view, told state.Assignment) (gone bool) {
	switch next {
	case rest:
	case inquire:
		t.find(ctx)
		if t.runtime == running || t.runtime == orphaned {
			t.attend(ctx)
		}
	case intend:
		t.intend()
	case start:
		t.start(ctx, told)
	case abandon:
		t.gaveUp = true
		t.giveUp()
		t.sleep(ctx, time.Now())
	case announce:
		t.observe(func(s *state.Status) {
			s.State, s.Healthy, s.Message = cluster.Running, t.passed, t.whileRunning("started")
		})
	case stop:
		t.fenced = t.fenced || v.fenced
		t.stop(ctx)
	case conclude:
		t.conclude(v)
	case save:
		t.saved()
	case remove:
		return t.remove(ctx)
	}
	return false
}

// find asks the driver what became of the task. It may be called before the task's goroutine runs.
func (t *task) find(ctx context.Context) {
	if t.ended() {
		return
	}
	d := t.driver()
	if d == nil {
		if t.status.State < cluster.Starting {
			t.setRuntime(absent)
			return
		}
		t.failed("task cannot be looked for", fmt.Errorf("this agent has no driver %q", t.driverName()))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, inquiryTimeout)
	defer cancel()
	if t.handle.TaskID == "" {
		t.handle = driver.Handle{Driver: d.Name(), TaskID: string(t.id)}
	}
	status, err := d.Recover(ctx, t.handle)
	if err != nil {
		t.failed("driver does not tell what became of the task", err)
		return
	}
	t.worked()
	t.since = status.Started
	switch status.State {
	case driver.StateAbsent, driver.StateNotStarted:
		t.setRuntime(absent)
	case driver.StateRunning:
		t.setRuntime(running)
	case driver.StateOrphaned:
		t.log.Warn("task is orphaned", "message", status.Message)
		t.setRuntime(orphaned)
	case driver.StateExited:
		t.exit, t.revived = *status.Exit, true
		t.setRuntime(ended)
	}
}

// intend writes down that the task is about to be started. Nothing is started that was not.
func (t *task) intend() {
	d := t.driver()
	if d == nil {
		t.refusal = fmt.Sprintf("this node has no driver %q", t.driverName())
		return
	}
	t.handle = driver.Handle{Driver: d.Name(), TaskID: string(t.id)}
	t.observe(func(s *state.Status) { s.State = cluster.Starting })
}

// start has the driver start the task.
func (t *task) start(ctx context.Context, told state.Assignment) {
	d := t.driver()
	placed, ok := t.placeSecrets(&told)
	if !ok {
		return
	}
	spec := driverSpec(&told, t.set.opts.Node, t.set.opts.Cluster)
	spec.Secrets = placed
	attempt, cancel := context.WithCancel(ctx)
	t.giveUp = cancel
	t.setRuntime(starting)
	t.log.Info("task starting", "driver", d.Name())
	t.ops.Go(func() {
		defer cancel()
		h, err := t.set.start(attempt, d, spec)
		t.post(ctx, func() { t.started(ctx, h, err) })
	})
}

// start waits for a place among the starts that go on.
func (s *Set) start(ctx context.Context, d driver.Driver, spec driver.Spec) (driver.Handle, error) {
	select {
	case s.starts <- struct{}{}:
		defer func() { <-s.starts }()
	case <-ctx.Done():
		return driver.Handle{}, ctx.Err()
	}
	return d.Start(ctx, spec)
}

// started takes the result of a start.
func (t *task) started(ctx context.Context, h driver.Handle, err error) {
	var refused *driver.RejectedError
	switch {
	case err == nil:
		t.handle, t.since, t.unsaved = h, time.Now(), true
		t.forgetValues()
		if len(h.Unenforced) > 0 {
			t.log.Warn("task runs without limits that it asks for", "reason", strings.Join(h.Unenforced, "; "))
		}
		t.setRuntime(running)
		t.attend(ctx)
	case errors.As(err, &refused):
		t.refusal = refused.Reason
		t.setRuntime(absent)
	default:
		if !t.gaveUp {
			t.startErr = err // of no account if it runs after all
		}
		t.setRuntime(unknown)
	}
}

// whileRunning is a message of a task that runs, with what of its limits nobody holds it to.
func (t *task) whileRunning(message string) string {
	if len(t.handle.Unenforced) == 0 {
		return message
	}
	return message + "; not enforced here: " + strings.Join(t.handle.Unenforced, "; ")
}

// attend waits for the end of what runs, and checks its health meanwhile.
func (t *task) attend(ctx context.Context) {
	d, h := t.driver(), t.handle
	t.startErr = nil
	if t.runtime == running {
		t.watch(ctx)
	}
	t.ops.Go(func() {
		exit, err := d.Wait(ctx, h)
		t.post(ctx, func() { t.exited(exit, err) })
	})
}

func (t *task) exited(exit driver.Exit, err error) {
	t.unwatch()
	if err != nil {
		if !errors.Is(err, driver.ErrNotFound) && !errors.Is(err, driver.ErrNotStarted) {
			t.failed("driver does not wait for the task", err)
		}
		t.setRuntime(unknown)
		return
	}
	t.exit = exit
	t.setRuntime(ended)
}

// stop orders the driver to stop the task, or to do so sooner.
func (t *task) stop(ctx context.Context) {
	t.unwatch()
	now := time.Now()
	t.mu.Lock()
	g := t.order.grace(now, t.graceNow())
	t.mu.Unlock()
	if t.order.given && !now.Before(t.order.repeat) {
		t.log.Warn("task did not end in time, killing it again")
	}
	err := t.driver().Stop(ctx, t.handle, driver.StopRequest{Grace: g})
	switch {
	case err == nil:
		t.order.give(now, g)
		t.worked()
		t.log.Info("task stopping", "grace", g)
	case errors.Is(err, driver.ErrNotFound):
		t.setRuntime(unknown)
	default:
		t.failed("task could not be told to stop", err)
	}
}

// conclude observes how the task ended.
func (t *task) conclude(v view) {
	t.unwatch()
	t.removeSecrets()
	outcome := t.outcome(v)
	t.observe(func(s *state.Status) {
		s.State, s.Err, s.ExitCode, s.Healthy = outcome.State, outcome.Err, outcome.ExitCode, false
		if outcome.Message != "" {
			s.Message = outcome.Message
		}
	})
	t.log.Info("task ended", "state", outcome.State, "exit_code", outcome.ExitCode, "reason", outcome.Err)
}

// remove has the driver remove what it keeps of the task, and then drops the record.
func (t *task) remove(ctx context.Context) (gone bool) {
	d, h := t.driver(), t.handle
	switch {
	case d == nil && h.TaskID != "":
		t.log.Warn("task is forgotten, and its driver is not there to remove what it keeps of it", "driver", t.driverName())
	case d != nil:
		if err := d.Remove(ctx, driver.Handle{Driver: d.Name(), TaskID: string(t.id), Data: h.Data}); err != nil {
			t.failed("task could not be removed", err)
			return false
		}
	}
	if err := t.set.opts.Store.Commit(state.Batch{Deleted: []cluster.TaskID{t.id}}); err != nil {
		t.failed("task record could not be deleted", err)
		return false
	}
	t.set.drop(t.id)
	return true
}
