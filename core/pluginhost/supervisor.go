package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pluginhost/runner"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// supervisor keeps one plugin running.
type supervisor struct {
	cfg       *Config
	name      string
	log       hclog.Logger
	lines     *lineRing // what its processes wrote last
	outbox    *outbox
	kick      chan struct{}  // has room for one: a restart was asked for
	successor chan *opened   // a process that serves from now on instead of the one that does
	quit      chan struct{}  // closed when the plugin is not wanted any more
	ended     chan struct{}  // closed when run has returned
	ending    sync.WaitGroup // processes that are being ended while another serves

	sessions uint64     // begun so far. Owner: run
	said     *downState // what the engine was told last, if not that the plugin is up. Owner: run
	next     *opened    // what serves next, if anything is ready. Owner: run

	changing sync.Mutex // held while the plugin is reloaded, changed or removed

	mu        sync.Mutex // guards what follows
	plugin    *Plugin    // as it is to be started; never changed, but replaced
	restarts  *Restarts
	about     *description // newest; nil: it never described itself
	serving   *instance    // nil: it does not serve
	pid       int
	protocol  int
	digest    string
	confined  runner.Confined
	lastError failed // the latest, whether it serves again or not
	stats     *stats
}

// failed is a failure that people may want to read later.
type failed struct {
	text string
	at   time.Time
}

// downState is what makes one state of being down different from another.
type downState struct {
	code cluster.Code
	text string
}

func newSupervisor(cfg *Config, p Plugin) *supervisor {
	s := &supervisor{
		cfg: cfg, name: p.Name, log: cfg.Logger.Named(p.Name), lines: newLineRing(), outbox: newOutbox(), kick: make(chan struct{}, 1),
		successor: make(chan *opened), quit: make(chan struct{}), ended: make(chan struct{}),
		restarts: NewRestarts(cfg.Restart, cfg.Now()), stats: &stats{},
	}
	s.plugin = s.settle(p)
	return s
}

// settle returns a plugin's settings as its processes are started with them.
func (s *supervisor) settle(p Plugin) *Plugin {
	p = p.withDefaults()
	p.Command.Lines = s.lines.add
	return &p
}

// settings returns how the plugin is to be started now.
func (s *supervisor) settings() *Plugin {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.plugin
}

// run keeps the plugin running until ctx ends or the plugin is not wanted any more.
func (s *supervisor) run(ctx context.Context) error {
	defer close(s.ended)
	defer s.ending.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.ending.Go(func() {
		select {
		case <-s.quit:
			cancel()
		case <-ctx.Done():
		}
	})
	defer func() {
		cancel()
		if s.next != nil {
			s.discard(ctx, s.next)
		}
	}()
	defer s.note(func() { s.restarts.Stopped(s.cfg.Now()) })
	for {
		s.note(func() { s.restarts.Starting(s.cfg.Now()) })
		session, err := s.live(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errEngine):
			return fmt.Errorf("plugin %s: %w", s.name, err)
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

// live starts the plugin, or takes what is ready to serve, serves it, and ends it. It returns the session's number, 0 if it never came to one, and why it
// ended.
func (s *supervisor) live(ctx context.Context) (session uint64, err error) {
	select {
	case <-s.kick: // this is the start that was asked for
	default:
	}
	began := s.cfg.Now()
	ready := s.next
	s.next = nil
	if ready == nil {
		if ready, err = s.open(ctx, s.settings(), s.noteProcess); err != nil {
			s.note(func() { s.pid = 0 })
			return 0, err
		}
	}
	i := ready.instance
	s.noteProcess(i)
	defer func() {
		s.note(func() { s.serving, s.pid = nil, 0 })
		inPeace := ctx.Err() != nil || errors.Is(err, errRestart)
		if errors.Is(err, errReplaced) { // it ends beside the one that serves now
			s.ending.Go(func() { s.end(ctx, i, true) })
			return
		}
		s.end(ctx, i, inPeace)
	}()
	defer ready.hangUp()
	defer context.AfterFunc(ctx, ready.hangUp)()
	s.log.Info("plugin started", "version", i.about.version, "pid", i.process.PID(), "took", s.cfg.Now().Sub(began))
	s.sayConfined()
	err = s.serve(ctx, i, ready.stream, ready.hangUp)
	if ctx.Err() == nil && !errors.Is(err, errEngine) && !errors.Is(err, errReplaced) {
		err = i.why(err)
		f := failureOf(err)
		switch {
		case errors.Is(err, errRestart):
			f = unavailable("plugin %s is being restarted by an operator", s.name)
		case i.attachedTo() != "":
			f = unavailable("plugin %s: its attached process is gone (%s); the server's own is started", s.name, f.text)
			err = fmt.Errorf("%w: %w", errDetached, err)
		}
		if tell := s.down(ctx, s.sessions, f); tell != nil {
			err = tell
		}
	}
	return s.sessions, err
}

// noteProcess notes what people are told of a process.
func (s *supervisor) noteProcess(i *instance) {
	var confined runner.Confined
	if c, ok := i.process.(interface{ Confined() runner.Confined }); ok {
		confined = c.Confined()
	}
	s.note(func() {
		s.about, s.pid, s.protocol, s.digest, s.confined = i.about, i.process.PID(), i.process.Version(), i.digest(), confined
	})
}

// sayConfined logs what is in force of the process, and what could not be applied.
func (s *supervisor) sayConfined() {
	s.mu.Lock()
	c := s.confined
	s.mu.Unlock()
	if len(c.Applied) > 0 {
		s.log.Debug("plugin is confined", "by", strings.Join(c.Applied, "; "))
	}
	if len(c.Missing) > 0 {
		s.log.Warn("plugin is not confined fully", "missing", strings.Join(c.Missing, "; "))
	}
}

// opened is a process that has taken up its configuration and is ready for a session.
type opened struct {
	instance *instance
	stream   stream
	hangUp   func() // ends the stream
}

// discard ends a process that is not to serve.
func (s *supervisor) discard(ctx context.Context, o *opened) {
	o.hangUp()
	s.end(ctx, o.instance, true)
}

// open starts a process and brings it to where a session begins; described is called once it has said what it is. After an error nothing of it is left.
func (s *supervisor) open(ctx context.Context, p *Plugin, described func(*instance)) (_ *opened, err error) {
	i, err := start(ctx, s.cfg, p)
	if err != nil {
		return nil, err
	}
	described(i)
	defer func() {
		if err != nil {
			s.end(ctx, i, ctx.Err() != nil)
		}
	}()
	for _, word := range i.about.strange {
		s.log.Warn("plugin describes an interface unknown to this host", "interface", word)
	}
	warnings, err := i.configure(ctx)
	for _, w := range warnings {
		s.log.Warn("plugin configuration", "warning", w.String())
	}
	if err != nil {
		return nil, i.why(err)
	}
	return s.converse(ctx, i)
}

// converse opens a conversation with a process. It goes on when ctx ends.
func (s *supervisor) converse(ctx context.Context, i *instance) (*opened, error) {
	conversation, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, hangUp)
	st, err := i.open(conversation, s.cfg.ClusterID)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		hangUp()
		return nil, i.why(err)
	}
	return &opened{instance: i, stream: st, hangUp: hangUp}, nil
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
		s.serving, s.stats = i, stats
	})
	s.said = nil
	about := i.about
	err := s.cfg.Engine.Send(ctx, engine.PluginUp{
		Name: s.name, Session: number, Version: about.version, Filter: about.filter, Drainer: about.drainer, JobTypes: about.jobTypes,
		Watches: about.watches, FailureOpen: i.plugin.FailureOpen,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", errEngine, err)
	}
	session := newSession(s.conversation(i, number, s.cfg.Engine, s.outbox, stats))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watching := make(chan struct{})
	go func() { // waited for below
		defer close(watching)
		select {
		case <-s.kick:
			cancel(errRestart)
		case s.next = <-s.successor:
			cancel(errReplaced)
		case <-ctx.Done():
		}
	}()
	err = session.run(ctx, st, hangUp)
	cancel(nil)
	<-watching
	if s.next != nil {
		return errReplaced // whatever else ended it at the same time
	}
	return err
}

// conversation returns what a session with a process is made of.
func (s *supervisor) conversation(i *instance, number uint64, e Engine, o *outbox, st *stats) sessionConfig {
	return sessionConfig{
		name: s.name, number: number, timeout: i.plugin.Timeout, about: i.about, engine: e, outbox: o, log: s.log, ping: i.process.Ping, now: s.cfg.Now,
		stats: st, askedOf: s.cfg.Asked,
	}
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
	s.note(func() { s.lastError = failed{text: f.text, at: s.cfg.Now()} })
	s.log.Error("plugin does not serve", "code", string(f.code), "error", f.text)
	down := engine.PluginDown{Name: s.name, Session: session, Code: f.code, Message: f.text, FailureOpen: s.settings().FailureOpen}
	if err := s.cfg.Engine.Send(ctx, down); err != nil {
		return fmt.Errorf("%w: %w", errEngine, err)
	}
	return nil
}

// rest waits until the plugin is to be started again.
func (s *supervisor) rest(ctx context.Context, session uint64, err error) error {
	if errors.Is(err, errRestart) || errors.Is(err, errReplaced) || errors.Is(err, errDetached) {
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
			return fmt.Errorf("plugin %s: %w", s.name, err)
		}
	}
	s.log.Info("plugin is started again", "in", next.Sub(s.cfg.Now()), "state", string(state))
	timer := time.NewTimer(next.Sub(s.cfg.Now()))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.kick:
		s.note(func() { s.restarts.Stopped(s.cfg.Now()) })
	case s.next = <-s.successor:
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
