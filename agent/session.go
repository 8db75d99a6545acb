package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/agent/machine"
	"github.com/setpointd/setpoint/agent/worker"
	"github.com/setpointd/setpoint/core/pki"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/proto/setpoint/agent/v1/agentv1connect"
	"github.com/setpointd/setpoint/sdk/cluster"
	"github.com/setpointd/setpoint/sdk/wire"
)

const (
	// greetTimeout is how long connecting and the server's welcome may take.
	greetTimeout = 15 * time.Second
	// leastSilence is for how long at least nothing may come from the server before the session is given up.
	leastSilence = time.Second
	// defaultPeriod is the period of heartbeats if the server names none.
	defaultPeriod = 2 * time.Second
)

var (
	errHungUp = errors.New("the server ended the session")
	errBye    = errors.New("the agent ended the session")
	// errRenewed ends a session in which the agent got a certificate of another authority: the next one shows it.
	errRenewed = errors.New("the cluster's authority is being replaced: the agent connects again with its new certificate")
)

// stream is the conversation as a session needs it. One goroutine sends, one receives.
type stream interface {
	Send(m *agentv1.FromAgent) error
	Receive() (*agentv1.FromServer, error)
	CloseRequest() error
}

// session is one conversation with the server.
type session struct {
	agent  *Agent
	log    hclog.Logger
	stream stream
	end    context.CancelCauseFunc // ends the session; the first reason counts
	feed   *worker.Feed
	period atomic.Int64            // of heartbeats, in nanoseconds, as the server said last
	out    chan *agentv1.FromAgent // descriptions and logs to send
	began  time.Time
	heard  atomic.Int64 // how long after began something last came, in nanoseconds

	contact atomic.Int64 // the same by the clock of the machine's start
	taking  atomic.Bool  // what came is being applied: the server is not the one that is waited for
	logs    logRequests
	execs   execs

	// Owner: the sender.
	sent    uint64 // number of the last report
	pending bool   // there is more to report than the server has taken so far
	acked   atomic.Uint64
	acks    chan struct{} // holds a value when acked has changed
	renew   chan struct{} // holds a value when the server wants the certificate renewed

	// Owner: the receiver.
	number uint64        // of the last assignments
	orders worker.Orders // the full set as far as it has come
	inFull bool

	// Owner: the housekeeper.
	described cluster.NodeDescription
}

// converse holds a session until it ends, and returns why. When the context ends the agent says the last that it has to say.
func (a *Agent) converse(ctx context.Context) error {
	if err := a.rejoin(ctx); err != nil {
		return err
	}
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	link := a.link(pki.ClientTLS(a.holder, a.holder.Pair().Authority()))
	defer link.cut()
	s := &session{
		agent: a, log: a.cfg.Log, end: end, feed: a.set.Follow(), out: make(chan *agentv1.FromAgent), acks: make(chan struct{}, 1), renew: make(chan struct{}, 1),
		described: a.describe(life), began: time.Now(),
	}
	defer s.feed.Close()

	impatient := context.AfterFunc(ctx, func() { end(ctx.Err()) })
	timer := time.AfterFunc(greetTimeout, func() { end(fmt.Errorf("the server did not welcome the agent within %s", greetTimeout)) })
	conn := link.client.Session(life)
	s.stream = conn
	// Neither a read nor a write that waits ends with the context alone.
	context.AfterFunc(life, func() {
		_ = conn.CloseRequest()
		link.cut()
	})
	err := s.greet()
	timer.Stop()
	impatient()
	if err != nil {
		return a.expired(because(life, err))
	}
	s.log.Info("session begun", "server", a.cfg.Server, "heartbeat", s.beats())
	a.set.Reached()
	defer func() { a.set.Cut(time.Duration(s.contact.Load())) }()
	s.run(life, ctx.Done(), link.client)
	return context.Cause(life)
}

// because returns the reason for which a context ended, or err if it did not end.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// greet exchanges the first messages.
func (s *session) greet() error {
	id := s.agent.holder.Pair().Identity()
	err := s.stream.Send(&agentv1.FromAgent{Message: &agentv1.FromAgent_Hello{Hello: &agentv1.Hello{
		ClusterId: id.ClusterID, Description: wire.NodeDescriptionToProto(s.described), BootId: machine.BootID(),
		SeenRevision: uint64(s.agent.set.Revision()), Process: s.agent.process,
	}}})
	if err != nil && !errors.Is(err, io.EOF) { // after EOF, Receive tells why
		return fmt.Errorf("connect to %s: %w", s.agent.cfg.Server, err)
	}
	m, err := s.stream.Receive()
	if err != nil {
		return fmt.Errorf("connect to %s: %w", s.agent.cfg.Server, err)
	}
	if leave := m.GetLeave(); leave != nil {
		return &LeftError{Reason: leave.GetReason()}
	}
	welcome := m.GetWelcome()
	if welcome == nil {
		return protocolError("the first message is %T, not Welcome", m.GetMessage())
	}
	if welcome.GetClusterId() != id.ClusterID {
		return connect.NewError(connect.CodeFailedPrecondition,
			fmt.Errorf("the server is of cluster %q, and this agent joined %q: nothing is stopped for it", welcome.GetClusterId(), id.ClusterID))
	}
	s.pace(cmp.Or(time.Duration(welcome.GetHeartbeatNs()), defaultPeriod))
	s.hear()
	return nil
}

// pace notes how often the server wants to hear something from now on; nothing that is no time changes anything.
func (s *session) pace(period time.Duration) {
	if period > 0 {
		s.period.Store(int64(period))
		s.agent.period.Store(int64(period))
	}
}

// beats is the period of heartbeats.
func (s *session) beats() time.Duration { return cmp.Or(time.Duration(s.period.Load()), defaultPeriod) }

func (s *session) hear() {
	s.heard.Store(int64(time.Since(s.began)))
	s.contact.Store(int64(machine.SinceBoot()))
}

// run exchanges messages until the session ends. Stop lets the agent end it.
func (s *session) run(life context.Context, stop <-chan struct{}, client agentv1connect.AgentServiceClient) {
	var group sync.WaitGroup
	defer group.Wait()
	part := func(f func() error) {
		group.Go(func() {
			if err := f(); err != nil {
				s.end(err)
			}
		})
	}
	part(func() error { return s.send(life, stop) })
	part(func() error { return s.guard(life) })
	part(func() error { return s.keepHouse(life, client) })
	part(func() error { return s.receive(life) })
	<-life.Done()
	s.logs.close()
}

// guard ends a session in which nothing comes from the server any more. Its heartbeats are answers to the agent's, so the way up is known to
// work as well.
func (s *session) guard(ctx context.Context) error {
	for pause(ctx, s.patience()/4) {
		s.agent.noteContact(time.Duration(s.contact.Load()))
		if err := s.silent(); err != nil && !s.taking.Load() {
			return err
		}
	}
	return nil
}

// patience is for how long nothing may come from the server.
func (s *session) patience() time.Duration { return max(3*s.beats(), leastSilence) }

// silent returns an error if nothing has come from the server for too long.
func (s *session) silent() error {
	silence := time.Since(s.began) - time.Duration(s.heard.Load())
	if silence <= s.patience() {
		return nil
	}
	return fmt.Errorf("nothing came from the server for %s", silence.Round(time.Millisecond))
}

// keepHouse renews the certificate when it is time or the server wants it, and tells of changes of the machine.
func (s *session) keepHouse(ctx context.Context, client agentv1connect.AgentServiceClient) error {
	look := time.NewTicker(describeEvery)
	defer look.Stop()
	wanted := s.renew
	asked := false
	for {
		if asked || !s.agent.cfg.Now().Before(s.agent.holder.Pair().RenewAt()) {
			err := s.agent.renew(ctx, client)
			switch {
			case errors.Is(err, errRenewed):
				return err
			case err != nil && ctx.Err() == nil:
				s.log.Error("certificate not renewed", "error", err, "expires", s.agent.holder.Pair().Certificate().NotAfter)
			}
			wanted = nil // it is tried once in a round, however often the server says so
		}
		select {
		case <-ctx.Done():
			return nil
		case <-wanted:
			asked = true
			continue
		case <-look.C:
			wanted, asked = s.renew, false
		}
		now := s.agent.describe(ctx)
		if machine.Equal(now, s.described) || ctx.Err() != nil {
			continue
		}
		s.described = now
		s.say(ctx, &agentv1.FromAgent{Message: &agentv1.FromAgent_Description{
			Description: &agentv1.Description{Description: wire.NodeDescriptionToProto(now)},
		}})
	}
}

// say has the sender send a message, and reports false if the session ended before.
func (s *session) say(ctx context.Context, m *agentv1.FromAgent) bool {
	select {
	case s.out <- m:
		return true
	case <-ctx.Done():
		return false
	}
}

func protocolError(format string, args ...any) error {
	return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf(format, args...))
}

// severity says how loudly the end of a session is logged: what a person has to see to is an error.
func severity(err error) hclog.Level {
	var stale *worker.StaleError
	switch code := connect.CodeOf(err); {
	case errors.As(err, &stale), code == connect.CodeFailedPrecondition, code == connect.CodeUnauthenticated, code == connect.CodePermissionDenied:
		return hclog.Error
	case code == connect.CodeAborted: // another agent has this one's certificate
		return hclog.Error
	default:
		return hclog.Warn
	}
}
