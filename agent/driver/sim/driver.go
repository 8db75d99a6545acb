package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/setpointd/setpoint/agent/driver"
)

// Name is the driver's name in job files.
const Name = "sim"

// Options say where the driver keeps its events.
type Options struct {
	// Dir is created if missing. One driver uses it at a time.
	Dir string
}

// Driver is the sim driver. It holds no goroutine and no descriptor between calls, so there is nothing to close.
type Driver struct {
	dir string

	mu       sync.Mutex
	tasks    map[string]*task
	starting map[string]chan struct{} // closed when the start of that task was decided
}

var (
	_ driver.Driver         = (*Driver)(nil)
	_ driver.HealthReporter = (*Driver)(nil)
)

// New reads what happened in the directory and returns the driver.
func New(opts Options) (*Driver, error) {
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("sim driver: %w", err)
	}
	d := &Driver{dir: opts.Dir, tasks: make(map[string]*task), starting: make(map[string]chan struct{})}
	size, err := readEvents(d.dir, d.replay)
	if err == nil && size > 0 {
		err = os.Truncate(eventsPath(d.dir), size)
	}
	if err != nil {
		return nil, fmt.Errorf("sim driver: %w", err)
	}
	return d, nil
}

// Name is "sim".
func (d *Driver) Name() string { return Name }

// Fingerprint tells only that the driver is there.
func (d *Driver) Fingerprint(ctx context.Context) (driver.Fingerprint, error) {
	return driver.Fingerprint{Attributes: map[string]string{"driver.sim": "true"}}, ctx.Err()
}

// Start lets the scripted delay pass and then records that the task runs.
func (d *Driver) Start(ctx context.Context, spec driver.Spec) (driver.Handle, error) {
	h := driver.Handle{Driver: Name, TaskID: spec.TaskID}
	mine := make(chan struct{})
	for {
		d.mu.Lock()
		if d.tasks[spec.TaskID] != nil {
			d.mu.Unlock()
			return h, nil
		}
		other := d.starting[spec.TaskID]
		if other == nil {
			d.starting[spec.TaskID] = mine
			d.mu.Unlock()
			break
		}
		d.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return driver.Handle{}, fmt.Errorf("start task %s: %w", spec.TaskID, ctx.Err())
		}
	}
	err := d.start(ctx, spec)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.starting, spec.TaskID)
	close(mine)
	if err != nil {
		return driver.Handle{}, err
	}
	return h, nil
}

func (d *Driver) start(ctx context.Context, spec driver.Spec) error {
	s, err := parseScript(spec.Settings)
	code := driver.RejectBadSpec
	switch {
	case spec.TaskID == "":
		err = errors.New("the task has no id")
	case err == nil && s.reject != "":
		err, code = errors.New(s.reject), driver.RejectRefusedBySystem
	case err == nil:
		_, err = signalName(spec.StopSignal)
	}
	if err != nil {
		why := &driver.RejectedError{TaskID: spec.TaskID, Code: code, Reason: err.Error()}
		d.mu.Lock()
		defer d.mu.Unlock()
		if err := d.write(Event{Time: time.Now(), Kind: Rejected, TaskID: spec.TaskID, Reason: why.Reason}); err != nil {
			return errors.Join(why, err)
		}
		return why
	}
	if s.startDelay > 0 {
		timer := time.NewTimer(s.startDelay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return fmt.Errorf("start task %s: %w", spec.TaskID, ctx.Err())
		}
	}
	if s.failStart != "" {
		return fmt.Errorf("start task %s: %s", spec.TaskID, s.failStart)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if err := d.write(Event{Time: now, Kind: Started, TaskID: spec.TaskID, Spec: &spec}); err != nil {
		return fmt.Errorf("start task %s: %w", spec.TaskID, err)
	}
	d.tasks[spec.TaskID] = &task{spec: spec, script: s, started: now, changed: make(chan struct{})}
	return nil
}

// get returns the task, with its end written down if it has ended. It is called with the lock held.
func (d *Driver) get(id string) (*task, error) {
	t := d.tasks[id]
	if t == nil {
		return nil, driver.ErrNotFound
	}
	exit, ends := t.end()
	if t.exit != nil || !ends || exit.Finished.After(time.Now()) {
		return t, nil
	}
	if err := d.write(Event{Time: exit.Finished, Kind: Ended, TaskID: id, Exit: &exit}); err != nil {
		return nil, err
	}
	t.exit = &exit
	t.notify()
	return t, nil
}

func (t *task) status() driver.Status {
	if t.exit != nil {
		return driver.Status{State: driver.StateExited, Started: t.started, Exit: new(*t.exit)}
	}
	return driver.Status{State: driver.StateRunning, Started: t.started}
}

// Recover tells what became of the task.
func (d *Driver) Recover(_ context.Context, h driver.Handle) (driver.Status, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t, err := d.get(h.TaskID)
	if errors.Is(err, driver.ErrNotFound) {
		return driver.Status{State: driver.StateAbsent}, nil
	}
	if err != nil {
		return driver.Status{}, fmt.Errorf("recover task %s: %w", h.TaskID, err)
	}
	return t.status(), nil
}

// Wait sleeps until the task's end as it stands, and looks again when that changes.
func (d *Driver) Wait(ctx context.Context, h driver.Handle) (driver.Exit, error) {
	for {
		d.mu.Lock()
		t, err := d.get(h.TaskID)
		if err != nil {
			d.mu.Unlock()
			return driver.Exit{}, fmt.Errorf("wait for task %s: %w", h.TaskID, err)
		}
		exit, ends := t.end()
		done, changed := t.exit != nil, t.changed
		d.mu.Unlock()
		if done {
			return exit, nil
		}
		var timeout <-chan time.Time
		if ends {
			timeout = time.After(time.Until(exit.Finished))
		}
		select {
		case <-timeout:
		case <-changed:
		case <-ctx.Done():
			return driver.Exit{}, fmt.Errorf("wait for task %s: %w", h.TaskID, ctx.Err())
		}
	}
}

// Stop records the order.
func (d *Driver) Stop(_ context.Context, h driver.Handle, req driver.StopRequest) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	t, err := d.get(h.TaskID)
	if err != nil {
		return fmt.Errorf("stop task %s: %w", h.TaskID, err)
	}
	signal, err := signalName(cmp.Or(req.Signal, t.spec.StopSignal))
	if err != nil {
		return fmt.Errorf("stop task %s: %w", h.TaskID, err)
	}
	now := time.Now()
	if t.exit != nil || !t.order(signal, now, req.Grace) {
		return nil
	}
	err = d.write(Event{Time: now, Kind: StopAsked, TaskID: h.TaskID, Signal: signal, Grace: max(req.Grace, 0)})
	t.notify()
	if err != nil {
		return fmt.Errorf("stop task %s: %w", h.TaskID, err)
	}
	return nil
}

// Remove drops the record of a task that has ended.
func (d *Driver) Remove(_ context.Context, h driver.Handle) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	t, err := d.get(h.TaskID)
	switch {
	case errors.Is(err, driver.ErrNotFound):
		return nil
	case err == nil && t.exit == nil:
		err = driver.ErrRunning
	case err == nil:
		err = d.write(Event{Time: time.Now(), Kind: Removed, TaskID: h.TaskID})
	}
	if err != nil {
		return fmt.Errorf("remove task %s: %w", h.TaskID, err)
	}
	delete(d.tasks, h.TaskID)
	t.notify()
	return nil
}

// List tells of every task that was started and not removed.
func (d *Driver) List(_ context.Context) ([]driver.Listed, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []driver.Listed
	for id := range d.tasks {
		t, err := d.get(id)
		if err != nil {
			return nil, fmt.Errorf("list tasks: %w", err)
		}
		out = append(out, driver.Listed{Handle: driver.Handle{Driver: Name, TaskID: id}, Status: t.status()})
	}
	slices.SortFunc(out, func(a, b driver.Listed) int { return strings.Compare(a.Handle.TaskID, b.Handle.TaskID) })
	return out, nil
}

// Health is as scripted.
func (d *Driver) Health(_ context.Context, h driver.Handle) (driver.Health, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t, err := d.get(h.TaskID)
	if err != nil {
		return driver.Health{}, fmt.Errorf("check task %s: %w", h.TaskID, err)
	}
	return t.script.health(time.Since(t.started)), nil
}

// Logs yields the scripted lines as their times come.
func (d *Driver) Logs(ctx context.Context, h driver.Handle, req driver.LogsRequest) iter.Seq2[driver.LogLine, error] {
	return func(yield func(driver.LogLine, error) bool) {
		if err := d.logs(ctx, h, req, yield); err != nil {
			yield(driver.LogLine{}, fmt.Errorf("read logs of task %s: %w", h.TaskID, err))
		}
	}
}

func (d *Driver) logs(ctx context.Context, h driver.Handle, req driver.LogsRequest, yield func(driver.LogLine, error) bool) error {
	told := -1 // lines already yielded or left out; -1: nothing was looked at yet
	for {
		d.mu.Lock()
		t, err := d.get(h.TaskID)
		if err != nil {
			d.mu.Unlock()
			if told >= 0 && errors.Is(err, driver.ErrNotFound) {
				return nil // removed while it was followed
			}
			return err
		}
		until := time.Now()
		if t.exit != nil {
			until = t.exit.Finished
		}
		out := t.output(until, req.Stream)
		done, changed := t.exit != nil || !req.Follow, t.changed
		next, more := t.wake(until)
		d.mu.Unlock()
		if told < 0 {
			told = 0
			if req.Tail > 0 {
				told = max(0, len(out)-req.Tail)
			}
		}
		for ; told < len(out); told++ {
			if !out[told].Time.Before(req.Since) && !yield(out[told], nil) {
				return nil
			}
		}
		if done {
			return nil
		}
		var timeout <-chan time.Time
		if more {
			timeout = time.After(time.Until(next))
		}
		select {
		case <-timeout:
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wake is when a follower must look again: at the next line or at the end, whichever is first.
func (t *task) wake(now time.Time) (time.Time, bool) {
	exit, ends := t.end()
	next, more := exit.Finished, ends
	for i := range max(len(t.script.stdout), len(t.script.stderr)) {
		at := t.started.Add(time.Duration(i) * t.script.logEvery)
		if at.After(now) && (!more || at.Before(next)) {
			return at, true
		}
	}
	return next, more
}

// signals are those that a task can be asked to end with.
var signals = map[string]int{
	"HUP": 1, "INT": 2, "QUIT": 3, "ABRT": 6, "KILL": 9, "USR1": 10, "USR2": 12, "ALRM": 14, "TERM": 15, "WINCH": 28, "PWR": 30,
}

// signalName reads a signal's name, with or without SIG; empty means TERM.
func signalName(name string) (string, error) {
	short := strings.TrimPrefix(strings.ToUpper(cmp.Or(name, "TERM")), "SIG")
	if _, ok := signals[short]; !ok {
		return "", fmt.Errorf("unknown signal %q; known are %v", name, slices.Sorted(maps.Keys(signals)))
	}
	return short, nil
}
