package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/errgroup"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/datadir"
	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/audit"
	"github.com/setpointd/setpoint/core/config"
	"github.com/setpointd/setpoint/core/dashboard"
	"github.com/setpointd/setpoint/core/dispatch"
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/metrics"
	"github.com/setpointd/setpoint/core/notify"
	"github.com/setpointd/setpoint/core/pki"
	"github.com/setpointd/setpoint/core/pluginhost"
	"github.com/setpointd/setpoint/core/pluginhost/runner"
	"github.com/setpointd/setpoint/core/secret"
	"github.com/setpointd/setpoint/core/store"
	"github.com/setpointd/setpoint/core/trace"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Options are what a server is made of.
type Options struct {
	Config  *config.Config
	Version string
	Log     hclog.Logger
	// Reconfigure says when to read the configuration again, which Reread does. Nil: never. What was refused of it changes nothing.
	Reconfigure <-chan os.Signal
	Reread      func() (*config.Config, error)
	// Settled returns why the server is not ready, once all else is; nil: it is. It is asked until it has returned nil once.
	Settled func(*Server) error
}

// Server is a server whose state is loaded and whose listener is open.
type Server struct {
	opts    Options
	dir     datadir.Dir
	backend store.Backend
	certs   *certificates
	tokens  *tokens
	secrets *secret.Vault
	audit   *audit.Log

	launcher   *runner.Launcher
	listener   net.Listener
	pages      net.Listener // nil: there is no dashboard
	clock      clock
	engine     *engine.Engine
	commits    *committer
	host       *pluginhost.Host
	dispatcher *dispatch.Dispatcher
	events     *api.Events
	inputs     *recordFile // nil: inputs are not recorded
	api        *api.API
	dashboard  *dashboard.Dashboard // nil: there is none
	metrics    *metrics.Metrics
	notifier   *notify.Notifier
	tracer     *trace.Tracer // nil: no spans are exported

	serving  atomic.Bool // Run was called, and commands find the server
	ready    atomic.Bool // has been ready once
	stopping chan struct{}
}

// Open takes hold of the data directory, loads the state, and listens. Nothing is answered before Run. The caller closes the server.
func Open(ctx context.Context, opts Options) (_ *Server, err error) {
	s := &Server{opts: opts, dir: datadir.Dir(opts.Config.DataDir), stopping: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := os.MkdirAll(string(s.dir), 0o700); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	if s.backend, err = openStore(s.dir, opts.Config); err != nil {
		return nil, err
	}
	state, err := loadState(ctx, s.backend)
	if err != nil {
		return nil, err
	}
	if s.certs, err = newCertificates(s.dir, opts.Config, state); err != nil {
		return nil, err
	}
	if s.tokens, err = openTokens(s.dir, s.certs.trusted); err != nil {
		return nil, err
	}
	if s.secrets, err = secret.Open(s.dir.Secrets(), s.dir.SecretsKey(), state.ClusterID); err != nil {
		return nil, err
	}
	if s.audit, err = audit.Open(s.dir.AuditLog(), audit.Limits{FileSize: opts.Config.Audit.FileSize, Files: opts.Config.Audit.Files}); err != nil {
		return nil, err
	}
	takeSecrets(s.secrets, opts.Config, opts.Log.Named("secrets"))
	if s.launcher, err = newLauncher(s.dir, opts.Log.Named("plugin")); err != nil {
		return nil, err
	}
	if s.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", opts.Config.Listen.API); err != nil {
		return nil, fmt.Errorf("listen for the API: %w", err)
	}
	if at := opts.Config.Dashboard.Listen; at != "" {
		if s.pages, err = (&net.ListenConfig{}).Listen(ctx, "tcp", at); err != nil {
			return nil, fmt.Errorf("listen for the dashboard: %w", err)
		}
	}
	return s, s.assemble(state)
}

// assemble makes the parts and tells them of each other.
func (s *Server) assemble(state *engine.State) (err error) {
	cfg, log := s.opts.Config, s.opts.Log
	s.clock = newClock(state.Now.Engine)
	s.events = api.NewEvents(state.Revision)
	s.commits = &committer{journal: store.Journal{Backend: s.backend}, log: log.Named("store"), stop: s.stopping, retry: retryAfter}
	s.engine = engine.New(engine.Config{
		ClusterID: state.ClusterID, Plugins: pluginNames(cfg), Heartbeat: cfg.Heartbeat.Interval, Silent: cfg.Heartbeat.Silent, Down: cfg.Heartbeat.Grace,
		HeardPerSecond: cfg.Heartbeat.PerSecond, ReturnsPerSecond: cfg.Heartbeat.ReturnsPerSecond, ReplaceEvery: cfg.Replace.NodesPer, Pools: pools(cfg), Strategy: cfg.Placement.Strategy,
		MaxChanges: min(cfg.Limits.TurnChanges, s.backend.Limits().Changes*2/5),
		Sweep:      sweepRound,
	}, state, s.clock.Now())
	if err := s.record(); err != nil {
		return err
	}
	s.tracer = s.newTracer(state.ClusterID)
	s.host = pluginhost.New(pluginhost.Config{
		Logger: log.Named("plugin"), Launcher: s.launcher, Version: s.opts.Version, ClusterID: state.ClusterID, Engine: s.engine, Plugins: hostPlugins(cfg),
		CheckSettings: checkSettings, Rehearse: rehearse(s.engine), AttachDir: s.dir.Attachments(), Asked: s.asked(),
	})
	s.dispatcher, err = dispatch.New(dispatch.Options{
		Engine: s.engine, Identity: api.IdentityFrom, Tokens: s.tokens, Signer: s.certs, Log: log.Named("agents"), Authority: api.AuthorityFrom, Secrets: s.secrets,
		Issued:    s.certs.Issued,
		Heartbeat: func() time.Duration { return s.engine.Pace().Heartbeat },
	})
	if err != nil {
		return err
	}
	if err = s.newDashboard(); err != nil {
		return err
	}
	s.notifier = s.newNotifier()
	s.api, err = api.New(api.Options{
		Engine: s.engine, Plugins: plugins{s.host}, PluginOperator: operator{s.host}, Aside: s.host, Logs: s.dispatcher, Tokens: s.tokens, Signer: s.certs, Events: s.events, Log: log.Named("api"),
		Authorities: authorities{s.certs, s.dispatcher}, Secrets: s.secrets, Certificates: s.certs, Exec: s.exec, Dashboard: s.invites(), Sinks: sinks{s.notifier}, Follow: s.follow(),
		Audit: s.audit, AuditContinues: s.opts.Config.Audit.OnFailure == config.AuditContinue,
		History: history{store.Journal{Backend: s.backend}}, Version: s.opts.Version, PID: os.Getpid(), Started: time.Now(), Ready: s.notReady, Full: s.commits.full.Load,
	})
	s.metrics = s.newMetrics()
	return err
}

// Address returns the URL at which commands on this machine reach the server.
func (s *Server) Address() string {
	address := s.listener.Addr().String()
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		address = net.JoinHostPort("127.0.0.1", port)
	}
	return "https://" + address
}

// exec has the agent of a node run a command inside a task.
func (s *Server) exec(ctx context.Context, node cluster.NodeID, begin *agentv1.ExecBegin) (api.Exec, error) {
	x, err := s.dispatcher.OpenExec(ctx, node, begin)
	if err != nil {
		return nil, err
	}
	return x, nil
}

// View returns the newest committed state.
func (s *Server) View() *engine.State { return s.engine.View() }

// Connected reports whether the agent of the node of that name has a session with this server.
func (s *Server) Connected(node string) bool {
	n := s.engine.View().NodeNamed(node)
	return n != nil && s.dispatcher.Connected(n.ID)
}

// Token makes a token with which a machine joins.
func (s *Server) Token(ctx context.Context, lifetime time.Duration) (pki.Token, error) {
	token, _, err := s.tokens.Create(ctx, pki.RoleNode, "", lifetime)
	return token, err
}

// Revoke makes a token worthless.
func (s *Server) Revoke(ctx context.Context, token pki.Token) error {
	return s.tokens.Revoke(ctx, token.Hash())
}

// notReady returns why the server is not ready. It has been ready once everything has started; after that only a full store makes it less, and
// agents that have seen a newer state.
func (s *Server) notReady() error {
	if s.commits.full.Load() {
		return store.ErrNoSpace
	}
	if err := s.dispatcher.Ahead(); err != nil {
		return err
	}
	if s.ready.Load() {
		return nil
	}
	if !s.serving.Load() {
		return errors.New("the server is starting")
	}
	if err := (plugins{s.host}).settled(); err != nil {
		return err
	}
	if s.opts.Settled != nil {
		if err := s.opts.Settled(s); err != nil {
			return err
		}
	}
	if !s.ready.Swap(true) {
		s.opts.Log.Info("ready", "address", s.Address())
	}
	return nil
}

// Ready waits until the server is ready or the context ends.
func (s *Server) Ready(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for s.notReady() != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// Run serves until the context ends, which is no error, or a part fails that the others cannot do without.
func (s *Server) Run(ctx context.Context) error {
	if err := s.dir.WriteAddress(s.Address()); err != nil {
		return err
	}
	s.serving.Store(true)
	log := s.opts.Log
	log.Info("server starts", "version", s.opts.Version, "cluster", s.engine.View().ClusterID, "revision", uint64(s.engine.View().Revision), "address", s.Address())
	g, ctx := errgroup.WithContext(ctx)
	stopExport := s.exportSpans(ctx)
	defer stopExport()
	decide, stopDeciding := context.WithCancel(context.WithoutCancel(ctx))
	defer stopDeciding()
	decided := make(chan error, 1)
	go func() {
		decided <- s.engine.Run(decide, s.clock, s.commits, engine.Ports{
			Committed: s.committed(), Plugins: s.host.Update, Timed: s.metrics.Timed, Traced: s.traced(), Swept: s.swept,
		})
	}()
	path, agents := s.dispatcher.Handler(s.api.HandlerOptions()...)
	parts := map[string]func(context.Context) error{
		"plugins": s.host.Run,
		"agents":  s.dispatcher.Run,
		"events":  s.events.Run,
		"audit":   s.api.KeepAudit,
		"api": func(ctx context.Context) error {
			handler := s.api.Handler(api.Mount{Path: path, Handler: agents}, api.Mount{Path: "GET /metrics", Handler: api.ForReaders(s.metrics.Handler())})
			return api.Serve(ctx, s.listener, pki.ServerTLS(s.certs.holder), handler, log.Named("http"))
		},
		"configuration": s.reconfigure,
		"notifications": s.notifier.Run,
		"certificates":  func(ctx context.Context) error { s.certs.keep(ctx, log); return nil },
	}
	if s.dashboard != nil {
		parts["dashboard"] = s.serveDashboard
	}
	for name, run := range parts {
		g.Go(func() error {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	// The engine ends by itself only if a commit failed; then nothing that the server says is worth anything.
	g.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case err := <-decided:
			decided <- err
			return err
		}
	})
	failed := g.Wait()
	close(s.stopping)
	stopDeciding()
	if err := <-decided; failed == nil {
		failed = err
	}
	if failed != nil {
		log.Error("server ends, since a part of it failed", "revision", uint64(s.engine.View().Revision), "error", failed)
	} else {
		log.Info("server ends", "revision", uint64(s.engine.View().Revision))
	}
	return failed
}

// Close lets go of everything. Run has returned, or was never called.
func (s *Server) Close() error {
	var errs []error
	if s.launcher != nil {
		errs = append(errs, s.launcher.Close())
	}
	for _, l := range []net.Listener{s.listener, s.pages} {
		if l == nil {
			continue
		}
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if s.inputs != nil {
		errs = append(errs, s.inputs.file.Close())
	}
	if s.backend != nil {
		errs = append(errs, s.backend.Close())
	}
	if s.audit != nil {
		errs = append(errs, s.audit.Close())
	}
	return errors.Join(errs...)
}
