package process

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/setpointd/setpoint/agent/driver"
)

// errNotReady: a shim is being started and cannot be called yet.
var errNotReady = errors.New("the shim is starting")

// call connects to the task's shim and makes the request, with the task's id and mark filled in.
func (d *Driver) call(ctx context.Context, dir taskDir, req request) (*call, error) {
	end := time.Now().Add(answerTimeout)
	for {
		s, err := d.inspect(dir)
		if err != nil {
			return nil, err
		}
		if s.state != driver.StateRunning {
			return nil, driver.ErrNotFound
		}
		err = errNotReady
		if s.shim.Mark != "" {
			req.TaskID, req.Mark = s.taskID, s.mark
			var c *call
			if c, err = dir.dial(ctx, req, s.shim.Shim); err == nil {
				return c, nil
			}
		}
		// A shim listens before it writes its record's second half; refused and missing sockets mean that it begins or ends.
		starting := errors.Is(err, errNotReady) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED)
		if !starting || time.Now().After(end) {
			return nil, err
		}
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// Wait returns the exit record once everything of the task is gone, its shim included.
func (d *Driver) Wait(ctx context.Context, h driver.Handle) (driver.Exit, error) {
	pause := 5 * time.Millisecond
	for {
		dir, s, err := d.find(h)
		if err != nil {
			return driver.Exit{}, fmt.Errorf("wait for task %s: %w", h.TaskID, err)
		}
		switch s.state {
		case driver.StateAbsent:
			return driver.Exit{}, fmt.Errorf("wait for task %s: %w", h.TaskID, driver.ErrNotFound)
		case driver.StateNotStarted:
			return driver.Exit{}, fmt.Errorf("wait for task %s: %w", h.TaskID, driver.ErrNotStarted)
		case driver.StateExited:
			d.awaitEnd(ctx, dir)
			return s.exit, nil
		case driver.StateOrphaned:
			if err := d.settle(ctx, h); err != nil {
				return driver.Exit{}, fmt.Errorf("wait for task %s: %w", h.TaskID, err)
			}
			continue
		}
		c, err := d.call(ctx, dir, request{Op: opWait})
		if err == nil {
			stop := context.AfterFunc(ctx, c.interrupt)
			_, _ = c.answer() // an answer or a broken connection: the directory says which
			stop()
			c.close()
			pause = 5 * time.Millisecond
		}
		if ctx.Err() != nil {
			return driver.Exit{}, fmt.Errorf("wait for task %s: %w", h.TaskID, ctx.Err())
		}
		// The record is there by now, or the lock is about to become free, or a shim does not answer, which is asked less and less often.
		if _, s, err := d.find(h); err == nil && s.state == driver.StateRunning {
			if err := sleep(ctx, pause); err != nil {
				return driver.Exit{}, fmt.Errorf("wait for task %s: %w", h.TaskID, err)
			}
			pause = min(2*pause, time.Second)
		}
	}
}

// awaitEnd waits for a shim that has written its record, or told its refusal, to be gone, for as long as that may take at most.
func (d *Driver) awaitEnd(ctx context.Context, dir taskDir) {
	for end := time.Now().Add(2 * farewellTimeout); time.Now().Before(end); {
		d.reap(dir)
		d.mu.Lock()
		_, child := d.children[dir]
		d.mu.Unlock()
		if locked, err := dir.locked(); err != nil || !locked && !child {
			return
		}
		if sleep(ctx, 2*time.Millisecond) != nil {
			return
		}
	}
}

// Stop passes the order to the shim. Where no shim can take it, everything of the task is killed at once.
func (d *Driver) Stop(ctx context.Context, h driver.Handle, req driver.StopRequest) error {
	dir, s, err := d.find(h)
	if err != nil {
		return fmt.Errorf("stop task %s: %w", h.TaskID, err)
	}
	switch s.state {
	case driver.StateAbsent:
		return fmt.Errorf("stop task %s: %w", h.TaskID, driver.ErrNotFound)
	case driver.StateNotStarted, driver.StateExited:
		return nil
	case driver.StateOrphaned:
		if err := d.settle(ctx, h); err != nil {
			return fmt.Errorf("stop task %s: %w", h.TaskID, err)
		}
		return nil
	}
	if req.Signal == "" {
		var in intent
		if _, err := readRecord(dir.spec(), &in); err != nil {
			return fmt.Errorf("stop task %s: %w", h.TaskID, err)
		}
		req.Signal = in.Spec.StopSignal
	}
	if _, err := parseSignal(req.Signal); err != nil {
		return fmt.Errorf("stop task %s: %w", h.TaskID, err)
	}
	c, err := d.call(ctx, dir, request{Op: opStop, Signal: req.Signal, Grace: req.Grace})
	if err == nil {
		c.close()
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("stop task %s: %w", h.TaskID, ctx.Err())
	}
	if s, inspectErr := d.inspect(dir); inspectErr == nil && s.state == driver.StateExited {
		return nil
	}
	return d.force(ctx, h, dir, err)
}

// force ends a task whose shim lives and does not answer: the shim is killed, and then the task is an orphan.
func (d *Driver) force(ctx context.Context, h driver.Handle, dir taskDir, cause error) error {
	found, err := scanMarked(d.boot, func(of taskDir) bool { return of == dir })
	if err != nil {
		return fmt.Errorf("stop task %s: %w", h.TaskID, errors.Join(cause, err))
	}
	for _, p := range found {
		if p.shim {
			p.signal(d.boot, unix.SIGKILL)
		}
	}
	d.awaitEnd(ctx, dir)
	if err := d.settle(ctx, h); err != nil {
		return fmt.Errorf("stop task %s: %w", h.TaskID, errors.Join(cause, err))
	}
	if _, s, err := d.find(h); err != nil || s.state == driver.StateRunning {
		return fmt.Errorf("stop task %s: %w", h.TaskID, errors.Join(cause, err))
	}
	return nil
}

// Logs reads the task's log files. It needs no shim.
func (d *Driver) Logs(ctx context.Context, h driver.Handle, req driver.LogsRequest) iter.Seq2[driver.LogLine, error] {
	return func(yield func(driver.LogLine, error) bool) {
		dir := d.dir(h.TaskID)
		if _, err := os.Stat(string(dir)); err != nil {
			yield(driver.LogLine{}, fmt.Errorf("read logs of task %s: %w", h.TaskID, driver.ErrNotFound))
			return
		}
		ended := func() (bool, error) {
			s, err := d.inspect(dir)
			return s.state != driver.StateRunning, err
		}
		err := readLogs(ctx, dir.logs(), req, ended, func(l driver.LogLine) bool { return yield(l, nil) })
		if err != nil {
			yield(driver.LogLine{}, fmt.Errorf("read logs of task %s: %w", h.TaskID, err))
		}
	}
}
