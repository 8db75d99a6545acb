package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// supervisor keeps one plugin running.
type supervisor struct {
	cfg    *Config
	plugin Plugin
	log    hclog.Logger
	outbox *outbox
	kick   chan struct{} // has room for one: a restart was asked for

	sessions uint64     // begun so far. Owner: run
	said     *downState // what the engine was told last, if not that the plugin is up. Owner: run

	mu        sync.Mutex // guards what follows
	restarts  *Restarts
	about     *description // newest; nil: it never described itself
	serving   *instance    // nil: it does not serve
	pid       int
	protocol  int
	digest    string
	lastError string
	stats     *stats
}

// downState is what makes one state of being down different from another.
type downState struct {
	code cluster.Code
	text string
}

func newSupervisor(cfg *Config, p Plugin) *supervisor {
	return &supervisor{
		cfg: cfg, plugin: p, log: cfg.Logger.Named("plugin." + p.Name), outbox: newOutbox(), kick: make(chan struct{}, 1),
		restarts: NewRestarts(cfg.Restart, cfg.Now()), stats: &stats{},
	}
}

// run keeps the plugin running until ctx ends.
func (s *supervisor) run(ctx context.Context) error {
	defer s.note(func() { s.restarts.Stopped(s.cfg.Now()) })
	for {
		s.note(func() { s.restarts.Starting(s.cfg.Now()) })
		session, err := s.live(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errEngine):
			return fmt.Errorf("plugin %s: %w", s.plugin.Name, err)
		}
		if err := s.rest(ctx, session, err); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// note changes what others read.
func (s *supervisor) note(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// live starts the plugin, serves it, and ends it. It returns the session's number, 0 if it never came to one, and why it ended.
func (s *supervisor) live(ctx context.Context) (session uint64, err error) {
	select {
	case <-s.kick: // this is the start that was asked for
	default:
	}
	began := s.cfg.Now()
	i, err := start(ctx, s.cfg, &s.plugin)
	if err != nil {
		return 0, err
	}
	s.note(func() {
		digest := i.process.Digest()
		s.about, s.pid, s.protocol, s.digest = i.about, i.process.PID(), i.process.Version(), fmt.Sprintf("%x", digest)
	})
	for _, word := range i.about.strange {
		s.log.Warn("plugin describes an interface unknown to this host", "interface", word)
	}
	defer func() {
		s.note(func() { s.serving, s.pid = nil, 0 })
		s.end(ctx, i, ctx.Err() != nil || errors.Is(err, errRestart))
	}()
	warnings, err := i.configure(ctx)
	for _, w := range warnings {
		s.log.Warn("plugin configuration", "warning", w.String())
	}
	if err != nil {
		return 0, i.why(err)
	}
	conversation, hangUp := context.WithCancel(ctx)
	defer hangUp()
	st, err := i.open(conversation, s.cfg.ClusterID)
	if err != nil {
		return 0, i.why(err)
	}
	s.log.Info("plugin started", "version", i.about.version, "pid", i.process.PID(), "took", s.cfg.Now().Sub(began))
	err = s.serve(ctx, i, st, hangUp)
	if ctx.Err() == nil && !errors.Is(err, errEngine) {
		err = i.why(err)
		f := failureOf(err)
		if errors.Is(err, errRestart) {
			f = unavailable("plugin %s is being restarted by an operator", s.plugin.Name)
		}
		if tell := s.down(ctx, s.sessions, f); tell != nil {
			err = tell
		}
	}
	return s.sessions, err
}

// serve tells the engine that the plugin is there, and holds the session.
func (s *supervisor) serve(ctx context.Context, i *instance, st stream, hangUp func()) error {
	s.sessions++
	number := s.sessions
	s.outbox.begin(number)
	defer func() {
		for _, t := range s.outbox.end() {
			t.fail(ErrAway)
		}
	}()
	stats := &stats{}
	s.note(func() {
		s.restarts.Serving(s.cfg.Now())
		s.serving, s.stats, s.lastError = i, stats, ""
	})
	s.said = nil
	about := i.about
	err := s.cfg.Engine.Send(ctx, engine.PluginUp{
		Name: s.plugin.Name, Session: number, Version: about.version, Filter: about.filter, Drainer: about.drainer, JobTypes: about.jobTypes,
		Watches: about.watches, FailureOpen: s.plugin.FailureOpen,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", errEngine, err)
	}
	session := newSession(sessionConfig{
		name: s.plugin.Name, number: number, timeout: s.plugin.Timeout, about: about, engine: s.cfg.Engine, outbox: s.outbox, log: s.log,
		ping: i.process.Ping, now: s.cfg.Now, stats: stats,
	})
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		select {
		case <-s.kick:
			cancel(errRestart)
		case <-ctx.Done():
		}
	}()
	err = session.run(ctx, st, hangUp)
	cancel(nil)
	<-watching
	return err
}

// end makes sure that nothing of a process is left.
func (s *supervisor) end(ctx context.Context, i *instance, inPeace bool) {
	if !inPeace {
		i.kill(ctx)
		return
	}
	if err := i.stop(ctx); err != nil {
		s.log.Error("plugin does not end", "pid", i.process.PID(), "error", err)
	}
}

// down tells the engine that the plugin does not serve, once for each reason. session is 0 if it never did since it was last told so.
func (s *supervisor) down(ctx context.Context, session uint64, f *failure) error {
	now := downState{code: f.code, text: f.text}
	if s.said != nil && *s.said == now {
		return nil
	}
	s.said = &now
	s.note(func() { s.lastError = f.text })
	s.log.Error("plugin does not serve", "code", string(f.code), "error", f.text)
	down := engine.PluginDown{Name: s.plugin.Name, Session: session, Code: f.code, Message: f.text, FailureOpen: s.plugin.FailureOpen}
	if err := s.cfg.Engine.Send(ctx, down); err != nil {
		return fmt.Errorf("%w: %w", errEngine, err)
	}
	return nil
}

// rest waits until the plugin is to be started again.
func (s *supervisor) rest(ctx context.Context, session uint64, err error) error {
	if errors.Is(err, errRestart) {
		s.note(func() { s.restarts.Stopped(s.cfg.Now()) })
		return nil
	}
	f := failureOf(err)
	var next time.Time
	var state State
	s.note(func() {
		next = s.restarts.Failed(s.cfg.Now(), s.cfg.Jitter())
		state, _ = s.restarts.State()
	})
	if state == StateCrashLoop {
		policy := s.restarts.policy
		f = &failure{code: f.code, text: fmt.Sprintf("%s; it failed %d times within %s and is tried again every %s", f.text, policy.Limit, policy.Window, policy.Max)}
	}
	if session == 0 || state == StateCrashLoop {
		if err := s.down(ctx, 0, f); err != nil && ctx.Err() == nil {
			return fmt.Errorf("plugin %s: %w", s.plugin.Name, err)
		}
	}
	s.log.Info("plugin is started again", "in", next.Sub(s.cfg.Now()), "state", string(state))
	timer := time.NewTimer(next.Sub(s.cfg.Now()))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.kick:
		s.note(func() { s.restarts.Stopped(s.cfg.Now()) })
	case <-ctx.Done():
	}
	return nil
}

// restart has the process replaced by a new one at once.
func (s *supervisor) restart() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// current returns what serves now, if anything, and the newest known schema of jobs' settings.
func (s *supervisor) current() (*instance, *pluginv1.Schema) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.about == nil {
		return nil, nil
	}
	return s.serving, s.about.job
}
