package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/core/cgroup"
)

// A sight is what a task's directory says.
type sight struct {
	state   driver.State
	taskID  string // from the intent; empty if there is none
	mark    string
	lacks   []string // the intent's Unenforced
	group   cgroup.Group
	shim    shimRecord // zero until the shim wrote it
	exit    driver.Exit
	message string
}

// inspect judges a directory by its lock and records. It changes nothing and signals nobody.
func (d *Driver) inspect(dir taskDir) (sight, error) {
	if _, err := os.Stat(string(dir)); errors.Is(err, os.ErrNotExist) {
		return sight{state: driver.StateAbsent}, nil
	}
	// The lock first: if it is free the shim has done all it ever will, so what is read afterwards is final.
	locked, err := dir.locked()
	if err != nil {
		return sight{}, err
	}
	var in intent
	var s sight
	if _, err := readRecord(dir.spec(), &in); err == nil { // an unreadable intent is one that a power failure cut short
		s.taskID, s.mark, s.lacks, s.group = in.Spec.TaskID, in.Mark, in.Unenforced, in.Group
	}
	ended, err := readRecord(dir.exit(), &s.exit)
	if err == nil && ended {
		s.state = driver.StateExited
		return s, nil
	}
	begun, recordErr := readRecord(dir.shim(), &s.shim)
	begun = begun || recordErr != nil // there, and unreadable
	switch {
	case locked:
		s.state = driver.StateRunning
	case begun:
		s.state, s.message = driver.StateOrphaned, "its shim is gone and left no exit record"
		if s.shim.Shim.Boot != "" && s.shim.Shim.Boot != d.boot {
			s.message = "the machine was restarted while it ran"
		}
	default:
		s.state = driver.StateNotStarted
	}
	return s, nil
}

// handle is a sight's for the agent.
func (s sight) handle(taskID string) driver.Handle {
	h := newHandle(taskID, s.mark)
	h.Unenforced = s.lacks
	return h
}

// status is a sight for the agent.
func (s sight) status() driver.Status {
	out := driver.Status{State: s.state, Started: s.shim.Started, Message: s.message}
	if s.state == driver.StateExited {
		out.Exit, out.Started = &s.exit, s.exit.Started
	}
	return out
}

// find inspects the handle's task. A task whose directory is gone but of which processes are left is orphaned.
func (d *Driver) find(h driver.Handle) (taskDir, sight, error) {
	dir := d.dir(h.TaskID)
	s, err := d.inspect(dir)
	if err != nil {
		return dir, sight{}, err
	}
	var data handleData
	if len(h.Data) > 0 && json.Unmarshal(h.Data, &data) == nil && s.mark != "" && data.Mark != s.mark {
		return dir, sight{state: driver.StateAbsent, message: "what is here is of another start"}, nil
	}
	if s.state == driver.StateAbsent {
		left, err := d.left(dir, shimRecord{})
		if err != nil {
			return dir, sight{}, err
		}
		if len(left) > 0 {
			s.state, s.message = driver.StateOrphaned, fmt.Sprintf("%d processes are left, and no directory", len(left))
		}
	}
	return dir, s, nil
}

// Recover tells what became of the task.
func (d *Driver) Recover(ctx context.Context, h driver.Handle) (driver.Status, error) {
	dir, s, err := d.find(h)
	if err != nil {
		return driver.Status{}, fmt.Errorf("recover task %s: %w", h.TaskID, err)
	}
	if s.state == driver.StateRunning {
		c, err := d.call(ctx, dir, request{Op: opPing})
		switch {
		case err == nil:
			c.close()
		case ctx.Err() != nil:
			return driver.Status{}, fmt.Errorf("recover task %s: %w", h.TaskID, ctx.Err())
		default: // it may have ended this moment
			if _, s, err = d.find(h); err != nil {
				return driver.Status{}, fmt.Errorf("recover task %s: %w", h.TaskID, err)
			}
			if s.state == driver.StateRunning {
				s.message = "its shim lives and does not answer"
			}
		}
	}
	return s.status(), nil
}

// List reads the directories, and looks for marked processes that have none.
func (d *Driver) List(ctx context.Context) ([]driver.Listed, error) {
	d.reapAll()
	root := filepath.Join(d.opts.Dir, tasksDir)
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	var out []driver.Listed
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		dir := taskDir(filepath.Join(root, e.Name()))
		s, err := d.inspect(dir)
		if err != nil {
			return nil, fmt.Errorf("list tasks: %w", err)
		}
		id, known := unescapeID(e.Name())
		if s.taskID != "" {
			id, known = s.taskID, true
		}
		if s.state == driver.StateAbsent || !known || d.dir(id) != dir {
			continue // removed meanwhile, or not ours
		}
		out = append(out, driver.Listed{Handle: s.handle(id), Status: s.status()})
	}
	strays, err := d.strays(root)
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	out = append(out, strays...)
	slices.SortFunc(out, func(a, b driver.Listed) int { return strings.Compare(a.Handle.TaskID, b.Handle.TaskID) })
	return out, nil
}
