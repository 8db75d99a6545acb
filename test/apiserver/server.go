// Package apiserver runs a real API server within a test's process: the real engine on a store in a directory, the API behind TLS, and nodes that do at once what they
// are told. Only programs on nodes, and plugins, are not there. A server that is started again on its directory goes on where it was.
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	"github.com/setpointd/setpoint/core/store"
	"github.com/setpointd/setpoint/core/store/bolt"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Options say what is served. The zero value serves a cluster without nodes.
type Options struct {
	Dir   string                          // of the store; it is there
	Nodes int                             // called n1, n2 and so on, of 4 cores and 8 GiB
	Serve func(*api.Options)              // changes what the API is made of; may be nil
	Front func(http.Handler) http.Handler // before the API, such as to lose answers; may be nil
}

// Server is a server that runs.
type Server struct {
	opts      Options
	authority *pki.Authority
	backend   store.Backend
	engine    *engine.Engine
	events    *api.Events
	addr      string
	nodes     *nodes

	stop    context.CancelFunc
	running sync.WaitGroup
	mu      sync.Mutex // guards err
	err     error
}

// Start starts a server. The caller stops it.
func Start(opts Options) (_ *Server, err error) {
	s := &Server{opts: opts}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop())
		}
	}()
	if s.authority, err = pki.LoadOrCreateAuthority(filepath.Join(opts.Dir, "ca"), "c1", time.Now()); err != nil {
		return nil, err
	}
	s.backend, err = bolt.Open(filepath.Join(opts.Dir, "state.db"), bolt.Options{
		Initial: store.Head{ClusterID: s.authority.ClusterID()}, Retention: store.Retention{Revisions: 100_000, Age: time.Hour, Bytes: 64 << 20}, AnyFilesystem: true,
	})
	if err != nil {
		return nil, err
	}
	st := engine.NewState("")
	journal := store.Journal{Backend: s.backend}
	head, err := journal.Load(ctx, engine.NewPreparer, st.Restore)
	if err != nil {
		return nil, err
	}
	st.ClusterID, st.Revision = head.ClusterID, cluster.Revision(head.Revision)
	st.Now = cluster.Time{Engine: head.Engine, Wall: head.Wall.UnixNano()}
	clock := clock{base: st.Now.Engine, started: time.Now()}
	s.events = api.NewEvents(st.Revision)
	s.engine = engine.New(engine.Config{ClusterID: st.ClusterID, Heartbeat: time.Hour}, st, clock.Now())
	s.nodes = newNodes(s.engine)
	s.run("engine", func() error {
		return s.engine.Run(ctx, clock, journal, engine.Ports{Committed: []func(engine.Turn){s.events.Committed, s.nodes.committed}})
	})
	s.run("events", func() error { return s.events.Run(ctx) })
	s.run("nodes", func() error { return s.nodes.run(ctx) })
	if err := s.nodes.join(ctx, opts.Nodes); err != nil {
		return nil, err
	}
	return s, s.serve(ctx)
}

// serve answers on a port of this machine.
func (s *Server) serve(ctx context.Context) error {
	tokens := &tokens{authority: s.authority}
	opts := api.Options{
		Engine: s.engine, Plugins: noPlugins{}, Logs: noLogs{}, Tokens: tokens, Signer: s.authority, Events: s.events, Log: hclog.NewNullLogger(),
		Version: "1.0.0", PID: os.Getpid(), Started: time.Now(),
	}
	if s.opts.Serve != nil {
		s.opts.Serve(&opts)
	}
	a, err := api.New(opts)
	if err != nil {
		return err
	}
	pair, err := s.authority.Issue(time.Now(), pki.Identity{Role: pki.RoleServer, Name: "server"})
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.addr = listener.Addr().String()
	handler := a.Handler()
	if s.opts.Front != nil {
		handler = s.opts.Front(handler)
	}
	s.run("api", func() error {
		return api.Serve(ctx, listener, pki.ServerTLS(pki.NewHolder(pair)), handler, hclog.NewNullLogger())
	})
	return nil
}

// run runs a part until it returns.
func (s *Server) run(name string, f func() error) {
	s.running.Go(func() {
		if err := f(); err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.err = errors.Join(s.err, fmt.Errorf("%s: %w", name, err))
		}
	})
}

// Stop stops the server and returns what went wrong of it.
func (s *Server) Stop() error {
	s.stop()
	s.running.Wait()
	if s.backend != nil {
		s.err = errors.Join(s.err, s.backend.Close())
	}
	return s.err
}

// Addr is where the server answers, as HOST:PORT.
func (s *Server) Addr() string { return s.addr }

// View returns the newest committed state.
func (s *Server) View() *engine.State { return s.engine.View() }

// Credential writes a credential of a role to the server's directory and returns its path.
func (s *Server) Credential(role pki.Role, name string) (string, error) {
	pair, err := s.authority.Issue(time.Now(), pki.Identity{Role: role, Name: name})
	if err != nil {
		return "", err
	}
	path := filepath.Join(s.opts.Dir, name+".pem")
	return path, pair.Save(path)
}

// Client returns a client of a role; the caller closes it.
func (s *Server) Client(role pki.Role, name string) (*client.Client, error) {
	path, err := s.Credential(role, name)
	if err != nil {
		return nil, err
	}
	return client.New(client.Options{Addr: s.addr, Pair: path})
}

// Authority is the cluster's.
func (s *Server) Authority() *pki.Authority { return s.authority }

// clock tells engine time, which goes on from a base, and wall time.
type clock struct {
	base    time.Duration
	started time.Time
}

// Now implements engine.Clock.
func (c clock) Now() cluster.Time {
	now := time.Now()
	return cluster.Time{Engine: c.base + now.Sub(c.started), Wall: now.UnixNano()}
}
