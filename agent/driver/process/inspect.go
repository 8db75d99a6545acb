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
	"time"

	"golang.org/x/sys/unix"

	"github.com/setpointd/setpoint/agent/driver"
)

// A sight is what a task's directory says.
type sight struct {
	state   driver.State
	taskID  string // from the intent; empty if there is none
	mark    string
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
		s.taskID, s.mark = in.Spec.TaskID, in.Mark
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
		left, err := scanMarked(d.boot, func(of taskDir) bool { return of == dir })
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
		out = append(out, driver.Listed{Handle: newHandle(id, s.mark), Status: s.status()})
	}
	strays, err := d.strays(root)
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	out = append(out, strays...)
	slices.SortFunc(out, func(a, b driver.Listed) int { return strings.Compare(a.Handle.TaskID, b.Handle.TaskID) })
	return out, nil
}

// strays lists tasks that have processes and no directory.
func (d *Driver) strays(root string) ([]driver.Listed, error) {
	left, err := scanMarked(d.boot, func(of taskDir) bool { return filepath.Dir(string(of)) == root })
	if err != nil {
		return nil, err
	}
	var out []driver.Listed
	seen := make(map[taskDir]bool)
	for _, p := range left {
		if _, err := os.Stat(string(p.dir)); err == nil || seen[p.dir] {
			continue
		}
		seen[p.dir] = true
		if id, ok := unescapeID(filepath.Base(string(p.dir))); ok {
			status := driver.Status{State: driver.StateOrphaned, Message: "processes are left, and no directory"}
			out = append(out, driver.Listed{Handle: newHandle(id, ""), Status: status})
		}
	}
	return out, nil
}

// settle ends what is left of an orphaned task and writes the exit record that nobody else will write.
func (d *Driver) settle(ctx context.Context, h driver.Handle) error {
	dir := d.dir(h.TaskID)
	unlock, err := d.busy.lock(ctx, dir)
	if err != nil {
		return err
	}
	defer unlock()
	_, s, err := d.find(h)
	if err != nil || s.state != driver.StateOrphaned {
		return err
	}
	lock, err := dir.tryLock()
	if errors.Is(err, os.ErrNotExist) { // strays; there is nowhere to write and nobody who waits
		_, err := d.killLeft(ctx, dir, s.shim)
		return err
	}
	if err != nil || lock == nil { // without the lock somebody else settles it
		return err
	}
	defer lock.Close()
	var done driver.Exit
	if ended, err := readRecord(dir.exit(), &done); ended || err != nil {
		return err // somebody else was faster
	}
	killed, err := d.killLeft(ctx, dir, s.shim)
	if err != nil {
		return err
	}
	exit := driver.Exit{Code: driver.ExitUnknown, Started: s.shim.Started, Finished: time.Now(), Err: s.message}
	if killed > 0 {
		exit.Err = fmt.Sprintf("%s; %d processes that it left were killed", s.message, killed)
	}
	return writeRecord(dir.exit(), exit, true)
}

// killLeft kills every process of a task that no shim watches: its first process, what descends from it, and what carries its mark. It
// returns how many these were once two looks in a row found none, since a process that is just executing a program shows no mark.
func (d *Driver) killLeft(ctx context.Context, dir taskDir, record shimRecord) (int, error) {
	killed := make(map[identity]bool)
	pause := time.Millisecond
	clean := 0
	for end := time.Now().Add(killTimeout); clean < 2; {
		left, err := d.left(dir, record)
		if err != nil {
			return 0, err
		}
		for _, id := range left {
			killed[id] = true
			id.signal(d.boot, unix.SIGKILL)
		}
		clean++
		for id := range killed { // one that is dying shows no mark either
			if id.alive(d.boot) {
				clean = 0
			}
		}
		if time.Now().After(end) {
			return 0, fmt.Errorf("%d orphaned processes were killed, and some are still there after %v", len(killed), killTimeout)
		}
		if err := sleep(ctx, pause); err != nil {
			return 0, err
		}
		d.reap(dir)
		pause = min(2*pause, 100*time.Millisecond)
	}
	return len(killed), nil
}

func (d *Driver) left(dir taskDir, record shimRecord) ([]identity, error) {
	var out []identity
	if record.Task.alive(d.boot) {
		below, err := descendants(record.Task.Pid, d.boot)
		if err != nil {
			return nil, err
		}
		out = append(append(out, record.Task), below...)
	}
	found, err := scanMarked(d.boot, func(of taskDir) bool { return of == dir })
	if err != nil {
		return nil, err
	}
	for _, p := range found {
		if !slices.Contains(out, p.identity) {
			out = append(out, p.identity)
		}
	}
	return out, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
