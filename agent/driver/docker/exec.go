package docker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/setpointd/setpoint/agent/driver"
)

const (
	// execGrace is how long a command has to end in once nobody waits for it any more.
	execGrace = 2 * time.Second
	// execLook is how often the engine is asked whether a command has ended whose output has not: something that it left holds that.
	execLook = time.Second
	// maxWords bounds what is read of the engine's words about a command that it did not start, in bytes.
	maxWords = 4 << 10
	// endOfInput is what a person types at a terminal when there is no more.
	endOfInput = 4
)

var _ driver.Execer = (*Driver)(nil)

// errTaskEnded ends a command with its task.
var errTaskEnded = fmt.Errorf("the task has ended: %w", driver.ErrNotRunning)

// Exec has the engine run a command in the task's container. The engine ends no such command; so each carries a mark in its environment, which its children
// inherit, and by which it is found among the machine's processes. Of an engine on another machine no process is found: what is cut there ends by what it reads
// and writes, or with its task.
func (d *Driver) Exec(ctx context.Context, h driver.Handle, req driver.ExecRequest) (int, error) {
	if req.Stdin != nil {
		defer req.Stdin.Close()
	}
	code, err := d.exec(ctx, h, &req)
	if err != nil {
		return 0, fmt.Errorf("run a command in task %s: %w", h.TaskID, err)
	}
	return code, nil
}

func (d *Driver) exec(ctx context.Context, h driver.Handle, req *driver.ExecRequest) (int, error) {
	c, err := d.look(ctx, h.TaskID)
	switch {
	case err != nil:
		return 0, err
	case statusOf(c).State != driver.StateRunning:
		return 0, driver.ErrNotRunning
	}
	if problem := req.Problem(); problem != "" {
		return 0, &driver.ExecRefusedError{Code: driver.RejectBadSpec, Reason: problem}
	}
	mark := d.owner + "." + rand.Text()
	d.noteExec(mark, true)
	defer d.noteExec(mark, false)
	made, err := d.engine.ExecCreate(ctx, c.ID, client.ExecCreateOptions{
		User: req.User, WorkingDir: req.Dir, Env: append(environ(req.Env), markExec+"="+mark), Cmd: req.Command,
		TTY: req.TTY != nil, AttachStdin: req.Stdin != nil, AttachStdout: true, AttachStderr: true,
	})
	if err != nil {
		if err = plain(err); notFound(err) {
			err = errTaskEnded
		}
		return 0, err
	}
	wire, err := d.engine.ExecAttach(ctx, made.ID, client.ExecAttachOptions{TTY: req.TTY != nil})
	if err != nil {
		return 0, plain(err)
	}
	defer wire.Close()
	if err := d.execStarts(ctx, made.ID, &wire.HijackedResponse); err != nil {
		endMarked(func(m string) bool { return m == mark }, unix.SIGKILL, 0)
		return 0, err
	}
	if req.TTY != nil { // engines before API 1.42 take no size with the command
		_, _ = d.engine.ExecResize(ctx, made.ID, client.ExecResizeOptions{Height: uint(req.TTY.Rows), Width: uint(req.TTY.Columns)}) // it may have ended
	}
	if req.Started != nil {
		req.Started()
	}
	p := &passage{driver: d, id: made.ID, container: c.ID, mark: mark, req: req, wire: &wire.HijackedResponse, ended: make(chan struct{})}
	return p.run(ctx, h)
}

// execStarts waits until the engine says that the command runs, or has run. Of one that could not the engine writes why where its output would be.
func (d *Driver) execStarts(ctx context.Context, id string, wire *client.HijackedResponse) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("the engine did not start it within %s", startTimeout))
	defer cancel()
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		now, err := d.engine.ExecInspect(ctx, id, client.ExecInspectOptions{})
		switch {
		case context.Cause(ctx) != nil:
			return context.Cause(ctx)
		case notFound(err):
			return errTaskEnded
		case err != nil:
			return plain(err)
		case now.PID != 0:
			return nil
		case now.ExitCode != 0 && !now.Running:
			return refusedExec(now.ExitCode, wire)
		}
		if !pause(ctx, wait) {
			return context.Cause(ctx)
		}
	}
}

// refusedExec is what the engine says of a command that it did not start.
func refusedExec(code int, wire *client.HijackedResponse) error {
	_ = wire.Conn.SetReadDeadline(time.Now().Add(settlePause * 50))
	words, _ := io.ReadAll(io.LimitReader(wire.Reader, maxWords))
	text := strings.TrimSpace(string(words))
	if len(words) > 8 && words[0] <= 2 && words[1] == 0 { // in a frame, as output is
		text = strings.TrimSpace(string(words[8:]))
	}
	refused := &driver.ExecRefusedError{Code: driver.RejectRefusedBySystem, Reason: text}
	switch {
	case strings.Contains(text, "unable to find user"), strings.Contains(text, "unable to find group"), strings.Contains(text, "no matching entries in"):
		refused.Code = driver.RejectUnknownUser
	case strings.Contains(text, "chdir to cwd"):
		refused.Code = driver.RejectBadDirectory
	case code == 127, strings.Contains(text, "executable file not found"), strings.Contains(text, "no such file or directory"):
		refused.Code = driver.RejectNoCommand
	case code == 126 && strings.Contains(text, "permission denied"), strings.Contains(text, "exec format error"):
		refused.Code = driver.RejectNotExecutable
	}
	if refused.Reason == "" {
		refused.Reason = fmt.Sprintf("the engine could not start it, and says code %d", code)
	}
	return refused
}

// A passage is a command that runs, and its streams.
type passage struct {
	driver    *Driver
	id        string // the engine's
	container string
	mark      string
	req       *driver.ExecRequest
	wire      *client.HijackedResponse
	ended     chan struct{} // closed once the command has ended, or is not waited for any more
}

// run passes on what comes from either side until the command has ended and all that it started.
func (p *passage) run(ctx context.Context, h driver.Handle) (int, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var parts, output sync.WaitGroup
	defer parts.Wait()
	defer cancel(nil)
	parts.Go(func() { // with its task the command ends too
		if _, err := p.driver.Wait(ctx, h); err == nil {
			cancel(errTaskEnded)
		}
	})
	read := make(chan struct{})
	output.Go(func() {
		defer close(read)
		if err := p.passOutput(); err != nil {
			cancel(fmt.Errorf("pass on its output: %w", err))
		}
	})
	if p.req.Stdin != nil {
		parts.Go(p.passInput)
		defer p.req.Stdin.Close()
	}
	if p.req.TTY != nil && p.req.Resize != nil {
		parts.Go(func() { p.resize(ctx) })
	}
	defer close(p.ended)
	code, err := p.await(ctx, read)
	p.end(context.Cause(ctx))
	output.Wait()
	if err == nil && code == 128+int(unix.SIGKILL) { // perhaps with its task, which the engine tells when all of that is over
		pause(ctx, execLook)
	}
	if cause := context.Cause(ctx); cause != nil {
		return 0, cause
	}
	return code, err
}

// end ends what is left: at once if the command has ended or its task has, and otherwise as a person would who leaves.
func (p *passage) end(cause error) {
	grace, first := execGrace, unix.SIGTERM
	if p.req.TTY != nil {
		first = unix.SIGHUP
	}
	if cause == nil || errors.Is(cause, errTaskEnded) {
		grace = 0
	}
	endMarked(func(m string) bool { return m == p.mark }, first, grace)
	if cause != nil {
		p.wire.Close() // what is not on this machine sees the end of its streams at least
	}
}

// await waits until the command has ended, or the context has.
func (p *passage) await(ctx context.Context, read <-chan struct{}) (int, error) {
	look := time.NewTicker(execLook)
	defer look.Stop()
	for wait := time.Duration(0); ; wait = min(2*wait+time.Millisecond, execLook) {
		select {
		case <-read: // nothing more comes; the engine notes the end a moment later
			if !pause(ctx, wait) {
				return 0, ctx.Err()
			}
		case <-look.C:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		now, err := p.driver.engine.ExecInspect(ctx, p.id, client.ExecInspectOptions{})
		switch {
		case notFound(err):
			return 0, errTaskEnded // its container is gone
		case err != nil && !answered(err) && ctx.Err() == nil:
			return 0, fmt.Errorf("the engine went away: %w", plain(err))
		case err != nil:
			return 0, plain(err)
		case !now.Running:
			return now.ExitCode, nil
		}
	}
}

// passOutput passes on what the command writes, to its end. An error is of who takes it.
func (p *passage) passOutput() error {
	to := &sink{to: p.req.Stdout}
	errs := &sink{to: p.req.Stderr}
	if p.req.TTY != nil {
		_, _ = io.Copy(to, p.wire.Reader)
	} else {
		_, _ = stdcopy.StdCopy(to, errs, p.wire.Reader)
	}
	return errors.Join(to.err, errs.err)
}

// A sink keeps why nothing more could be written.
type sink struct {
	to  io.Writer
	err error
}

// Write writes to where it leads.
func (s *sink) Write(b []byte) (int, error) {
	n, err := s.to.Write(b)
	if err != nil {
		s.err = err
	}
	return n, err
}

// passInput passes on what comes for the command, to its end.
func (p *passage) passInput() {
	_, err := io.Copy(p.wire.Conn, p.req.Stdin)
	switch {
	case p.req.TTY == nil:
		_ = p.wire.CloseWrite()
		_ = p.req.Stdin.Close()
	case err == nil:
		_, _ = p.wire.Conn.Write([]byte{endOfInput})
	}
}

// resize tells the engine each new size of the terminal.
func (p *passage) resize(ctx context.Context) {
	for {
		select {
		case size := <-p.req.Resize:
			_, _ = p.driver.engine.ExecResize(ctx, p.id, client.ExecResizeOptions{Height: uint(size.Rows), Width: uint(size.Columns)}) // of one that has ended
		case <-p.ended:
			return
		case <-ctx.Done():
			return
		}
	}
}
