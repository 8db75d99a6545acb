package agent

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/agent/driver"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// command is a command as the server has it.
type command struct {
	c      *talk
	number uint64
}

func (c *talk) exec(number uint64, begin *agentv1.ExecBegin) command {
	x := command{c, number}
	x.say(&agentv1.ExecInput{Message: &agentv1.ExecInput_Begin{Begin: begin}})
	return x
}

func (x command) say(m *agentv1.ExecInput) {
	m.Request = x.number
	x.c.send(&agentv1.FromServer{Message: &agentv1.FromServer_Exec{Exec: m}})
}

// said is all that the agent said of it so far. It is called with the lock held, as by what await is given.
func (x command) said() (out, errs string, taken int64, started bool, end *agentv1.ExecEnd) {
	var o, e bytes.Buffer
	for _, m := range x.c.execs[x.number] {
		o.Write(m.GetStdout())
		e.Write(m.GetStderr())
		taken += m.GetStdinTaken()
		started = started || m.GetStarted() != nil
		end = m.GetEnd()
	}
	return o.String(), e.String(), taken, started, end
}

// end waits until the command has ended, and returns how.
func (x command) end() *agentv1.ExecEnd {
	x.c.t.Helper()
	var last *agentv1.ExecEnd
	x.c.await("the command's end", func() bool {
		_, _, _, _, last = x.said()
		return last != nil
	})
	return last
}

func TestExec(t *testing.T) {
	s, sims := newServer(t), t.TempDir()
	launch(t, config(t, s, sims))
	c := s.session()
	c.full(1, wanted("web/1/1", nil))
	c.state("web/1/1", cluster.Running)

	x := c.exec(1, &agentv1.ExecBegin{
		Task: "web/1/1", Command: []string{"out", "one", "err", "bad", "env", "MODE", "cat", "exit", "3"}, Env: map[string]string{"MODE": "looked"}, Stdin: true, WindowBytes: 1 << 20,
	})
	c.await("the first output", func() bool {
		out, errs, _, started, _ := x.said()
		return out == "one\nMODE=looked\n" && errs == "bad\n" && started
	})
	x.say(&agentv1.ExecInput{Message: &agentv1.ExecInput_Stdin{Stdin: []byte("what comes in")}})
	c.await("what went in, and room for more", func() bool {
		out, _, taken, _, _ := x.said()
		return strings.HasSuffix(out, "what comes in") && taken == 13
	})
	x.say(&agentv1.ExecInput{Message: &agentv1.ExecInput_StdinEnd{StdinEnd: true}})
	if end := x.end(); end.GetExitCode() != 3 || end.GetErr() != "" {
		t.Errorf("it ended with %v", end)
	}

	tty := c.exec(2, &agentv1.ExecBegin{Task: "web/1/1", Command: []string{"size"}, Tty: &agentv1.ExecWindow{Rows: 24, Columns: 80}, Stdin: true, WindowBytes: 1 << 20})
	tty.say(&agentv1.ExecInput{Message: &agentv1.ExecInput_Stdin{Stdin: []byte("\n")}})
	c.await("its size", func() bool { out, _, _, _, _ := tty.said(); return out == "24 80\r\n" })
	tty.say(&agentv1.ExecInput{Message: &agentv1.ExecInput_Resize{Resize: &agentv1.ExecWindow{Rows: 1 << 20, Columns: 100}}})
	tty.say(&agentv1.ExecInput{Message: &agentv1.ExecInput_Stdin{Stdin: []byte("\n")}})
	tty.end()

	for number, test := range map[uint64]struct {
		begin     *agentv1.ExecBegin
		err, code string
	}{
		10: {&agentv1.ExecBegin{Task: "no/1/1", Command: []string{"cat"}}, "not known on this node", ""},
		11: {&agentv1.ExecBegin{Task: "web/1/1", Command: []string{"nosuch"}}, "no such command: nosuch", driver.RejectNoCommand},
		12: {&agentv1.ExecBegin{Task: "web/1/1"}, "there is no command", driver.RejectBadSpec},
	} {
		if end := c.exec(number, test.begin).end(); !strings.Contains(end.GetErr(), test.err) || end.GetCode() != test.code {
			t.Errorf("command %d ended with %v, want %q, %q", number, end, test.err, test.code)
		}
	}

	cancelled := c.exec(20, &agentv1.ExecBegin{Task: "web/1/1", Command: []string{"hang"}})
	c.await("its start", func() bool { _, _, _, started, _ := cancelled.said(); return started })
	cancelled.say(&agentv1.ExecInput{Message: &agentv1.ExecInput_Cancel{Cancel: true}})
	if end := cancelled.end(); !strings.Contains(end.GetErr(), errNoWaiter.Error()) {
		t.Errorf("the cancelled command ended with %v", end)
	}
	hung := c.exec(21, &agentv1.ExecBegin{Task: "web/1/1", Command: []string{"hang"}})
	c.await("its start", func() bool { _, _, _, started, _ := hung.said(); return started })
	c.change(2, unwanted("web/1/1", 0, cluster.Running))
	if end := hung.end(); !strings.Contains(end.GetErr(), "the task has ended") {
		t.Errorf("the command of a task that ended did so with %v", end)
	}
}

// What the server does not take is not sent, and what was not asked for ends the command.
func TestExecIsHeldBack(t *testing.T) {
	s, sims := newServer(t), t.TempDir()
	launch(t, config(t, s, sims))
	c := s.session()
	c.full(1, wanted("web/1/1", nil))
	c.state("web/1/1", cluster.Running)

	x := c.exec(1, &agentv1.ExecBegin{Task: "web/1/1", Command: []string{"out", "12345", "err", "67890", "out", "more", "exit", "0"}, WindowBytes: 12})
	c.await("what fits into the window", func() bool { out, errs, _, _, _ := x.said(); return out == "12345\n" && errs == "67890\n" })
	x.say(&agentv1.ExecInput{Message: &agentv1.ExecInput_OutputTaken{OutputTaken: 12}})
	x.end()
	c.mu.Lock()
	if out, _, _, _, _ := x.said(); out != "12345\nmore\n" {
		t.Errorf("it wrote %q", out)
	}
	c.mu.Unlock()

	flood := c.exec(2, &agentv1.ExecBegin{Task: "web/1/1", Command: []string{"hang"}, Stdin: true, WindowBytes: 1})
	for range 2 {
		flood.say(&agentv1.ExecInput{Message: &agentv1.ExecInput_Stdin{Stdin: make([]byte, execWindow/2+1)}})
	}
	if end := flood.end(); !strings.Contains(end.GetErr(), "more input than it was asked for") {
		t.Errorf("it ended with %v", end)
	}
}

func TestExecLimits(t *testing.T) {
	s, sims := newServer(t), t.TempDir()
	launch(t, config(t, s, sims))
	c := s.session()
	tasks := maxExecs/maxTaskExecs + 1
	var all []*agentv1.Assignment
	for i := range tasks {
		all = append(all, wanted(fmt.Sprintf("web/%d/1", i), nil))
	}
	c.full(1, all...)
	hang := func(number uint64, task int) command {
		x := c.exec(number, &agentv1.ExecBegin{Task: fmt.Sprintf("web/%d/1", task), Command: []string{"hang"}})
		c.await("its start or end", func() bool { _, _, _, started, end := x.said(); return started || end != nil })
		return x
	}
	for i := range tasks {
		c.state(fmt.Sprintf("web/%d/1", i), cluster.Running)
	}
	number := uint64(0)
	for i := range tasks - 1 {
		for range maxTaskExecs {
			number++
			hang(number, i)
		}
		if i == 0 {
			if end := hang(100, 0).end(); !strings.Contains(end.GetErr(), "8 commands run inside task web/0/1") {
				t.Errorf("one more in the task ended with %v", end)
			}
		}
	}
	if end := hang(101, tasks-1).end(); !strings.Contains(end.GetErr(), "32 commands run inside tasks of the node") {
		t.Errorf("one more on the node ended with %v", end)
	}
	command{c, 1}.say(&agentv1.ExecInput{Message: &agentv1.ExecInput_Cancel{Cancel: true}})
	command{c, 1}.end()

	// With the session all of them end, and the next one has room for as many.
	c.end <- connect.NewError(connect.CodeUnavailable, errors.New("the server is stopping"))
	c.ended()
	c = s.session()
	for i := range all {
		all[i].Observed = uint32(cluster.Running)
	}
	c.full(2, all...)
	for i := range maxTaskExecs {
		x := hang(uint64(i+1), 0)
		c.mu.Lock()
		if _, _, _, started, end := x.said(); !started {
			t.Errorf("in the next session it ended with %v", end)
		}
		c.mu.Unlock()
	}
}

// A driver that cannot do it says so.
func TestExecIsRefusedWithoutTheDriver(t *testing.T) {
	s, sims := newServer(t), t.TempDir()
	cfg := config(t, s, sims)
	cfg.Drivers = []driver.Driver{bare{simDriver(t, sims)}}
	launch(t, cfg)
	c := s.session()
	c.full(1, wanted("web/1/1", nil))
	c.state("web/1/1", cluster.Running)
	end := c.exec(1, &agentv1.ExecBegin{Task: "web/1/1", Command: []string{"cat"}}).end()
	if !strings.Contains(end.GetErr(), "run by the driver sim, which cannot run commands inside its tasks") {
		t.Errorf("it ended with %v", end)
	}
}

// bare is a driver without anything optional.
type bare struct{ driver.Driver }
