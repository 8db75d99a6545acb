package client_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/test/apiserver"
)

// lossy carries calls out and loses as many answers to some of them as it is told.
type lossy struct {
	lose  atomic.Int64
	calls atomic.Int64
}

// front is before an API.
func (l *lossy) front(method string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/"+method) {
				next.ServeHTTP(w, r)
				return
			}
			l.calls.Add(1)
			if l.lose.Add(-1) < 0 {
				next.ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(nowhere{http.Header{}}, r)
			panic(http.ErrAbortHandler)
		})
	}
}

// nowhere takes an answer that does not arrive.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (n nowhere) WriteHeader(int)             {}

func lossyClient(t *testing.T, method string, opts client.Options) (*client.Client, *lossy) {
	t.Helper()
	l := &lossy{}
	s, err := apiserver.Start(apiserver.Options{Dir: t.TempDir(), Nodes: 1, Front: l.front(method)})
	if err != nil {
		t.Fatal(err)
	}
	if opts.Pair, err = s.Credential(pki.RoleAdmin, "ann"); err != nil {
		t.Fatal(err)
	}
	opts.Addr = s.Addr()
	c, err := client.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c, l
}

// TestLostAnswersOfCommands loses two answers of a command that was carried out. A restart asked twice would be two.
func TestLostAnswersOfCommands(t *testing.T) {
	c, l := lossyClient(t, "RestartJob", client.Options{})
	ctx := t.Context()
	if _, err := c.RunJob(ctx, connect.NewRequest(&apiv1.RunJobRequest{Spec: web(1)})); err != nil {
		t.Fatal(err)
	}
	l.lose.Store(2)
	res, err := c.RestartJob(ctx, connect.NewRequest(&apiv1.RestartJobRequest{Job: "web"}))
	if err != nil || !res.Msg.GetChanged() || res.Msg.GetVersion() != 2 || !client.Repeated(res.Header()) || l.calls.Load() != 3 {
		t.Errorf("the answer after %d calls is %v, %v", l.calls.Load(), res, err)
	}
	if got, err := c.GetJob(ctx, connect.NewRequest(&apiv1.GetJobRequest{Job: "web"})); err != nil || got.Msg.GetJob().GetVersion() != 2 {
		t.Errorf("the job is %v, %v; it was to be restarted once", got, err)
	}
	// Another one is another command.
	if res, err = c.RestartJob(ctx, connect.NewRequest(&apiv1.RestartJobRequest{Job: "web"})); err != nil || res.Msg.GetVersion() != 3 || client.Repeated(res.Header()) {
		t.Errorf("the next restart gave %v, %v", res, err)
	}
}

func TestLostAnswersOfReads(t *testing.T) {
	c, l := lossyClient(t, "GetStatus", client.Options{})
	l.lose.Store(1)
	if _, err := c.GetStatus(t.Context(), connect.NewRequest(&apiv1.GetStatusRequest{})); err != nil || l.calls.Load() != 2 {
		t.Errorf("after %d calls: %v", l.calls.Load(), err)
	}
}

// What takes no key is asked once: a second token would be one that nobody knows of.
func TestLostAnswersOfOtherCalls(t *testing.T) {
	c, l := lossyClient(t, "CreateToken", client.Options{})
	l.lose.Store(1)
	_, err := c.CreateToken(t.Context(), connect.NewRequest(&apiv1.CreateTokenRequest{}))
	if err == nil || l.calls.Load() != 1 {
		t.Errorf("after %d calls: %v", l.calls.Load(), err)
	}
}

func TestOnceIsOnce(t *testing.T) {
	c, l := lossyClient(t, "GetStatus", client.Options{Once: true})
	l.lose.Store(1)
	if _, err := c.GetStatus(t.Context(), connect.NewRequest(&apiv1.GetStatusRequest{})); err == nil || l.calls.Load() != 1 {
		t.Errorf("after %d calls: %v", l.calls.Load(), err)
	}
}

// A server that is not there is told at once.
func TestNobodyThere(t *testing.T) {
	c, _ := lossyClient(t, "GetStatus", client.Options{})
	gone, err := apiserver.Start(apiserver.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := gone.Stop(); err != nil {
		t.Fatal(err)
	}
	pair := t.TempDir() + "/pair.pem"
	if err := c.Pair().Save(pair); err != nil {
		t.Fatal(err)
	}
	d, err := client.New(client.Options{Addr: gone.Addr(), Pair: pair})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, err = d.GetStatus(t.Context(), connect.NewRequest(&apiv1.GetStatusRequest{}))
	if connect.CodeOf(err) != connect.CodeUnavailable || time.Since(began) > 5*time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}

// TestWatchGoesOn breaks a watch's connection after its first message.
func TestWatchGoesOn(t *testing.T) {
	var broken atomic.Bool
	s, err := apiserver.Start(apiserver.Options{Dir: t.TempDir(), Nodes: 1, Front: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/WatchEvents") && !broken.Swap(true) {
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(w, r)
		})
	}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Client(pki.RoleOperator, "ann")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	if _, err := c.RunJob(t.Context(), connect.NewRequest(&apiv1.RunJobRequest{Spec: web(1)})); err != nil {
		t.Fatal(err)
	}
	from, seen := uint64(1), 0
	err = c.Watch(t.Context(), &apiv1.WatchEventsRequest{FromRevision: &from, Follow: true, Kinds: []string{"job_created"}}, func(*apiv1.Event) bool {
		seen++
		return false
	})
	if err != nil || seen != 1 || !broken.Load() {
		t.Errorf("saw %d events, %v", seen, err)
	}
}
