package pluginhost

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

const (
	maxMessage  = 1 << 20         // bytes of one message, as asked of plugins
	hardMessage = 2 * maxMessage  // larger ones end the session
	maxParts    = 64 << 20        // bytes of one answer in parts
	window      = 4               // revisions that the plugin may be behind before it is told of more
	maxLies     = 5               // false answers about single classes, jobs or questions until the session ends
	pingPeriod  = 5 * time.Second // of silence
	receiveRoom = 16              // messages
)

// stream is a session's conversation.
type stream interface {
	Send(m *pluginv1.FromCore) error
	Recv() (*pluginv1.FromPlugin, error)
}

// sessionConfig is what a session is made of.
type sessionConfig struct {
	name    string
	number  uint64
	timeout time.Duration // for one answer
	about   *description
	engine  Engine
	outbox  *outbox
	log     hclog.Logger
	ping    func(ctx context.Context) error
	now     func() time.Time
	stats   *stats
	askedOf func(because engine.Trace, q Question) Asked // as of Config.Asked
}

// session is one conversation with a plugin, from the moment at which it was ready. Owner: the goroutine of run, which alone touches what is not in the
// configuration.
type session struct {
	sessionConfig
	mirror    *mirror
	check     *checker
	queue     []*pluginv1.FromCore // built, not sent yet
	classes   map[uint32]*classBook
	lastClass uint32 // highest id ever sent
	jobs      map[string]*jobBook
	questions map[uint64]*question
	lastAsked map[bool]uint64 // highest question id ever sent: of trials, of others
	trialID   uint64

	first     uint64 // revisions on the wire
	applied   uint64
	unapplied []sentRevision // ascending
	heard     time.Time      // when the plugin last said something
	pinging   bool
	pong      chan error
	lies      int
	problems  int
	traces    []engine.Trace // of which what the engine is told next is part
}

// sentRevision is a revision that the plugin was told of and has not said to have applied.
type sentRevision struct {
	revision uint64
	at       time.Time
	asking   []*asking // that are answered once it was applied
}

func newSession(cfg sessionConfig) *session {
	m := newMirror(cfg.about.watches)
	return &session{
		sessionConfig: cfg, mirror: m, check: &checker{names: names{configured: cfg.name, described: cfg.about.name}, table: m},
		classes: map[uint32]*classBook{}, jobs: map[string]*jobBook{}, questions: map[uint64]*question{}, lastAsked: map[bool]uint64{},
		pong: make(chan error, 1),
	}
}

// run holds the conversation until it breaks, the plugin lies or hangs, or ctx ends; hangUp makes the stream's calls return. The error says why: a *failure,
// errEngine, or ctx's.
func (s *session) run(ctx context.Context, st stream, hangUp func()) error {
	ctx, cancel := context.WithCancel(ctx)
	in, lost := make(chan *pluginv1.FromPlugin, receiveRoom), make(chan error, 2)
	out := make(chan *pluginv1.FromCore)
	var others sync.WaitGroup
	defer others.Wait()
	defer hangUp()
	defer cancel()
	others.Go(func() { receive(ctx, st, in, lost) })
	others.Go(func() { send(ctx, st, out, lost) })
	defer s.abandon()
	s.heard = s.now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if len(s.queue) == 0 && len(s.unapplied) < window {
			s.fill()
		}
		var next *pluginv1.FromCore
		var to chan<- *pluginv1.FromCore
		if len(s.queue) > 0 {
			next, to = s.queue[0], out
		}
		timer.Reset(s.rest())
		var err error
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case to <- next:
			s.queue[0] = nil
			s.queue = s.queue[1:]
		case m := <-in:
			s.heard = s.now()
			err = s.take(ctx, m)
		case err = <-lost:
			err = s.takeRest(ctx, in, err)
		case <-s.outbox.wake:
		case err = <-s.pong:
			s.pinging = false
			err = s.ponged(err)
		case <-timer.C:
			err = s.tick(ctx, &others)
		}
		if err != nil {
			return err
		}
	}
}

func receive(ctx context.Context, st stream, in chan<- *pluginv1.FromPlugin, lost chan<- error) {
	for {
		m, err := st.Recv()
		if err != nil {
			lost <- err
			return
		}
		select {
		case in <- m:
		case <-ctx.Done():
			return
		}
	}
}

func send(ctx context.Context, st stream, out <-chan *pluginv1.FromCore, lost chan<- error) {
	for {
		select {
		case m := <-out:
			if err := st.Send(m); err != nil && err != io.EOF { //nolint:errorlint // Send returns it as it is, and Recv then says why
				lost <- err
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// takeRest takes what had come before the conversation broke, and says why it did.
func (s *session) takeRest(ctx context.Context, in <-chan *pluginv1.FromPlugin, why error) error {
	for {
		select {
		case m := <-in:
			if err := s.take(ctx, m); err != nil {
				return err
			}
		default:
			if why == io.EOF { //nolint:errorlint // Recv returns it as it is
				return unavailable("it ended its session")
			}
			return callFailure("session", why)
		}
	}
}

// abandon tells those who wait for trials that there will be no answer.
func (s *session) abandon() {
	s.lose()
	for _, q := range s.questions {
		if q.trial != nil {
			q.trial.fail(ErrAway)
		}
	}
}

// tell gives the engine an input.
func (s *session) tell(ctx context.Context, in engine.Input) error {
	if len(s.traces) > 0 {
		in, s.traces = engine.Traced{Input: in, Traces: s.traces}, nil
	}
	if err := s.engine.Send(ctx, in); err != nil {
		return fmt.Errorf("%w: %w", errEngine, err)
	}
	return nil
}

// take handles one message of the plugin's.
func (s *session) take(ctx context.Context, m *pluginv1.FromPlugin) error {
	size := messageSize(m)
	if size > hardMessage {
		return invalid("it sent a message of %d bytes; the limit is %d", size, maxMessage)
	}
	switch x := m.Message.(type) {
	case *pluginv1.FromPlugin_Applied:
		return s.takeApplied(ctx, x.Applied)
	case *pluginv1.FromPlugin_Verdicts:
		return s.takeVerdicts(ctx, x.Verdicts)
	case *pluginv1.FromPlugin_Slots:
		return s.takeSlots(ctx, x.Slots, size)
	case *pluginv1.FromPlugin_Answer:
		return s.takeAnswer(ctx, x.Answer, size)
	case *pluginv1.FromPlugin_Problem:
		s.takeProblem(x.Problem)
	case *pluginv1.FromPlugin_Ready:
		return invalid("it said twice that it is ready")
	}
	return nil // of a newer protocol than this host knows
}

// checkRevision returns a lie unless the plugin was told of the revision.
func (s *session) checkRevision(r uint64) error {
	if r >= s.first && r <= s.applied && r > 0 {
		return nil
	}
	for _, u := range s.unapplied {
		if u.revision == r {
			return nil
		}
	}
	return lief("it names revision %d, which it was not told of", r)
}

func (s *session) takeApplied(ctx context.Context, a *pluginv1.Applied) error {
	if err := s.checkRevision(a.Revision); err != nil {
		return invalid("applied: %v", err)
	}
	if a.Revision < s.applied {
		return invalid("applied: it goes back from revision %d to %d", s.applied, a.Revision)
	}
	now := s.now()
	for len(s.unapplied) > 0 && s.unapplied[0].revision <= a.Revision {
		if s.unapplied[0].revision == a.Revision {
			s.stats.took(now.Sub(s.unapplied[0].at))
		}
		for _, a := range s.unapplied[0].asking {
			s.followed(a.ended(Answered))
		}
		s.unapplied = s.unapplied[1:]
	}
	s.applied = a.Revision
	s.stats.revision.Store(uint64(coreRevision(a.Revision)))
	out := engine.PluginApplied{
		Name: s.name, Session: s.number, Revision: coreRevision(a.Revision),
		LateClasses: s.lateClasses(a.LateClasses, now), LateJobs: s.lateJobs(a.LateJobs, now),
	}
	s.stand(a.Revision, out.LateClasses, out.LateJobs)
	return s.tell(ctx, out)
}

const maxProblems = 100 // of one session that are logged

func (s *session) takeProblem(p *pluginv1.Problem) {
	s.problems++
	if s.problems <= maxProblems {
		s.log.Warn("plugin reports a problem", "code", string(s.check.names.code(p.GetCode())), "message", clean(p.GetMessage()))
	}
}

// lied counts a false answer whose subject can be told and set right. After too many the plugin is not believed at all.
func (s *session) lied(subject string, err error) error {
	s.lies++
	s.log.Warn("plugin answer refused", "subject", subject, "error", err, "refused", s.lies)
	if s.lies >= maxLies {
		return invalid("%d of its answers were refused, the last one about %s: %v", s.lies, subject, err)
	}
	return nil
}

func invalidAnswer(err error) *engine.FailureAnswer {
	return &engine.FailureAnswer{Code: cluster.CodePluginInvalid, Message: clean("an answer was refused: " + err.Error())}
}

func lateAnswer(d time.Duration) *engine.FailureAnswer {
	return &engine.FailureAnswer{Code: cluster.CodePluginTimeout, Message: "no answer within " + d.String()}
}

// stats is what a session counts for people to read. Safe for use by several goroutines.
type stats struct {
	classes, jobs, nodes atomic.Int64
	revision             atomic.Uint64 // of the mirror, up to which all was answered
	mu                   sync.Mutex
	last                 []time.Duration // a ring of the latest
	next                 int
	answers              uint64
	taken                time.Duration // by all answers
}

const maxSamples = 256

func (s *stats) took(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers++
	s.taken += d
	if len(s.last) < maxSamples {
		s.last = append(s.last, d)
		return
	}
	s.last[s.next] = d
	s.next = (s.next + 1) % maxSamples
}
