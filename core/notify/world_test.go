package notify

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
	"github.com/setpointd/setpoint/sdk/wire"
)

// disk keeps what was committed, as bytes.
type disk struct {
	t       *testing.T
	records map[string][]byte
}

func newDisk(t *testing.T) *disk { return &disk{t: t, records: map[string][]byte{}} }

func (d *disk) Commit(_ context.Context, _ cluster.Revision, _ cluster.Time, puts, deletes []any) error {
	for _, v := range puts {
		key, value, err := wire.Encode(v)
		if err != nil {
			return err
		}
		d.records[key] = value
	}
	for _, v := range deletes {
		key, err := wire.KeyOf(v)
		if err != nil {
			return err
		}
		delete(d.records, key)
	}
	return nil
}

func (d *disk) load() *engine.State {
	st := engine.NewState("c1")
	for key, value := range d.records {
		v, err := wire.Decode(key, value)
		if err != nil {
			d.t.Fatal(err)
		}
		if err := st.Restore(v); err != nil {
			d.t.Fatal(err)
		}
	}
	return st
}

type bubbleClock struct{ start time.Time }

func (c bubbleClock) Now() cluster.Time {
	return cluster.Time{Engine: time.Since(c.start) + time.Second, Wall: time.Now().UnixNano()}
}

// server is an engine with a notifier.
type server struct {
	engine   *engine.Engine
	notifier *Notifier
	stop     func()
}

// serve runs a server until it is stopped.
func serve(t *testing.T, d *disk, clock bubbleClock, to *receiver, sinks ...Sink) *server {
	t.Helper()
	st := d.load()
	st.Now = clock.Now()
	e := engine.New(engine.Config{ClusterID: "c1", Heartbeat: time.Hour}, st, clock.Now())
	s := &server{engine: e}
	s.notifier = New(Options{Engine: e, Clock: clock, Sinks: sinks, Server: "srv", Link: "https://dash", Log: hclog.NewNullLogger(), Seed: 1, Dial: to.dial})
	ctx, cancel := context.WithCancel(t.Context())
	var both sync.WaitGroup
	both.Go(func() {
		if err := e.Run(ctx, clock, d, engine.Ports{}); err != nil {
			t.Error(err)
		}
	})
	both.Go(func() {
		if err := s.notifier.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	s.stop = func() { cancel(); both.Wait() }
	return s
}

func (s *server) do(t *testing.T, op engine.Op) {
	t.Helper()
	if _, err := s.engine.Do(t.Context(), "test", op); err != nil {
		t.Fatal(err)
	}
}

// stalls returns a job that no node can run: there is none.
func stalls(name string) engine.Op {
	return engine.RunJob{Spec: cluster.JobSpec{Name: name, Task: cluster.TaskSpec{Driver: "sim", Command: []string{"x"}}}.WithDefaults()}
}

// receiver is an HTTP server in the bubble.
type receiver struct {
	conns chan net.Conn
	http  *http.Server

	mu     sync.Mutex
	status int // of answers; 0: 200
	header http.Header
	got    []received
}

type received struct {
	path   string
	header http.Header
	body   []byte
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{conns: make(chan net.Conn), header: http.Header{}}
	r.http = &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = r.http.Serve(r)
	}()
	t.Cleanup(func() {
		_ = r.http.Close()
		<-ended
	})
	return r
}

func (r *receiver) Accept() (net.Conn, error) {
	c, ok := <-r.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (r *receiver) Close() error   { close(r.conns); return nil }
func (r *receiver) Addr() net.Addr { return &net.TCPAddr{} }

func (r *receiver) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case r.conns <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, received{req.URL.Path, req.Header.Clone(), body})
	for k, v := range r.header {
		w.Header()[k] = v
	}
	if r.status != 0 {
		http.Error(w, "not\nnow", r.status)
	}
}

func (r *receiver) answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// take returns what came since it was asked last.
func (r *receiver) take() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.got
	r.got = nil
	return out
}

// alerts returns the alerts of messages that came since it was asked last.
func (r *receiver) alerts(t *testing.T) (out []ToldInMessage) {
	t.Helper()
	for _, x := range r.take() {
		var m Message
		if err := json.Unmarshal(x.body, &m); err != nil {
			t.Fatalf("%s: %v", x.body, err)
		}
		out = append(out, m.Alerts...)
	}
	return out
}

func secretFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func hook(name string, after time.Duration) Sink {
	return Sink{Name: name, Rules: Rules{After: after}, Webhook: &Webhook{URL: "http://hook.example/secret-path", HTTP: HTTP{Timeout: 10 * time.Second}}}
}

// pass lets time pass, and everything happen that is due then.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
