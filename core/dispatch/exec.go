package dispatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Limits of commands that run inside tasks: how many for each node, and for each how many bytes may be on their way in either direction before they are taken.
const (
	maxExecs   = 32
	execWindow = 256 << 10
	execChunk  = 32 << 10
	// execPatience is how long an agent may say nothing at all about a command. One that is older than such commands never does.
	execPatience = time.Minute
)

// OpenExec has the agent of a node run a command inside a task; only the window is set here. The command ends when the context does, or with Close, or with the
// session. The error is ErrNoSession if the node's agent is not connected, and ErrExecBusy if so many commands run on the node that this one may not.
func (d *Dispatcher) OpenExec(ctx context.Context, node cluster.NodeID, begin *agentv1.ExecBegin) (*Exec, error) {
	s := d.session(node)
	if s == nil {
		return nil, ErrNoSession
	}
	begin.WindowBytes = execWindow
	x, err := s.execs.open(s, begin)
	if err != nil {
		return nil, err
	}
	x.stop = context.AfterFunc(ctx, func() { x.finish(context.Cause(ctx)) })
	s.out.exec(x)
	return x, nil
}

// Exec is a command inside a task, as its client's side has it. One goroutine receives, and one writes.
type Exec struct {
	session *session
	number  uint64
	silent  *time.Timer // ends it if the agent says nothing at all
	stop    func() bool // has the context not end it any more

	mu      sync.Mutex            // guards what follows
	changed chan struct{}         // closed and replaced when something has changed for who waits here
	begin   *agentv1.ExecBegin    // to be sent; nil: it was
	input   []byte                // to be sent
	room    int64                 // bytes of input that the agent would take now
	ending  bool                  // no more input follows
	told    bool                  // and the agent knows
	size    *agentv1.ExecWindow   // to be sent
	taken   int64                 // bytes of output that were received, to be told
	output  []*agentv1.ExecOutput // came, and was not received
	waiting int64                 // bytes of it
	err     error                 // how it ended
	over    bool                  // the agent has said its last
}

// Receive waits for what comes of the command, and returns it: that it runs, output, and at last its end. The error is io.EOF after that, and otherwise why the
// command was ended here, the context's cause among that.
func (x *Exec) Receive() (*agentv1.ExecOutput, error) {
	for {
		x.mu.Lock()
		if len(x.output) > 0 {
			m := x.output[0]
			x.output = x.output[1:]
			n := outputBytes(m)
			x.waiting -= n
			x.taken += n
			tell := x.taken >= execWindow/4
			x.mu.Unlock()
			if tell {
				x.session.out.exec(x)
			}
			return m, nil
		}
		err, changed := x.err, x.changed
		x.mu.Unlock()
		if err != nil {
			return nil, err
		}
		<-changed
	}
}

// Write sends standard input, once there is room for it. The error is that of Receive.
func (x *Exec) Write(p []byte) error {
	for {
		x.mu.Lock()
		if x.err != nil {
			defer x.mu.Unlock()
			return x.err
		}
		n := min(len(p), execWindow-len(x.input))
		x.input = append(x.input, p[:n]...)
		changed := x.changed
		x.mu.Unlock()
		if n > 0 {
			x.session.out.exec(x)
		}
		if p = p[n:]; len(p) == 0 {
			return nil
		}
		<-changed
	}
}

// CloseWrite says that no more input follows.
func (x *Exec) CloseWrite() { x.change(func() { x.ending = true }) }

// Resize says how large the terminal is now.
func (x *Exec) Resize(rows, columns uint32) {
	x.change(func() { x.size = &agentv1.ExecWindow{Rows: rows, Columns: columns} })
}

func (x *Exec) change(f func()) {
	x.mu.Lock()
	f()
	x.mu.Unlock()
	x.session.out.exec(x)
}

// Close ends the command, unless it has ended.
func (x *Exec) Close() {
	x.finish(context.Canceled)
	x.stop()
	x.silent.Stop()
}

// finish ends it here, and has the agent told; the first reason counts.
func (x *Exec) finish(why error) {
	x.mu.Lock()
	if x.err == nil {
		x.err = why
	}
	x.wake()
	x.mu.Unlock()
	x.session.out.exec(x)
}

// wake wakes who waits. It is called with the lock held.
func (x *Exec) wake() {
	close(x.changed)
	x.changed = make(chan struct{})
}

// deliver takes what the agent said.
func (x *Exec) deliver(m *agentv1.ExecOutput) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.silent.Stop()
	if x.err != nil {
		return // nobody waits for it
	}
	switch what := m.GetMessage().(type) {
	case *agentv1.ExecOutput_StdinTaken:
		x.room += what.StdinTaken
		x.session.out.exec(x)
		return
	case *agentv1.ExecOutput_Started:
		x.room += what.Started.GetWindowBytes()
		x.session.out.exec(x)
	case *agentv1.ExecOutput_End:
		x.err, x.over = io.EOF, true
	}
	if x.waiting += outputBytes(m); x.waiting > execWindow+execChunk { // a chunk may be larger than what was left of the window
		x.err = errExecFlood
		x.session.out.exec(x)
	} else if !x.join(m) {
		x.output = append(x.output, m)
	}
	x.wake()
}

// join puts output together with what waits before it, so that small pieces take no more room than large ones.
func (x *Exec) join(m *agentv1.ExecOutput) bool {
	if len(x.output) == 0 {
		return false
	}
	switch last := x.output[len(x.output)-1].GetMessage().(type) {
	case *agentv1.ExecOutput_Stdout:
		if out, same := m.GetMessage().(*agentv1.ExecOutput_Stdout); same && len(last.Stdout)+len(out.Stdout) <= execChunk {
			last.Stdout = append(last.Stdout, out.Stdout...)
			return true
		}
	case *agentv1.ExecOutput_Stderr:
		if out, same := m.GetMessage().(*agentv1.ExecOutput_Stderr); same && len(last.Stderr)+len(out.Stderr) <= execChunk {
			last.Stderr = append(last.Stderr, out.Stderr...)
			return true
		}
	}
	return false
}

func outputBytes(m *agentv1.ExecOutput) int64 { return int64(len(m.GetStdout()) + len(m.GetStderr())) }

// due returns what is to be said to the agent next, and whether more can be said at once. It reports done once there is nothing more to say, ever: the agent was
// told to cancel, has said its last, or was told nothing.
func (x *Exec) due() (out []*agentv1.ExecInput, more, done bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	say := func(m *agentv1.ExecInput) {
		m.Request = x.number
		out = append(out, m)
	}
	switch {
	case x.over:
		return nil, false, true
	case x.err != nil:
		x.over = true
		if x.begin == nil {
			say(&agentv1.ExecInput{Message: &agentv1.ExecInput_Cancel{Cancel: true}})
		}
		return out, false, true
	case x.begin != nil:
		say(&agentv1.ExecInput{Message: &agentv1.ExecInput_Begin{Begin: x.begin}})
		x.begin = nil
	}
	if x.size != nil {
		say(&agentv1.ExecInput{Message: &agentv1.ExecInput_Resize{Resize: x.size}})
		x.size = nil
	}
	if x.taken > 0 {
		say(&agentv1.ExecInput{Message: &agentv1.ExecInput_OutputTaken{OutputTaken: x.taken}})
		x.taken = 0
	}
	if n := min(int64(len(x.input)), x.room, execChunk); n > 0 {
		say(&agentv1.ExecInput{Message: &agentv1.ExecInput_Stdin{Stdin: append([]byte(nil), x.input[:n]...)}})
		if x.input = x.input[n:]; len(x.input) == 0 {
			x.input = nil
		}
		x.room -= n
		x.wake()
	}
	if x.ending && !x.told && len(x.input) == 0 {
		say(&agentv1.ExecInput{Message: &agentv1.ExecInput_StdinEnd{StdinEnd: true}})
		x.told = true
	}
	return out, len(x.input) > 0 && x.room > 0, false
}

// execs are the commands of one session. The zero value has none.
type execs struct {
	mu     sync.Mutex // guards what follows
	next   uint64
	live   map[uint64]*Exec // that the agent has not said its last of, and was not told to cancel
	closed error            // why the session ended
}

func (l *execs) open(s *session, begin *agentv1.ExecBegin) (*Exec, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed != nil:
		return nil, ErrNoSession
	case len(l.live) >= maxExecs:
		return nil, ErrExecBusy
	case l.live == nil:
		l.live = make(map[uint64]*Exec)
	}
	l.next++
	x := &Exec{session: s, number: l.next, begin: begin, changed: make(chan struct{})}
	x.silent = time.AfterFunc(execPatience, func() { x.finish(ErrExecSilent) })
	l.live[x.number] = x
	return x, nil
}

// deliver gives a command what came of it.
func (l *execs) deliver(m *agentv1.ExecOutput) {
	l.mu.Lock()
	x := l.live[m.GetRequest()]
	if m.GetEnd() != nil {
		delete(l.live, m.GetRequest())
	}
	l.mu.Unlock()
	if x != nil {
		x.deliver(m)
	}
}

// drop forgets a command of which the agent is asked nothing more.
func (l *execs) drop(number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.live, number)
}

// close ends all commands.
func (l *execs) close(why error) {
	l.mu.Lock()
	l.closed = why
	live := l.live
	l.live = nil
	l.mu.Unlock()
	for _, x := range live {
		x.finish(fmt.Errorf("the session with the node's agent ended, and the command with it: %w", why))
	}
}

// sayExecs sends what is to be said about commands.
func (s *session) sayExecs(due []*Exec) error {
	for _, x := range due {
		messages, more, done := x.due()
		for _, m := range messages {
			if err := s.stream.Send(&agentv1.FromServer{Message: &agentv1.FromServer_Exec{Exec: m}}); err != nil {
				return err
			}
		}
		switch {
		case done:
			s.execs.drop(x.number)
		case more:
			s.out.exec(x)
		}
	}
	return nil
}

var errExecFlood = errors.New("the node's agent sent more output than it was asked for")
