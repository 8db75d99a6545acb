package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/setpointd/setpoint/agent/driver"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Limits of commands that run inside tasks.
const (
	maxExecs     = 32 // on the node
	maxTaskExecs = 8  // in one task
	// execWindow is how much standard input of a command may come before it is taken, in bytes.
	execWindow = 256 << 10
	// execChunk is how much output goes into one message at most, in bytes.
	execChunk = 32 << 10
)

// errNoWaiter ends a command for which nobody waits any more.
var errNoWaiter = errors.New("nobody waits for the command any more")

// execCount counts the commands that run inside the node's tasks, those of sessions that have ended among them. The zero value has none.
type execCount struct {
	group sync.WaitGroup

	mu     sync.Mutex // guards what follows
	all    int
	tasks  map[cluster.TaskID]int
	closed bool
}

// run runs a command in a goroutine, which is told why it may not run if that is so.
func (c *execCount) run(task cluster.TaskID, f func(refused error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return // with the agent ends the session, and nothing that is said arrives
	}
	refused := c.full(task)
	if refused == nil {
		c.all++
		if c.tasks == nil {
			c.tasks = make(map[cluster.TaskID]int)
		}
		c.tasks[task]++
	}
	c.group.Go(func() {
		f(refused)
		if refused == nil {
			c.done(task)
		}
	})
}

// full says why no command may run inside a task, or nil. It is called with the lock held.
func (c *execCount) full(task cluster.TaskID) error {
	switch {
	case c.all >= maxExecs:
		return fmt.Errorf("%d commands run inside tasks of the node, which are as many as may: wait until one ends", c.all)
	case c.tasks[task] >= maxTaskExecs:
		return fmt.Errorf("%d commands run inside task %s, which are as many as may: wait until one ends", c.tasks[task], task)
	}
	return nil
}

func (c *execCount) done(task cluster.TaskID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if c.tasks[task]--; c.tasks[task] == 0 {
		delete(c.tasks, task)
	}
}

// close lets none run any more, and waits for those that do, whose sessions have ended.
func (c *execCount) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.group.Wait()
}

// execs are the commands that one session asked for. The zero value has none.
type execs struct {
	mu   sync.Mutex // guards live
	live map[uint64]*execution
}

// execution is a command that runs, or is about to.
type execution struct {
	cancel context.CancelCauseFunc
	in     *inlet
	window window // of output
	sizes  chan driver.WindowSize
}

// take handles what the server says about a command. It never blocks.
func (x *execs) take(ctx context.Context, s *session, m *agentv1.ExecInput) {
	if begin := m.GetBegin(); begin != nil {
		x.begin(ctx, s, m.GetRequest(), begin)
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.live[m.GetRequest()]
	if e == nil {
		return // it has ended meanwhile
	}
	switch what := m.GetMessage().(type) {
	case *agentv1.ExecInput_Stdin:
		if !e.in.add(what.Stdin) {
			e.cancel(errors.New("the server sent more input than it was asked for"))
		}
	case *agentv1.ExecInput_StdinEnd:
		e.in.end()
	case *agentv1.ExecInput_Resize:
		select { // only the newest counts
		case <-e.sizes:
		default:
		}
		e.sizes <- sizeOf(what.Resize)
	case *agentv1.ExecInput_OutputTaken:
		e.window.give(what.OutputTaken)
	case *agentv1.ExecInput_Cancel:
		e.cancel(errNoWaiter)
	}
}

func sizeOf(w *agentv1.ExecWindow) driver.WindowSize {
	return driver.WindowSize{Rows: uint16(min(w.GetRows(), 1<<16-1)), Columns: uint16(min(w.GetColumns(), 1<<16-1))}
}

func (x *execs) begin(life context.Context, s *session, request uint64, begin *agentv1.ExecBegin) {
	ctx, cancel := context.WithCancelCause(life)
	e := &execution{cancel: cancel, window: newWindow(begin.GetWindowBytes()), sizes: make(chan driver.WindowSize, 1)}
	e.in = newInlet(func(bytes int64) {
		s.sayExec(ctx, request, &agentv1.ExecOutput{Message: &agentv1.ExecOutput_StdinTaken{StdinTaken: bytes}})
	})
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.live == nil {
		x.live = make(map[uint64]*execution)
	}
	if x.live[request] != nil {
		cancel(nil)
		return
	}
	x.live[request] = e
	s.agent.execs.run(cluster.TaskID(begin.GetTask()), func(refused error) {
		defer cancel(nil)
		end := endOf(refused)
		if refused == nil {
			end = s.exec(ctx, request, begin, e)
		}
		x.mu.Lock()
		delete(x.live, request)
		x.mu.Unlock()
		s.sayExec(life, request, end)
	})
}

// exec runs a command, and returns what is to be said of its end.
func (s *session) exec(ctx context.Context, request uint64, begin *agentv1.ExecBegin, e *execution) *agentv1.ExecOutput {
	d, handle, found := s.agent.set.Find(cluster.TaskID(begin.GetTask()))
	if !found {
		return endOf(fmt.Errorf("task %s is not known on this node", begin.GetTask()))
	}
	x := driver.OptionalOf(d).Exec
	if x == nil {
		return endOf(fmt.Errorf("task %s is run by the driver %s, which cannot run commands inside its tasks", begin.GetTask(), d.Name()))
	}
	req := driver.ExecRequest{
		Command: begin.GetCommand(), User: begin.GetUser(), Dir: begin.GetDir(), Env: begin.GetEnv(),
		Stdout: &outlet{ctx: ctx, window: &e.window, say: func(data []byte) {
			s.sayExec(ctx, request, &agentv1.ExecOutput{Message: &agentv1.ExecOutput_Stdout{Stdout: data}})
		}},
		Stderr: &outlet{ctx: ctx, window: &e.window, say: func(data []byte) {
			s.sayExec(ctx, request, &agentv1.ExecOutput{Message: &agentv1.ExecOutput_Stderr{Stderr: data}})
		}},
		Started: func() {
			s.sayExec(ctx, request, &agentv1.ExecOutput{Message: &agentv1.ExecOutput_Started{Started: &agentv1.ExecStarted{WindowBytes: execWindow}}})
		},
	}
	if begin.GetStdin() {
		req.Stdin = e.in
	}
	if begin.GetTty() != nil {
		req.TTY, req.Resize = new(sizeOf(begin.GetTty())), e.sizes
	}
	code, err := x.Exec(ctx, handle, req)
	if err != nil {
		return endOf(err)
	}
	return &agentv1.ExecOutput{Message: &agentv1.ExecOutput_End{End: &agentv1.ExecEnd{ExitCode: int32(code)}}}
}

// endOf says why there is no exit code.
func endOf(err error) *agentv1.ExecOutput {
	end := &agentv1.ExecEnd{}
	var refused *driver.ExecRefusedError
	switch {
	case errors.As(err, &refused):
		end.Err, end.Code = refused.Reason, refused.Code
	case err != nil:
		end.Err = err.Error()
	}
	return &agentv1.ExecOutput{Message: &agentv1.ExecOutput_End{End: end}}
}

func (s *session) sayExec(ctx context.Context, request uint64, m *agentv1.ExecOutput) {
	m.Request = request
	s.say(ctx, &agentv1.FromAgent{Message: &agentv1.FromAgent_Exec{Exec: m}})
}

// outlet sends what a command writes, as far as it may.
type outlet struct {
	ctx    context.Context // of the command: an io.Writer has no other way to hear of it
	window *window
	say    func(data []byte)
}

// Write waits until all of p was sent. The error is the context's.
func (o *outlet) Write(p []byte) (int, error) {
	for sent := 0; sent < len(p); {
		n := min(len(p)-sent, execChunk)
		if err := o.window.take(o.ctx, int64(n)); err != nil {
			return sent, err
		}
		o.say(bytes.Clone(p[sent : sent+n]))
		sent += n
	}
	return len(p), o.ctx.Err()
}

// inlet holds what came for a command's standard input and was not taken. One goroutine reads.
type inlet struct {
	taken func(bytes int64) // is called when room was made

	mu      sync.Mutex // guards what follows
	data    []byte
	untold  int64 // bytes that were taken
	over    bool  // no more comes
	closed  bool  // nobody takes more
	changed chan struct{}
}

func newInlet(taken func(bytes int64)) *inlet {
	return &inlet{taken: taken, changed: make(chan struct{}, 1)}
}

// add reports false if there was no room for what came.
func (i *inlet) add(p []byte) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return true
	}
	if len(i.data)+len(p)+int(i.untold) > execWindow {
		return false
	}
	i.data = append(i.data, p...)
	notify(i.changed)
	return true
}

func (i *inlet) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.over = true
	notify(i.changed)
}

// Read waits for input. What is taken makes room, which the server is told of from time to time.
func (i *inlet) Read(p []byte) (int, error) {
	for {
		i.mu.Lock()
		n := copy(p, i.data)
		i.data = i.data[n:]
		var told int64
		if i.untold += int64(n); len(i.data) == 0 && n > 0 || i.untold >= execWindow/4 {
			i.data, told, i.untold = bytes.Clone(i.data), i.untold, 0
		}
		over, closed := i.over, i.closed
		i.mu.Unlock()
		if told > 0 {
			i.taken(told)
		}
		switch {
		case closed:
			return 0, io.ErrClosedPipe
		case n > 0 || len(p) == 0:
			return n, nil
		case over:
			return 0, io.EOF
		}
		<-i.changed
	}
}

// Close ends a Read that waits; what comes from then on is dropped.
func (i *inlet) Close() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed = true
	notify(i.changed)
	return nil
}
