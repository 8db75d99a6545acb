package dispatch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"

	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
)

func logs(m *agentv1.Logs) *agentv1.FromAgent {
	return &agentv1.FromAgent{Message: &agentv1.FromAgent_Logs{Logs: m}}
}

func TestLogsAreReadToTheirEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDispatcher(t, newFakeEngine(readyNode("n1")))
		if _, err := d.OpenLogs(t.Context(), "n1", &agentv1.LogRequest{Task: "web/1/3"}); !errors.Is(err, ErrNoSession) {
			t.Errorf("without a session: %v, want %v", err, ErrNoSession)
		}
		a := dial(t, d, "n1", hello())
		a.welcome()
		r, err := d.OpenLogs(t.Context(), "n1", &agentv1.LogRequest{Task: "web/1/3", Stream: "stderr", Tail: 10, SinceUnixNs: 7})
		if err != nil {
			t.Fatal(err)
		}
		ask := a.next().GetLogRequest()
		if ask.GetTask() != "web/1/3" || ask.GetStream() != "stderr" || ask.GetTail() != 10 || ask.GetSinceUnixNs() != 7 {
			t.Errorf("the agent was asked %v", ask)
		}
		a.send(logs(&agentv1.Logs{Request: ask.GetRequest(), Data: []byte("one\n")}))
		a.send(logs(&agentv1.Logs{Request: ask.GetRequest(), Data: []byte("two\n"), End: true}))
		got, err := io.ReadAll(r)
		if err != nil || string(got) != "one\ntwo\n" {
			t.Errorf("read %q and %v", got, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		_ = a.hangUp()
	})
}

func TestLogsEndEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDispatcher(t, newFakeEngine(readyNode("n1")))
		a := dial(t, d, "n1", hello())
		a.welcome()
		open := func(ctx context.Context) (io.ReadCloser, uint64) {
			t.Helper()
			r, err := d.OpenLogs(ctx, "n1", &agentv1.LogRequest{Task: "web/1/3", Follow: true})
			if err != nil {
				t.Fatal(err)
			}
			return r, a.next().GetLogRequest().GetRequest()
		}
		wantCancel := func(number uint64) {
			t.Helper()
			if m := a.next(); m.GetLogCancel().GetRequest() != number {
				t.Errorf("got %v, want request %d cancelled", m, number)
			}
		}

		refused, number := open(t.Context())
		a.send(logs(&agentv1.Logs{Request: number, End: true, Err: "there is no such task"}))
		if _, err := refused.Read(make([]byte, 1)); err == nil || err.Error() != "there is no such task" {
			t.Errorf("read gave %v, want what the agent said", err)
		}

		ctx, cancel := context.WithCancel(t.Context())
		cancelled, number := open(ctx)
		cancel()
		if _, err := cancelled.Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
			t.Errorf("read gave %v, want the context's error", err)
		}
		_ = cancelled.Close()
		wantCancel(number)

		slow, number := open(t.Context())
		chunk := bytes.Repeat([]byte("x"), maxLogBytes/2)
		for range 3 {
			a.send(logs(&agentv1.Logs{Request: number, Data: chunk}))
		}
		wantCancel(number)
		got, err := io.ReadAll(slow)
		if len(got) != maxLogBytes || !errors.Is(err, ErrLogsSlow) {
			t.Errorf("read %d bytes and %v, want what fitted and %v", len(got), err, ErrLogsSlow)
		}

		unread, _ := open(t.Context())
		_ = a.hangUp()
		if _, err := unread.Read(make([]byte, 1)); !errors.Is(err, errHungUp) {
			t.Errorf("read gave %v, want that the session ended", err)
		}
	})
}

// What nobody reads is not sent: a log of any length can be read as slowly as one likes.
func TestLogsComeAsTheyAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDispatcher(t, newFakeEngine(readyNode("n1")))
		a := dial(t, d, "n1", hello())
		a.welcome()
		r, err := d.OpenLogs(t.Context(), "n1", &agentv1.LogRequest{Task: "web/1/3", Tail: -1})
		if err != nil {
			t.Fatal(err)
		}
		ask := a.next().GetLogRequest()
		if ask.GetWindowBytes() != logWindow {
			t.Errorf("the agent may send %d bytes, want %d", ask.GetWindowBytes(), logWindow)
		}
		part := make([]byte, logWindow/2)
		for range 2 * maxLogBytes / len(part) { // more than ever waits
			a.send(logs(&agentv1.Logs{Request: ask.GetRequest(), Data: part}))
			if _, err := io.ReadFull(r, part); err != nil {
				t.Fatal(err)
			}
			if m := a.next().GetLogMore(); m.GetRequest() != ask.GetRequest() || m.GetBytes() != logWindow/2 {
				t.Fatalf("the agent is told %v, want that it may send what was read", m)
			}
		}
		a.send(logs(&agentv1.Logs{Request: ask.GetRequest(), End: true}))
		if _, err := r.Read(part); !errors.Is(err, io.EOF) {
			t.Errorf("read gave %v at the end", err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		_ = a.hangUp()
	})
}

func TestLogStreamsAreLimited(t *testing.T) {
	var l logStreams
	for range maxLogStreams {
		if _, err := l.open(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.open(); !errors.Is(err, ErrLogsBusy) {
		t.Errorf("one too many gave %v, want %v", err, ErrLogsBusy)
	}
}
