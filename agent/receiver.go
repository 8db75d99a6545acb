package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/setpointd/setpoint/agent/secrets"
	"github.com/setpointd/setpoint/agent/state"
	"github.com/setpointd/setpoint/agent/worker"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

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
		// What waited while this process or the network stood still is of a time in which the server may have given the node up.
		if err := s.silent(); err != nil {
			return err
		}
		s.taking.Store(true)
		err = s.take(ctx, m)
		s.hear()
		s.taking.Store(false)
		if err != nil {
			return err
		}
	}
}

// take handles one message.
func (s *session) take(ctx context.Context, m *agentv1.FromServer) error {
	switch m := m.GetMessage().(type) {
	case *agentv1.FromServer_Assignments:
		return s.assign(m.Assignments)
	case *agentv1.FromServer_Ack:
		s.acked.Store(m.Ack.GetNumber())
		notify(s.acks)
		return nil
	case *agentv1.FromServer_Heartbeat:
		s.pace(time.Duration(m.Heartbeat.GetPeriodNs()))
		if m.Heartbeat.GetRenew() {
			notify(s.renew)
		}
		return nil
	case *agentv1.FromServer_Leave:
		return &LeftError{Reason: m.Leave.GetReason()}
	case *agentv1.FromServer_LogRequest:
		s.logs.begin(ctx, s, m.LogRequest)
		return nil
	case *agentv1.FromServer_LogCancel:
		s.logs.cancel(m.LogCancel.GetRequest())
		return nil
	case *agentv1.FromServer_LogMore:
		s.logs.more(m.LogMore.GetRequest(), m.LogMore.GetBytes())
		return nil
	case *agentv1.FromServer_Exec:
		s.execs.take(ctx, s, m.Exec)
		return nil
	case *agentv1.FromServer_Welcome:
		return protocolError("the server welcomes twice")
	}
	return nil // a newer server says something that this agent does not know
}

// assign applies assignments: a full set once all of it has come, changes at once. After a gap in their numbers nothing can be trusted.
func (s *session) assign(m *agentv1.Assignments) error {
	if m.GetNumber() != s.number+1 {
		return protocolError("assignments %d follow assignments %d", m.GetNumber(), s.number)
	}
	s.number++
	if s.inFull && !m.GetFull() {
		return protocolError("assignments %d: changes came before the full set was complete", m.GetNumber())
	}
	orders := s.orders // what came of the full set, or nothing
	s.orders, s.inFull = worker.Orders{}, false
	orders.Revision, orders.Full = cluster.Revision(m.GetRevision()), m.GetFull()
	for _, p := range m.GetUpsert() {
		a, err := state.AssignmentFromProto(p)
		if err != nil {
			return protocolError("assignments %d: %w", m.GetNumber(), err)
		}
		orders.Assignments = append(orders.Assignments, a)
		for _, s := range p.GetSecrets() {
			if orders.Secrets == nil {
				orders.Secrets = make(map[cluster.TaskID]secrets.Values)
			}
			values := orders.Secrets[a.Task]
			values.Add(s.GetName(), s.GetValue(), s.GetErr())
			orders.Secrets[a.Task] = values
		}
	}
	for _, id := range m.GetRemove() {
		orders.Remove = append(orders.Remove, cluster.TaskID(id))
	}
	if m.GetFull() && m.GetMore() {
		s.orders, s.inFull = orders, true
		return nil
	}
	if err := s.agent.set.Apply(orders); err != nil {
		return err
	}
	s.log.Debug("assignments applied", "revision", orders.Revision, "full", orders.Full, "tasks", len(orders.Assignments),
		"removed", len(orders.Remove))
	return nil
}

// notify puts a value into a channel that holds one, unless it is there.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
