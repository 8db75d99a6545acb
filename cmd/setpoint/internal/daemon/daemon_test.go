package daemon

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/datadir"
	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/config"
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	"github.com/setpointd/setpoint/core/store"
	"github.com/setpointd/setpoint/core/store/mem"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// testConfig is a server without plugins on a free port.
func testConfig(t *testing.T) *config.Config {
	t.Helper()
	cfg := config.Default()
	cfg.Override(t.TempDir(), "127.0.0.1:0")
	for i := range cfg.Plugins {
		cfg.Plugins[i].Disabled = true
	}
	return cfg
}

func open(t *testing.T, cfg *config.Config) (*Server, error) {
	t.Helper()
	return Open(t.Context(), Options{Config: cfg, Version: "test", Log: hclog.NewNullLogger()})
}

// serve runs a server until stop is called.
func serve(t *testing.T, cfg *config.Config) (s *Server, stop func()) {
	t.Helper()
	s, err := open(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Run(ctx) }()
	return s, func() {
		cancel()
		if err := errors.Join(<-served, s.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestServerServesAndComesBack(t *testing.T) {
	cfg := testConfig(t)
	dir := datadir.Dir(cfg.DataDir)
	first, stop := serve(t, cfg)
	if err := first.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	address, err := dir.ReadAddress()
	if err != nil || address != first.Address() {
		t.Fatalf("address file: %q, %v; want %q", address, err, first.Address())
	}
	c, err := client.New(client.Options{Addr: address, Pair: dir.AdminPair()})
	if err != nil {
		t.Fatal(err)
	}
	status, err := c.WaitReady(t.Context())
	if err != nil || status.GetPid() != int64(os.Getpid()) || status.GetVersion() != "test" {
		t.Fatalf("status: %v, %v", status, err)
	}
	spec := cluster.JobSpec{Name: "web", Task: cluster.TaskSpec{Command: []string{"x"}}}.WithDefaults()
	if _, err := first.engine.Do(t.Context(), "test", engine.RunJob{Spec: spec}); err != nil {
		t.Fatal(err)
	}
	revision := first.View().Revision
	c.Close()
	stop()

	second, stop := serve(t, cfg)
	defer stop()
	if got := second.View(); got.Revision != revision || got.Job("web") == nil || got.ClusterID != status.GetClusterId() {
		t.Errorf("after a restart: revision %d of %d, job %v, cluster %s", got.Revision, revision, got.Job("web"), got.ClusterID)
	}
	var seen []cluster.Revision
	h := history{store.Journal{Backend: second.backend}}
	if err := h.History(t.Context(), 1, func(turn engine.Turn) bool {
		seen = append(seen, turn.State.Revision)
		return len(seen) < 1
	}); err != nil || len(seen) != 1 || seen[0] != 1 {
		t.Errorf("history: %v, %v; want revision 1 and no more", seen, err)
	}
}

func TestHistoryThatWasDropped(t *testing.T) {
	backend := memory(t, mem.Options{Retention: store.Retention{Revisions: 1}})
	for rev := range uint64(5) {
		if err := backend.Commit(t.Context(), store.Batch{Revision: rev + 1, Wall: time.Unix(1, 0)}); err != nil {
			t.Fatal(err)
		}
	}
	err := history{store.Journal{Backend: backend}}.History(t.Context(), 1, func(engine.Turn) bool { return true })
	if !errors.Is(err, api.ErrCompacted) {
		t.Errorf("got %v, want ErrCompacted", err)
	}
}

func memory(t *testing.T, opts mem.Options) store.Backend {
	t.Helper()
	backend, err := mem.Open(mem.NewDisk(store.Head{}), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = backend.Close() })
	if _, err := backend.Load(t.Context(), func(store.Record) error { return nil }); err != nil {
		t.Fatal(err)
	}
	return backend
}

func TestStartsThatFail(t *testing.T) {
	t.Run("data directory in use", func(t *testing.T) {
		cfg := testConfig(t)
		s, err := open(t, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var inUse *store.InUseError
		if _, err := open(t, cfg); !errors.As(err, &inUse) || inUse.PID != os.Getpid() {
			t.Errorf("got %v, want who has it", err)
		}
	})
	t.Run("address in use", func(t *testing.T) {
		taken, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		cfg := testConfig(t)
		cfg.Override("", taken.Addr().String())
		if _, err := open(t, cfg); err == nil || !strings.Contains(err.Error(), "listen for the API") {
			t.Errorf("got %v", err)
		}
		// What was taken hold of was let go.
		cfg.Override("", "127.0.0.1:0")
		s, err := open(t, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("authority of another cluster", func(t *testing.T) {
		cfg := testConfig(t)
		s, err := open(t, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		ca := datadir.Dir(cfg.DataDir).Authority()
		if err := os.RemoveAll(ca); err != nil {
			t.Fatal(err)
		}
		if _, err := pki.LoadOrCreateAuthority(ca, "another", time.Now()); err != nil {
			t.Fatal(err)
		}
		var file *pki.FileError
		if _, err := open(t, cfg); !errors.As(err, &file) {
			t.Errorf("got %v, want a *pki.FileError", err)
		}
	})
}

// TestNewStoreOfAnOldAuthority has the state lost: the cluster keeps its name, so that certificates stay good.
func TestNewStoreOfAnOldAuthority(t *testing.T) {
	cfg := testConfig(t)
	s, err := open(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	id := s.View().ClusterID
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(datadir.Dir(cfg.DataDir).Store()); err != nil {
		t.Fatal(err)
	}
	s, err = open(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := s.View().ClusterID; got != id || id == "" {
		t.Errorf("cluster %q, was %q", got, id)
	}
}

// TestLostAuthority has the authority lost: it is not made anew unless somebody says so.
func TestLostAuthority(t *testing.T) {
	cfg := testConfig(t)
	s, err := open(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	id := s.View().ClusterID
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	if _, err := s.engine.Do(t.Context(), "test", engine.JoinNode{ID: "n1", Name: "n1"}); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := errors.Join(<-ended, s.Close()); err != nil {
		t.Fatal(err)
	}
	authority := datadir.Dir(cfg.DataDir).Authority()
	if err := os.RemoveAll(authority); err != nil {
		t.Fatal(err)
	}
	var problem *pki.FileError
	if _, err := open(t, cfg); !errors.As(err, &problem) || problem.Path != authority || !strings.Contains(err.Error(), "restore it from a backup") {
		t.Fatalf("without its authority the server says %v", err)
	}
	if err := os.Mkdir(authority, 0o700); err != nil {
		t.Fatal(err)
	}
	if s, err = open(t, cfg); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := s.View().ClusterID; got != id {
		t.Errorf("cluster %q, was %q", got, id)
	}
}

func TestCommitWaitsForSpace(t *testing.T) {
	faults := 0
	backend := memory(t, mem.Options{FailCommit: func(uint64) mem.Fault {
		if faults++; faults < 3 {
			return mem.FaultNoSpace
		}
		return mem.FaultNone
	}})
	c := &committer{journal: store.Journal{Backend: backend}, log: hclog.NewNullLogger(), stop: make(chan struct{}), retry: time.Millisecond}
	if err := c.Commit(t.Context(), 1, cluster.Time{Wall: 1}, nil, nil); err != nil || faults != 3 || c.full.Load() {
		t.Errorf("got %v after %d tries, full: %v", err, faults, c.full.Load())
	}
}

func TestCommitEndsWithTheServer(t *testing.T) {
	backend := memory(t, mem.Options{FailCommit: func(uint64) mem.Fault { return mem.FaultNoSpace }})
	stop := make(chan struct{})
	close(stop)
	c := &committer{journal: store.Journal{Backend: backend}, log: hclog.NewNullLogger(), stop: stop, retry: time.Hour}
	if err := c.Commit(t.Context(), 1, cluster.Time{Wall: 1}, nil, nil); !errors.Is(err, store.ErrNoSpace) || !c.full.Load() {
		t.Errorf("got %v, full: %v", err, c.full.Load())
	}
}

func TestTokens(t *testing.T) {
	dir := datadir.Dir(t.TempDir())
	authority, err := pki.NewAuthority("test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	tk, err := openTokens(dir, func() []pki.Fingerprint { return []pki.Fingerprint{authority.Fingerprint()} })
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	token, stored, err := tk.Create(ctx, pki.RoleNode, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	late, _, err := tk.Create(ctx, pki.RoleNode, "", time.Nanosecond)
	if err != nil {
		t.Fatal(err)
	}
	again, err := openTokens(dir, func() []pki.Fingerprint { return []pki.Fingerprint{authority.Fingerprint()} })
	if err != nil {
		t.Fatal(err)
	}
	if role, err := again.Verify(ctx, token); role != pki.RoleNode || err != nil {
		t.Errorf("verify: %s, %v", role, err)
	}
	if _, err := again.Verify(ctx, late); !errors.Is(err, pki.ErrTokenExpired) {
		t.Errorf("an expired token: %v", err)
	}
	if _, err := again.Verify(ctx, pki.NewToken(authority.Fingerprint())); !errors.Is(err, pki.ErrTokenRefused) {
		t.Errorf("a foreign token: %v", err)
	}
	if info, err := os.Stat(dir.Tokens()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file: %v, %v", info.Mode(), err)
	}
	if text, err := os.ReadFile(dir.Tokens()); err != nil || strings.Contains(string(text), token.Text()) {
		t.Errorf("the file has the secret, %v", err)
	}

	// What has expired goes with the next token.
	if _, _, err := again.Create(ctx, pki.RoleNode, "", time.Hour); err != nil {
		t.Fatal(err)
	}
	if list, err := again.List(ctx); err != nil || len(list) != 2 {
		t.Errorf("%d tokens, %v; want 2", len(list), err)
	}
	if err := again.Revoke(ctx, stored.Hash); err != nil {
		t.Fatal(err)
	}
	var refused *engine.OpError
	if err := again.Revoke(ctx, stored.Hash); !errors.As(err, &refused) || refused.Kind != engine.NotFound {
		t.Errorf("revoked twice: %v", err)
	}
	if _, err := again.Verify(ctx, token); !errors.Is(err, pki.ErrTokenRefused) {
		t.Errorf("a revoked token: %v", err)
	}

	if err := os.WriteFile(dir.Tokens(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openTokens(dir, func() []pki.Fingerprint { return []pki.Fingerprint{authority.Fingerprint()} }); err == nil || !strings.Contains(err.Error(), dir.Tokens()) {
		t.Errorf("a damaged file: %v", err)
	}
}

func TestHosts(t *testing.T) {
	cfg := config.Default()
	cfg.Override("", "0.0.0.0:7480")
	cfg.Advertise, cfg.TLS.Names = "srv.example.com:7480", []string{"10.0.0.1", "localhost"}
	if got, want := strings.Join(hostsOf(cfg), " "), "0.0.0.0 10.0.0.1 127.0.0.1 ::1 localhost srv.example.com"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSocketsOfALongDirectory(t *testing.T) {
	dir := datadir.Dir(filepath.Join(t.TempDir(), strings.Repeat("long", 20)))
	l, err := newLauncher(dir, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if info, err := os.Lstat(dir.PluginSockets()); err != nil || info.Mode().Type() != os.ModeSymlink {
		t.Errorf("the sockets are below the long path: %v, %v", info, err)
	}
}
