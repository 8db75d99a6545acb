package dispatch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
)

func says(m *agentv1.ExecOutput) *agentv1.FromAgent {
	return &agentv1.FromAgent{Message: &agentv1.FromAgent_Exec{Exec: m}}
}

func stdout(request uint64, data []byte) *agentv1.FromAgent {
	return says(&agentv1.ExecOutput{Request: request, Message: &agentv1.ExecOutput_Stdout{Stdout: data}})
}

func ends(request uint64, code int32) *agentv1.FromAgent {
	return says(&agentv1.ExecOutput{Request: request, Message: &agentv1.ExecOutput_End{End: &agentv1.ExecEnd{ExitCode: code}}})
}

func takes(request uint64, bytes int64) *agentv1.FromAgent {
	return says(&agentv1.ExecOutput{Request: request, Message: &agentv1.ExecOutput_StdinTaken{StdinTaken: bytes}})
}

func starts(request uint64, window int64) *agentv1.FromAgent {
	return says(&agentv1.ExecOutput{Request: request, Message: &agentv1.ExecOutput_Started{Started: &agentv1.ExecStarted{WindowBytes: window}}})
}

// openExec opens a command and returns it with its number, once the agent has heard of it.
func (a *agent) openExec(ctx context.Context, d *Dispatcher) (*Exec, uint64) {
	a.t.Helper()
	x, err := d.OpenExec(ctx, "n1", &agentv1.ExecBegin{Task: "web/1/3", Command: []string{"cat"}})
	if err != nil {
		a.t.Fatal(err)
	}
	m := a.next().GetExec()
	if b := m.GetBegin(); b.GetTask() != "web/1/3" || b.GetWindowBytes() != execWindow {
		a.t.Fatalf("the agent was told %v", m)
	}
	return x, m.GetRequest()
}

func (a *agent) wantExecCancel(number uint64) {
	a.t.Helper()
	if m := a.next().GetExec(); !m.GetCancel() || m.GetRequest() != number {
		a.t.Errorf("the agent was told %v, want that command %d is cancelled", m, number)
	}
}

func TestExecFromBeginningToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDispatcher(t, newFakeEngine(readyNode("n1")))
		if _, err := d.OpenExec(t.Context(), "n1", &agentv1.ExecBegin{}); !errors.Is(err, ErrNoSession) {
			t.Errorf("without a session: %v, want %v", err, ErrNoSession)
		}
		a := dial(t, d, "n1", hello())
		a.welcome()
		x, number := a.openExec(t.Context(), d)
		if err := x.Write([]byte("too early")); err != nil { // it waits until the command runs
			t.Fatal(err)
		}
		a.send(starts(number, 100))
		if m := a.next().GetExec(); string(m.GetStdin()) != "too early" {
			t.Errorf("the agent was told %v", m)
		}
		x.Resize(40, 100)
		if m := a.next().GetExec(); m.GetResize().GetRows() != 40 || m.GetResize().GetColumns() != 100 {
			t.Errorf("the agent was told %v", m)
		}
		x.CloseWrite()
		if m := a.next().GetExec(); !m.GetStdinEnd() {
			t.Errorf("the agent was told %v", m)
		}
		a.send(stdout(number, []byte("too ")))
		a.send(stdout(number, []byte("early")))
		a.send(says(&agentv1.ExecOutput{Request: number, Message: &agentv1.ExecOutput_Stderr{Stderr: []byte("bad")}}))
		a.send(ends(number, 3))
		synctest.Wait()
		var got []string
		for {
			m, err := x.Receive()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Error(err)
				}
				break
			}
			switch {
			case m.GetStarted() != nil:
				got = append(got, "started")
			case m.GetEnd() != nil:
				got = append(got, "ended")
			default:
				got = append(got, string(m.GetStdout())+"|"+string(m.GetStderr()))
			}
		}
		if want := []string{"started", "too early|", "|bad", "ended"}; !slices.Equal(got, want) {
			t.Errorf("received %q, want %q", got, want)
		}
		x.Close()
		synctest.Wait()
		_ = a.hangUp()
	})
}

// The command is ended when its client goes away, the session when the agent does.
func TestExecEndsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDispatcher(t, newFakeEngine(readyNode("n1")))
		a := dial(t, d, "n1", hello())
		a.welcome()
		ctx, cancel := context.WithCancel(t.Context())
		gone, number := a.openExec(ctx, d)
		cancel()
		a.wantExecCancel(number)
		if _, err := gone.Receive(); !errors.Is(err, context.Canceled) {
			t.Errorf("received %v, want the context's error", err)
		}
		if err := gone.Write([]byte("x")); !errors.Is(err, context.Canceled) {
			t.Errorf("wrote with %v, want the context's error", err)
		}
		a.send(stdout(number, []byte("nobody reads this")))
		a.send(ends(number, 0))

		closed, number := a.openExec(t.Context(), d)
		closed.Close()
		a.wantExecCancel(number)

		flood, number := a.openExec(t.Context(), d)
		for range execWindow/execChunk + 2 {
			a.send(stdout(number, make([]byte, execChunk)))
		}
		a.wantExecCancel(number)
		for err := error(nil); err == nil; {
			if _, err = flood.Receive(); err != nil && !errors.Is(err, errExecFlood) {
				t.Errorf("received %v, want %v", err, errExecFlood)
			}
		}

		mute, number := a.openExec(t.Context(), d)
		began := time.Now()
		if _, err := mute.Receive(); !errors.Is(err, ErrExecSilent) || time.Since(began) != execPatience {
			t.Errorf("received %v after %s, want %v after %s", err, time.Since(began), ErrExecSilent, execPatience)
		}
		a.wantExecCancel(number)

		cut, _ := a.openExec(t.Context(), d)
		_ = a.hangUp()
		if _, err := cut.Receive(); !errors.Is(err, errHungUp) {
			t.Errorf("received %v, want that the session ended", err)
		}
		cut.Close()
		if _, err := d.OpenExec(t.Context(), "n1", &agentv1.ExecBegin{}); !errors.Is(err, ErrNoSession) {
			t.Errorf("after the session: %v", err)
		}
	})
}

// No more is on its way in either direction than was taken of what went before.
func TestExecIsHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDispatcher(t, newFakeEngine(readyNode("n1")))
		a := dial(t, d, "n1", hello())
		a.welcome()
		x, number := a.openExec(t.Context(), d)
		a.send(starts(number, 2*execChunk))
		want := bytes.Repeat([]byte("0123456789abcdef"), 3*execWindow/16)
		written := make(chan error, 1)
		go func() {
			err := x.Write(want)
			x.CloseWrite()
			written <- err
		}()
		var got []byte
		take := func() bool {
			m := a.next().GetExec()
			got = append(got, m.GetStdin()...)
			return m.GetStdinEnd()
		}
		take()
		take()
		synctest.Wait()
		select {
		case <-written:
			t.Error("more was written than there is room for")
		case m := <-a.down:
			t.Errorf("the agent was told %v, and has no room", m)
		default:
		}
		for over := false; !over; {
			a.send(takes(number, execChunk))
			over = take()
		}
		if err := <-written; err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes of %d arrived, %v", len(got), len(want), err)
		}

		// What is received makes room, of which the agent is told before it has none left.
		received := 0
		for range execWindow / execChunk {
			a.send(stdout(number, make([]byte, execChunk)))
		}
		synctest.Wait()
		taken := int64(0)
		for received < execWindow {
			m, err := x.Receive()
			if err != nil {
				t.Fatal(err)
			}
			received += len(m.GetStdout())
			synctest.Wait()
			select {
			case m := <-a.down:
				taken += m.GetExec().GetOutputTaken()
			default:
			}
		}
		if taken != execWindow {
			t.Errorf("the agent was told of %d bytes, want %d", taken, execWindow)
		}
		x.Close()
		a.wantExecCancel(number)
		_ = a.hangUp()
	})
}

func TestExecHasALimitForEachNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDispatcher(t, newFakeEngine(readyNode("n1")))
		a := dial(t, d, "n1", hello())
		a.welcome()
		var all []*Exec
		var numbers []uint64
		for range maxExecs {
			x, number := a.openExec(t.Context(), d)
			all, numbers = append(all, x), append(numbers, number)
		}
		if _, err := d.OpenExec(t.Context(), "n1", &agentv1.ExecBegin{}); !errors.Is(err, ErrExecBusy) {
			t.Errorf("one more: %v, want %v", err, ErrExecBusy)
		}
		a.send(ends(numbers[0], 0))
		synctest.Wait()
		x, _ := a.openExec(t.Context(), d)
		for _, x := range append(all, x) {
			x.Close()
		}
		for range maxExecs {
			if m := a.next(); !m.GetExec().GetCancel() {
				t.Errorf("the agent was told %v", m)
			}
		}
		_ = a.hangUp()
	})
}
