package api_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

var _ api.Engine = (*engine.Engine)(nil)

// fakeEngine shows the state that a test made and answers commands as it says.
type fakeEngine struct {
	mu    sync.Mutex // guards what follows
	state *engine.State
	do    func(op engine.Op) (any, error)
	by    string       // who asked last
	trace engine.Trace // of which that is part
	stuck *atomic.Bool // if it is there: set once a command waits for a commit that does not come
}

func (e *fakeEngine) Do(ctx context.Context, by string, op engine.Op) (any, error) {
	if e.stuck != nil {
		e.stuck.Store(true)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.by, e.trace = by, engine.TraceOf(ctx)
	if keyed, ok := op.(engine.Keyed); ok {
		op = keyed.Op // clients send a key with each command
	}
	return e.do(op)
}

func (e *fakeEngine) View() *engine.State {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state
}

// set replaces the state.
func (e *fakeEngine) set(revision cluster.Revision, records ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state = engine.Assemble("c1", revision, at(time.Duration(revision)*time.Second), records...)
}

// answer sets what commands get.
func (e *fakeEngine) answer(do func(op engine.Op) (any, error)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.do = do
}

type fakePlugins struct {
	list     []api.Plugin
	problems []cluster.Problem
	verdicts []engine.ClassVerdict // of every trial
}

func (p *fakePlugins) Plugins() []api.Plugin { return p.list }
func (p *fakePlugins) Trial(context.Context, string, []engine.Class, []engine.IndexedNode) ([]engine.ClassVerdict, error) {
	return p.verdicts, nil
}

func (p *fakePlugins) CheckJob(context.Context, cluster.JobSpec) []cluster.Problem { return p.problems }

type fakeLogs struct {
	node cluster.NodeID
	ask  *agentv1.LogRequest
	text string
	err  error
}

func (l *fakeLogs) OpenLogs(_ context.Context, node cluster.NodeID, ask *agentv1.LogRequest) (io.ReadCloser, error) {
	l.node, l.ask = node, ask
	if l.err != nil {
		return nil, l.err
	}
	return io.NopCloser(strings.NewReader(l.text)), nil
}

type fakeTokens struct {
	authority *pki.Authority
	stored    []pki.StoredToken
}

func (f *fakeTokens) Find(_ context.Context, token pki.Token) (pki.StoredToken, error) {
	return pki.FindToken(f.stored, []pki.Fingerprint{f.authority.Fingerprint()}, token, time.Unix(1001, 0))
}

func (f *fakeTokens) Create(_ context.Context, role pki.Role, name string, lifetime time.Duration) (pki.Token, pki.StoredToken, error) {
	token := pki.NewToken(f.authority.Fingerprint())
	stored := token.Store(role, time.Unix(1000, 0), lifetime)
	stored.Name = name
	f.stored = append(f.stored, stored)
	return token, stored, nil
}

func (f *fakeTokens) List(context.Context) ([]pki.StoredToken, error) { return f.stored, nil }

func (f *fakeTokens) Revoke(_ context.Context, hash pki.TokenHash) error {
	for i, s := range f.stored {
		if s.Hash == hash {
			f.stored = append(f.stored[:i], f.stored[i+1:]...)
			return nil
		}
	}
	return &engine.OpError{Kind: engine.NotFound, Message: "there is no such token"}
}

// server is an API behind TLS.
type server struct {
	t         testing.TB
	engine    *fakeEngine
	plugins   *fakePlugins
	logs      *fakeLogs
	events    *api.Events
	ready     error
	authority *pki.Authority
	addr      string
}

func serve(t testing.TB, change func(*api.Options)) *server {
	t.Helper()
	authority, err := pki.NewAuthority("c1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s := &server{
		t: t, engine: &fakeEngine{}, plugins: &fakePlugins{}, logs: &fakeLogs{}, events: api.NewEvents(1), authority: authority,
	}
	s.engine.set(1)
	opts := api.Options{
		Engine: s.engine, Plugins: s.plugins, Logs: s.logs, Tokens: &fakeTokens{authority: authority}, Signer: authority, Events: s.events, Log: hclog.NewNullLogger(),
		Version: "1.2.3", PID: 42, Started: time.Unix(1000, 0), Ready: func() error { return s.ready },
		Now: func() time.Time { return s.engine.View().Now.WallTime() },
	}
	if change != nil {
		change(&opts)
	}
	a, err := api.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(time.Now(), pki.Identity{Role: pki.RoleServer, Name: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = listener.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		config := pki.ServerTLS(pki.NewHolder(pair))
		if err := api.Serve(ctx, listener, config, a.Handler(), hclog.NewNullLogger()); err != nil {
			t.Errorf("Serve returned %v", err)
		}
	})
	running.Go(func() {
		if err := s.events.Run(ctx); err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return s
}

// as returns a client with a role.
func (s *server) as(role pki.Role) *client.Client {
	s.t.Helper()
	id := pki.Identity{Role: role, Name: "someone"}
	if role == pki.RoleNode {
		id.NodeID = "n1"
	}
	pair, err := s.authority.Issue(time.Now(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	path := filepath.Join(s.t.TempDir(), "pair.pem")
	if err := pair.Save(path); err != nil {
		s.t.Fatal(err)
	}
	c, err := client.New(client.Options{Addr: s.addr, Pair: path})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// get asks for a page without a certificate, over HTTP/1.1.
func (s *server) get(path string) (status int, body string) {
	s.t.Helper()
	config := pki.ClientTLS(nil, s.authority.Certificate())
	config.NextProtos = []string{"http/1.1"}
	transport := &http.Transport{TLSClientConfig: config, TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "https://"+s.addr+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// at returns a moment on both clocks.
func at(d time.Duration) cluster.Time {
	return cluster.Time{Engine: d, Wall: time.Unix(1_700_000_000, 0).Add(d).UnixNano()}
}

func TestHealthAndReadiness(t *testing.T) {
	s := serve(t, nil)
	if status, body := s.get("/healthz"); status != http.StatusOK || body != "ok\n" {
		t.Errorf("healthz gave %d %q", status, body)
	}
	if status, _ := s.get("/readyz"); status != http.StatusOK {
		t.Errorf("readyz gave %d, want %d", status, http.StatusOK)
	}
	s.ready = errors.New("the store is being read")
	if status, body := s.get("/readyz"); status != http.StatusServiceUnavailable || body != "the store is being read\n" {
		t.Errorf("readyz gave %d %q", status, body)
	}
}
