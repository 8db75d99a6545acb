package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/core/cgroup"
)

// strays lists tasks that have processes and no directory.
func (d *Driver) strays(root string) ([]driver.Listed, error) {
	left, err := scanMarked(d.boot, func(of taskDir) bool { return filepath.Dir(string(of)) == root })
	if err != nil {
		return nil, err
	}
	var dirs []taskDir
	for _, p := range left {
		dirs = append(dirs, p.dir)
	}
	for _, name := range d.groups.tree.Names(d.groups.prefix) {
		if len(d.groups.tree.Group(name).Processes()) > 0 {
			dirs = append(dirs, taskDir(filepath.Join(root, strings.TrimPrefix(name, d.groups.prefix))))
		}
	}
	slices.Sort(dirs)
	var out []driver.Listed
	for _, dir := range slices.Compact(dirs) {
		if _, err := os.Stat(string(dir)); err == nil {
			continue
		}
		if id, ok := unescapeID(filepath.Base(string(dir))); ok {
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
		if _, err := d.killLeft(ctx, dir, s.shim); err != nil {
			return err
		}
		return d.group(dir).Remove()
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
	group := d.group(dir)
	exit := driver.Exit{Code: driver.ExitUnknown, Started: s.shim.Started, Finished: time.Now(), Err: s.message, OOM: group.OOMKills() > 0}
	if killed > 0 {
		exit.Err = fmt.Sprintf("%s; %d processes that it left were killed", s.message, killed)
	}
	if err := writeRecord(dir.exit(), exit, true); err != nil {
		return err
	}
	return group.Remove()
}

// group is the task's control group: what its intent says, and what would be made for it now, which differ if the agent was moved to another group since.
func (d *Driver) group(dir taskDir) cgroup.Group {
	group := d.groups.of(dir)
	var in intent
	if ok, err := readRecord(dir.spec(), &in); ok && err == nil {
		for _, path := range in.Group.Dirs {
			if !slices.Contains(group.Dirs, path) {
				group.Dirs = append(group.Dirs, path)
			}
		}
	}
	return group
}

// killLeft kills every process of a task that no shim watches: its control group, its first process, what descends from it, and what carries its mark. It
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
		d.group(dir).Kill() // what forks faster than it is looked at ends all the same
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

// left returns the living processes of a task.
func (d *Driver) left(dir taskDir, record shimRecord) ([]identity, error) {
	var out []identity
	for _, pid := range d.group(dir).Processes() {
		if stat, err := readStat(pid); err == nil && !stat.dead() {
			out = append(out, identity{Boot: d.boot, Pid: pid, Start: stat.start})
		}
	}
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
		out = append(out, p.identity)
	}
	slices.SortFunc(out, func(a, b identity) int { return a.Pid - b.Pid })
	return slices.Compact(out), nil
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
