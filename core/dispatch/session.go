package dispatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
	"github.com/setpointd/setpoint/sdk/wire"
)

// farewell is how long the end of a session may wait for the engine's queue.
const farewell = 5 * time.Second

// stream is the conversation as a session needs it; *connect.BidiStream is one. One goroutine sends, one receives.
type stream interface {
	Send(*agentv1.FromServer) error
	Receive() (*agentv1.FromAgent, error)
}

// session is one conversation with a node's agent.
type session struct {
	d      *Dispatcher
	node   cluster.NodeID
	number uint64
	stream stream
	out    outbox
	logs   logStreams
	execs  execs

	authority pki.Fingerprint // of the certificate that the agent showed
	process   string          // which run of the agent it is
	heard     time.Time       // when something last came. Guarded by the dispatcher's lock

	// Owner: the receiver.
	reports  uint64 // number of the last report
	complete bool   // the full report has come

	// Owner: the sender.
	sent uint64 // number of the last assignments
	told map[cluster.TaskID]told

	once  sync.Once
	ended chan struct{} // closed by end
	why   error         // set before ended is closed
}

// end ends the session; the first reason counts.
func (s *session) end(why error) {
	s.once.Do(func() {
		s.why = why
		close(s.ended)
	})
}

// Session is an agent's conversation with the server. It lasts until one side ends it.
func (v *service) Session(ctx context.Context, conn *connect.BidiStream[agentv1.FromAgent, agentv1.FromServer]) error {
	id, err := v.d.opts.Identity(ctx)
	if err != nil {
		return asConnect(err)
	}
	if err := id.Require(pki.RoleNode); err != nil {
		return connect.NewError(connect.CodePermissionDenied, err)
	}
	authority, err := v.d.opts.Authority(ctx)
	if err != nil {
		return asConnect(err)
	}
	return asConnect(v.d.converse(ctx, cluster.NodeID(id.NodeID), authority, conn))
}

// converse holds a session from its first message to its end.
func (d *Dispatcher) converse(ctx context.Context, node cluster.NodeID, authority pki.Fingerprint, conn stream) error {
	log := d.opts.Log.With("node", node)
	hello, err := d.greet(conn)
	if err != nil {
		return err
	}
	state := d.opts.Engine.View()
	record := state.Node(node)
	if err := d.older(ctx, state, record, hello); err != nil {
		log.Error("agent turned away: this state is an older copy of what the agent has seen", "error", err)
		return err
	}
	if reason, err := admit(state, record, hello.GetSeenRevision()); err != nil || reason != "" {
		log.Warn("agent of an unwanted node turned away", "reason", reason, "error", err)
		if err == nil {
			err = conn.Send(leave(reason))
		}
		return err
	}
	s := &session{d: d, node: node, authority: authority, process: hello.GetProcess(), stream: conn, ended: make(chan struct{}), told: make(map[cluster.TaskID]told)}
	s.out.init()
	if err := d.begin(s); err != nil {
		log.Warn("agent turned away", "error", err)
		return err
	}
	defer d.forget(s)
	up := engine.AgentUp{Node: node, Session: s.number, Description: wire.NodeDescriptionFromProto(hello.GetDescription())}
	if err := d.opts.Engine.Send(ctx, up); err != nil {
		return fmt.Errorf("begin session: %w", err)
	}
	log.Info("agent connected", "session", s.number, "boot", hello.GetBootId(), "seen_revision", hello.GetSeenRevision())
	err = s.run(ctx, record.Spec.Name)
	log.Info("agent disconnected", "session", s.number, "reason", err)

	bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	if err := d.opts.Engine.Send(bye, engine.AgentDown{Node: node, Session: s.number}); err != nil {
		log.Debug("end of a session not passed on", "session", s.number, "error", err)
	}
	if errors.Is(err, errLeft) || errors.Is(err, errHungUp) {
		return nil
	}
	return err
}

// greet takes the agent's first message, which is a Hello for this cluster.
func (d *Dispatcher) greet(conn stream) (*agentv1.Hello, error) {
	m, err := conn.Receive()
	if err != nil {
		return nil, fmt.Errorf("receive hello: %w", err)
	}
	hello := m.GetHello()
	if hello == nil {
		return nil, protocolError("the first message is %T, not Hello", m.GetMessage())
	}
	if have := d.opts.Engine.View().ClusterID; hello.GetClusterId() != have {
		return nil, connect.NewError(connect.CodeFailedPrecondition,
			fmt.Errorf("this is cluster %s; the agent joined cluster %s", have, hello.GetClusterId()))
	}
	return hello, nil
}

// admit says whether a node may have a session: "" and nil if so, why its agent is to leave for good, or an error with which it is only
// turned away. A node without a record was removed, unless its agent has seen a newer state than this one: then this state is an old copy.
func admit(state *engine.State, n *cluster.Node, seen uint64) (reason string, err error) {
	switch {
	case n != nil && n.Spec.Decommissioned:
		return "node " + n.Spec.Name + " was decommissioned", nil
	case n != nil:
		return "", nil
	case seen > uint64(state.Revision):
		return "", connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf(
			"the node is not known here, but has seen revision %d while this state is at %d: it was restored from an older copy",
			seen, state.Revision))
	}
	return "the node was removed from the cluster", nil
}

// run exchanges messages until the session ends, and returns why.
func (s *session) run(ctx context.Context, name string) error {
	// The receiver ends when the handler has returned, since only that ends a read that waits; the dispatcher waits for it.
	s.d.tasks.Go(func() { s.end(s.receive(ctx)) })
	err := s.send(ctx, name)
	s.end(err)
	s.logs.close(s.why)
	s.execs.close(s.why)
	return s.why
}

// receive takes messages until one cannot be taken, and returns why.
func (s *session) receive(ctx context.Context) error {
	for {
		m, err := s.stream.Receive()
		if errors.Is(err, io.EOF) {
			return errHungUp
		}
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		select {
		case <-s.ended:
			return s.why
		default:
		}
		s.d.hear(s)
		if err := s.take(ctx, m); err != nil {
			return err
		}
	}
}

// take handles one message.
func (s *session) take(ctx context.Context, m *agentv1.FromAgent) error {
	switch m := m.GetMessage().(type) {
	case *agentv1.FromAgent_Report:
		return s.report(ctx, m.Report)
	case *agentv1.FromAgent_Heartbeat:
		s.out.beat()
		return nil
	case *agentv1.FromAgent_Description:
		return s.d.opts.Engine.Send(ctx, engine.AgentDescribes{
			Node: s.node, Session: s.number, Description: wire.NodeDescriptionFromProto(m.Description.GetDescription()),
		})
	case *agentv1.FromAgent_Logs:
		if s.logs.deliver(m.Logs) {
			return nil
		}
		// Nobody waits for it any more.
		if !m.Logs.GetEnd() {
			s.out.control(cancelLogs(m.Logs.GetRequest()))
		}
		return nil
	case *agentv1.FromAgent_Exec:
		s.execs.deliver(m.Exec)
		return nil
	}
	return protocolError("a message %T is not expected here", m.GetMessage())
}

func leave(reason string) *agentv1.FromServer {
	return &agentv1.FromServer{Message: &agentv1.FromServer_Leave{Leave: &agentv1.Leave{Reason: reason}}}
}

func protocolError(format string, args ...any) error {
	return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf(format, args...))
}
