package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/setpointd/setpoint/agent/driver"
)

// execGrace is how long a command has to end in once nobody waits for it any more.
const execGrace = 2 * time.Second

// errTaskEnded ends a command with its task.
var errTaskEnded = fmt.Errorf("the task has ended: %w", driver.ErrNotRunning)

// Exec starts an escort, which starts the command and ends it when this process, or whoever waits here, is gone.
func (d *Driver) Exec(ctx context.Context, h driver.Handle, req driver.ExecRequest) (int, error) {
	code, err := d.exec(ctx, h, req)
	if err != nil {
		return 0, fmt.Errorf("run a command in task %s: %w", h.TaskID, err)
	}
	return code, nil
}

func (d *Driver) exec(ctx context.Context, h driver.Handle, req driver.ExecRequest) (int, error) {
	if req.Stdin != nil {
		defer req.Stdin.Close()
	}
	dir, s, err := d.find(h)
	switch {
	case err != nil:
		return 0, err
	case s.state == driver.StateAbsent:
		return 0, driver.ErrNotFound
	case s.state != driver.StateRunning || s.shim.Task.Pid == 0:
		return 0, driver.ErrNotRunning
	}
	in, err := d.planExec(dir, &req)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel(nil)
	group.Go(func() { // with its task the command ends too, where no control group sees to that
		if _, err := d.Wait(ctx, h); err == nil {
			cancel(errTaskEnded)
		}
	})
	w, err := openWires(&req, in.Credential)
	if err != nil {
		return 0, err
	}
	defer w.close(req.Stdin)
	e, err := d.startEscort(dir, w)
	if err != nil {
		return 0, fmt.Errorf("start its escort: %w", err)
	}
	defer e.end()
	if err := e.begin(ctx, in); err != nil {
		return 0, err
	}
	if req.Started != nil {
		req.Started()
	}
	stop := context.AfterFunc(ctx, func() { e.cut(ctx); w.hangUp() })
	defer stop()
	w.run(ctx, &req, cancel)
	code, err := e.exit()
	written := w.drain()
	switch cause := context.Cause(ctx); {
	case cause != nil:
		return 0, cause
	case err == nil && code == 128+int(unix.SIGKILL) && !s.shim.Task.alive(d.boot):
		return 0, errTaskEnded // the shim was faster
	}
	return code, errors.Join(err, written)
}

// An escort is the process beside a command, as the agent has it. It is told what to run, and what it is to do about the end, over a socket; that socket's end is
// the order to end the command.
type escort struct {
	process *os.Process
	control *net.UnixConn
	answers *json.Decoder
	dir     taskDir
}

// startEscort starts the process; nothing is run before it is told what.
func (d *Driver) startEscort(dir taskDir, w *wires) (*escort, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socketpair: %w", err)
	}
	near, far := os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control")
	defer near.Close()
	defer far.Close()
	conn, err := net.FileConn(near)
	if err != nil {
		return nil, err
	}
	e := &escort{control: conn.(*net.UnixConn), answers: json.NewDecoder(conn), dir: dir}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	defer null.Close()
	words, err := os.OpenFile(dir.shimLog(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	defer words.Close()
	argv := append(append([]string(nil), d.opts.Shim...), escortFlag, string(dir))
	e.process, err = os.StartProcess(argv[0], argv, &os.ProcAttr{
		Dir:   "/",
		Env:   []string{shimMark + "=" + string(dir), "GOMAXPROCS=1", "GOGC=20", "GOTRACEBACK=single"},
		Files: []*os.File{null, null, words, far, w.far[0], w.far[1], w.far[2]},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	w.closeFar()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return e, nil
}

// begin has the escort start the command, and returns once that runs.
func (e *escort) begin(ctx context.Context, in execution) error {
	stop := context.AfterFunc(ctx, func() { _ = e.control.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := json.NewEncoder(e.control).Encode(in); err != nil {
		return errors.Join(context.Cause(ctx), fmt.Errorf("tell its escort: %w: %s", err, e.dir.lastWords()))
	}
	var m escortMessage
	if err := e.answers.Decode(&m); err != nil {
		return errors.Join(context.Cause(ctx), fmt.Errorf("its escort ended before it ran: %w: %s", err, e.dir.lastWords()))
	}
	switch {
	case m.Code != "":
		return &driver.ExecRefusedError{Code: m.Code, Reason: m.Reason}
	case m.Err != "":
		return errors.New(m.Err)
	}
	return nil
}

// cut orders the end of the command; at once, if the task has ended.
func (e *escort) cut(ctx context.Context) {
	grace := execGrace
	if errors.Is(context.Cause(ctx), errTaskEnded) {
		grace = 0
	}
	_ = json.NewEncoder(e.control).Encode(escortOrder{Grace: grace}) // without it the end of the socket says the same
	_ = e.control.CloseWrite()
}

// exit returns the command's exit code once nothing of it is left.
func (e *escort) exit() (int, error) {
	var m escortMessage
	if err := e.answers.Decode(&m); err != nil || m.Exit == nil {
		return 0, errors.New("nobody saw how it ended: its escort was killed")
	}
	if m.Err != "" {
		return 0, errors.New(m.Err)
	}
	return *m.Exit, nil
}

// end hangs up, which ends what still runs, and waits for the escort.
func (e *escort) end() {
	_ = e.control.Close()
	_, _ = e.process.Wait() // its own end; how the command ended it has told
}
