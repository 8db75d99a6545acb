package dashboard

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/pki"
	"github.com/setpointd/setpoint/sdk/cluster"
)

func TestChangesAreSent(t *testing.T) {
	w := newWorld(t)
	w.fill()
	b := w.as(pki.RoleReader)
	lines, closed := b.follow("/")
	defer closed()
	if line := until(t, lines, `"id":"stalls"`); !strings.Contains(line, "node.labels.disk == ssd") {
		t.Errorf("the first region is %s", line)
	}
	until(t, lines, "event: stalled")
	until(t, lines, "data: 1")
	w.pass(memoLeast)
	w.commit(cluster.PutSlot{Slot: slot("web", "1", up)}, node("a", "n1"), job("web", 2), slot("web", "1", up), slot("web", "2", up), running("web/1/3", "a"), running("web/2/3", "a"))
	if line := until(t, lines, `"id":"stalls"`); !strings.Contains(line, "Nothing waits") {
		t.Errorf("the region is %s", line)
	}
	if line := until(t, lines, `"id":"jobs"`); !strings.Contains(line, "running") {
		t.Errorf("the jobs are %s", line)
	}
	until(t, lines, "event: stalled")
	until(t, lines, "data: 0")
}

func TestOutputIsSentAsItComes(t *testing.T) {
	w := newWorld(t)
	w.fill()
	lines, closed := w.as(pki.RoleReader).follow("/tasks/web/2/3/logs")
	defer closed()
	for _, want := range []string{`{"text":"hello \u003cb\u003e\n","first":true}`, `{"text":"then ","first":false}`, `{"text":"€\n","first":false}`} {
		until(t, lines, "event: output")
		if line := until(t, lines, "data: "); line != "data: "+want {
			t.Errorf("got %s, want %s", line, want)
		}
	}
	until(t, lines, "event: finished")
	until(t, lines, "the output has ended")
}

func TestStreamsEndWithTheSession(t *testing.T) {
	w := newWorld(t)
	w.fill()
	b := w.as(pki.RoleReader)
	lines, closed := b.follow("/events")
	defer closed()
	until(t, lines, "event: stalled")
	b.post("/logout", map[string][]string{"form": {b.form("/")}})
	for lines.Scan() {
	}
	if err := lines.Err(); err != nil && !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v", err)
	}
}

func TestASessionHasSoManyStreams(t *testing.T) {
	w := newWorld(t)
	w.fill()
	b := w.as(pki.RoleReader)
	for range maxStreams {
		_, closed := b.follow("/stalls")
		defer closed()
	}
	req := b.request(http.MethodGet, "/stalls", nil)
	req.Header.Set("Accept", "text/event-stream")
	if status, _, _ := b.do(req); status != http.StatusTooManyRequests {
		t.Errorf("one too many gave %d", status)
	}
}

// TestABrowserThatTakesNothingIsCut has one that opens a stream and reads nothing of it, while every cell of a large map changes.
func TestABrowserThatTakesNothingIsCut(t *testing.T) {
	w := newWorld(t)
	ended := make(chan struct{})
	inner := w.d.Handler()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		inner.ServeHTTP(rw, r)
		if r.URL.Path == "/nodes" {
			close(ended)
		}
	}))
	server.Listener = smallBuffers{server.Listener}
	server.StartTLS()
	defer server.Close()
	state := func(word cluster.NodeState) []any {
		var out []any
		for i := range 5000 {
			n := node(fmt.Sprintf("id%d", i), fmt.Sprintf("n%d", i))
			n.Status.State = word
			out = append(out, n)
		}
		return out
	}
	w.set(2, state(cluster.NodeReady)...)
	cookie, _, ok := w.d.sessions.begin(w.code(pki.RoleReader))
	if !ok {
		t.Fatal("not logged in")
	}
	conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /nodes HTTP/1.1\r\nHost: s1\r\nAccept: text/event-stream\r\nCookie: %s=%s\r\n\r\n", w.d.cookieName(), cookie)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for i := 0; ; i++ {
		select {
		case <-ended:
			if status, _ := w.as(pki.RoleReader).get("/nodes"); status != http.StatusOK {
				t.Errorf("others got %d", status)
			}
			return
		case <-ctx.Done():
			t.Fatal("it was not cut")
		case <-time.After(300 * time.Millisecond):
			w.pass(memoMost)
			w.commit(cluster.SetNodeStatus{}, state([]cluster.NodeState{cluster.NodeDown, cluster.NodeReady}[i%2])...)
		}
	}
}

// smallBuffers takes connections that hold little of what is not read.
type smallBuffers struct{ net.Listener }

func (l smallBuffers) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(8 << 10)
	}
	return conn, err
}
