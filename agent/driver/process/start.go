package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/setpointd/setpoint/agent/driver"
)

// Start writes the intent, starts a shim and waits until it tells that the task runs.
func (d *Driver) Start(ctx context.Context, spec driver.Spec) (driver.Handle, error) {
	dir := d.dir(spec.TaskID)
	unlock, err := d.busy.lock(ctx, dir)
	if err != nil {
		return driver.Handle{}, fmt.Errorf("start task %s: %w", spec.TaskID, err)
	}
	defer unlock()
	d.reapAll()
	seen, err := d.inspect(dir)
	if err != nil {
		return driver.Handle{}, fmt.Errorf("start task %s: %w", spec.TaskID, err)
	}
	if seen.state != driver.StateAbsent && seen.state != driver.StateNotStarted {
		return seen.handle(spec.TaskID), nil
	}
	in, err := d.plan(spec, dir)
	if err != nil {
		return driver.Handle{}, err
	}
	message, err := d.launch(ctx, dir, &in)
	if refused := (*driver.RejectedError)(nil); errors.As(err, &refused) {
		return driver.Handle{}, errors.Join(refused, d.discard(dir))
	}
	if err != nil {
		return driver.Handle{}, fmt.Errorf("start task %s: %w", spec.TaskID, err)
	}
	if message.Rejected || message.Err != "" {
		d.awaitEnd(ctx, dir)
		err := d.discard(dir)
		if message.Rejected {
			return driver.Handle{}, &driver.RejectedError{TaskID: spec.TaskID, Code: message.Code, Reason: message.Reason}
		}
		return driver.Handle{}, errors.Join(fmt.Errorf("start task %s: %s", spec.TaskID, message.Err), err)
	}
	h := newHandle(spec.TaskID, in.Mark)
	h.Unenforced = in.Unenforced
	return h, nil
}

// launch makes the directory and starts the shim in it. An error leaves everything as it is, for inspect to judge.
func (d *Driver) launch(ctx context.Context, dir taskDir, in *intent) (readyMessage, error) {
	if err := dir.create(*in); err != nil {
		return readyMessage{}, err
	}
	d.point("agent: directory made")
	lock, err := dir.tryLock()
	if err != nil {
		return readyMessage{}, fmt.Errorf("lock: %w", err)
	}
	if lock == nil {
		return readyMessage{}, errors.New("another shim holds the task's lock")
	}
	defer lock.Close()
	d.point("agent: directory locked")
	if err := d.confine(dir, in); err != nil {
		return readyMessage{}, err
	}
	d.point("agent: control group made")
	if err := writeRecord(dir.spec(), in, true); err != nil {
		return readyMessage{}, fmt.Errorf("write the intent: %w", err)
	}
	d.point("agent: intent written")
	ready, readyW, err := os.Pipe()
	if err != nil {
		return readyMessage{}, err
	}
	defer ready.Close()
	err = d.fork(dir, readyW, lock)
	if err = errors.Join(err, readyW.Close()); err != nil {
		return readyMessage{}, fmt.Errorf("start the shim: %w", err)
	}
	d.point("agent: shim started")
	ctx, cancel := context.WithTimeoutCause(ctx, d.opts.StartTimeout, fmt.Errorf("the shim said nothing for %v", d.opts.StartTimeout))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = ready.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	line, err := bufio.NewReader(io.LimitReader(ready, maxMessageBytes)).ReadBytes('\n')
	if err != nil {
		if ctx.Err() != nil {
			return readyMessage{}, context.Cause(ctx)
		}
		d.reap(dir)
		return readyMessage{}, fmt.Errorf("the shim ended before the task ran: %s", dir.lastWords())
	}
	var message readyMessage
	if err := json.Unmarshal(line, &message); err != nil {
		return readyMessage{}, fmt.Errorf("parse what the shim said: %w", err)
	}
	return message, nil
}

// create makes the directory and those in it. Only the working directory is the task's own.
func (dir taskDir) create(in intent) error {
	for path, mode := range map[string]os.FileMode{string(dir): 0o711, dir.logs(): 0o700, dir.work(): 0o700} {
		if err := os.MkdirAll(path, mode); err != nil {
			return err
		}
		if err := os.Chmod(path, mode); err != nil { // whatever the umask is
			return err
		}
	}
	if c := in.Credential; c != nil {
		return os.Chown(dir.work(), int(c.UID), int(c.GID))
	}
	return nil
}

// fork starts the shim, in its own session and with no descriptor but those that it is meant to have.
func (d *Driver) fork(dir taskDir, ready, lock *os.File) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	words, err := os.OpenFile(dir.shimLog(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer words.Close()
	argv := append(append([]string(nil), d.opts.Shim...), string(dir))
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{
		Dir: "/",
		// A shim does little; few threads and an early collection keep it small.
		Env:   []string{shimMark + "=" + string(dir), "GOMAXPROCS=1", "GOGC=20", "GOTRACEBACK=single"},
		Files: []uintptr{null.Fd(), null.Fd(), words.Fd(), ready.Fd(), lock.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.children[dir] = pid
	return nil
}

// lastWords is the end of what the shim wrote about itself.
func (dir taskDir) lastWords() string {
	f, err := os.Open(dir.shimLog())
	if err != nil {
		return "it left no word"
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > 1024 {
		_, _ = f.Seek(-1024, io.SeekEnd)
	}
	data, _ := io.ReadAll(io.LimitReader(f, 1024))
	if len(data) == 0 {
		return "it left no word"
	}
	return string(data)
}

// Remove deletes the task's directory. It is moved aside first, so that no half of it is ever taken for a task.
func (d *Driver) Remove(ctx context.Context, h driver.Handle) error {
	dir := d.dir(h.TaskID)
	unlock, err := d.busy.lock(ctx, dir)
	if err != nil {
		return fmt.Errorf("remove task %s: %w", h.TaskID, err)
	}
	defer unlock()
	d.reapAll()
	seen, err := d.inspect(dir)
	if err != nil {
		return fmt.Errorf("remove task %s: %w", h.TaskID, err)
	}
	switch seen.state {
	case driver.StateRunning:
		return fmt.Errorf("remove task %s: %w", h.TaskID, driver.ErrRunning)
	case driver.StateOrphaned:
		left, err := d.left(dir, seen.shim)
		if err != nil {
			return fmt.Errorf("remove task %s: %w", h.TaskID, err)
		}
		if len(left) > 0 {
			return fmt.Errorf("remove task %s: %d orphaned processes: %w", h.TaskID, len(left), driver.ErrRunning)
		}
	}
	if err := d.discard(dir); err != nil {
		return fmt.Errorf("remove task %s: %w", h.TaskID, err)
	}
	return nil
}

// discard deletes all that is kept of a task of which nothing runs.
func (d *Driver) discard(dir taskDir) error {
	if err := d.group(dir).Remove(); err != nil {
		return fmt.Errorf("remove its control group: %w", err)
	}
	d.point("agent: control group removed")
	bin, err := os.MkdirTemp(filepath.Join(d.opts.Dir, binDir), "")
	if err != nil {
		return err
	}
	if err := os.Rename(string(dir), filepath.Join(bin, "task")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return errors.Join(err, os.Remove(bin))
	}
	d.point("agent: directory moved aside")
	return os.RemoveAll(bin)
}
