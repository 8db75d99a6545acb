package sim

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/setpointd/setpoint/agent/driver"
)

var _ driver.Execer = (*Driver)(nil)

// errTaskEnded ends a command with its task.
var errTaskEnded = fmt.Errorf("the task has ended: %w", driver.ErrNotRunning)

// Exec plays a command: its words say what it does.
func (d *Driver) Exec(ctx context.Context, h driver.Handle, req driver.ExecRequest) (int, error) {
	code, err := d.exec(ctx, h, req)
	if err != nil {
		return 0, fmt.Errorf("run a command in task %s: %w", h.TaskID, err)
	}
	return code, nil
}

func (d *Driver) exec(ctx context.Context, h driver.Handle, req driver.ExecRequest) (int, error) {
	if req.Stdin == nil {
		req.Stdin = io.NopCloser(strings.NewReader(""))
	}
	defer req.Stdin.Close()
	d.mu.Lock()
	t, err := d.get(h.TaskID)
	ended := err == nil && t.exit != nil
	d.mu.Unlock()
	switch {
	case err != nil:
		return 0, err
	case ended:
		return 0, driver.ErrNotRunning
	}
	if err := refuse(&req); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel(nil)
	watching.Go(func() {
		if _, err := d.Wait(ctx, h); err == nil {
			cancel(errTaskEnded)
		}
	})
	stop := context.AfterFunc(ctx, func() { _ = req.Stdin.Close() }) // a read that waits ends
	defer stop()
	p := &play{ctx: ctx, req: &req, spec: &t.spec, in: bufio.NewReader(req.Stdin)}
	if req.TTY != nil {
		p.size = *req.TTY
		watching.Go(p.resize)
	}
	if req.Started != nil {
		req.Started()
	}
	code, err := p.run(req.Command)
	if cause := context.Cause(ctx); cause != nil {
		return 0, cause
	}
	return code, err
}

// verbs are the words that a command may have, each with how many words it takes.
var verbs = map[string]int{"out": 1, "err": 1, "env": 1, "size": 0, "cat": 0, "hang": 0, "exit": 1}

// refuse returns a *driver.ExecRefusedError for what cannot be played.
func refuse(req *driver.ExecRequest) error {
	if problem := req.Problem(); problem != "" {
		return &driver.ExecRefusedError{Code: driver.RejectBadSpec, Reason: problem}
	}
	if req.User != "" {
		return &driver.ExecRefusedError{Code: driver.RejectUnknownUser, Reason: "tasks on paper know no users, " + req.User + " among them"}
	}
	for words := req.Command; len(words) > 0; {
		takes, known := verbs[words[0]]
		switch {
		case !known:
			return &driver.ExecRefusedError{Code: driver.RejectNoCommand, Reason: fmt.Sprintf("no such command: %s; there are out, err, env, size, cat, hang and exit", words[0])}
		case len(words) <= takes:
			return &driver.ExecRefusedError{Code: driver.RejectBadSpec, Reason: words[0] + " takes a word"}
		}
		if _, err := strconv.ParseUint(words[takes], 10, 8); words[0] == "exit" && err != nil {
			return &driver.ExecRefusedError{Code: driver.RejectBadSpec, Reason: "exit takes a number from 0 to 255, not " + words[1]}
		}
		words = words[1+takes:]
	}
	return nil
}

// A play is a command that runs.
type play struct {
	ctx  context.Context // for what it waits
	req  *driver.ExecRequest
	spec *driver.Spec
	in   *bufio.Reader

	mu   sync.Mutex // guards size
	size driver.WindowSize
}

// resize follows the terminal's size.
func (p *play) resize() {
	for {
		select {
		case size := <-p.req.Resize: // of none, nothing ever comes
			p.mu.Lock()
			p.size = size
			p.mu.Unlock()
		case <-p.ctx.Done():
			return
		}
	}
}

// run does what the words say, which were looked through before.
func (p *play) run(words []string) (code int, err error) {
	for len(words) > 0 && err == nil {
		verb, takes := words[0], verbs[words[0]]
		arg := words[takes]
		words = words[1+takes:]
		switch verb {
		case "out":
			err = p.print(p.req.Stdout, arg)
		case "err":
			if p.req.TTY != nil {
				err = p.print(p.req.Stdout, arg)
			} else {
				err = p.print(p.req.Stderr, arg)
			}
		case "env":
			value, ok := p.req.Env[arg]
			if !ok {
				value = p.spec.Env[arg]
			}
			err = p.print(p.req.Stdout, arg+"="+value)
		case "size":
			for range 2 {
				if _, err = p.in.ReadString('\n'); err == nil || errors.Is(err, io.EOF) {
					err = p.printSize()
				}
			}
		case "cat":
			_, err = io.Copy(p.req.Stdout, p.in)
		case "hang":
			<-p.ctx.Done()
			err = p.ctx.Err()
		case "exit":
			n, _ := strconv.Atoi(arg) // it is a number
			return n, nil
		}
	}
	return 0, err
}

func (p *play) printSize() error {
	p.mu.Lock()
	size := p.size
	p.mu.Unlock()
	return p.print(p.req.Stdout, fmt.Sprintf("%d %d", size.Rows, size.Columns))
}

// print writes a line, as a terminal has it if there is one.
func (p *play) print(to io.Writer, line string) error {
	end := "\n"
	if p.req.TTY != nil {
		end = "\r\n"
	}
	_, err := io.WriteString(to, line+end)
	return err
}
