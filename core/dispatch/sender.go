package dispatch

import (
	"context"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/setpointd/setpoint/core/engine"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Limits of one message of assignments. An assignment is no larger than a job's specification, which the API limits.
const (
	maxAssignments     = 200
	maxAssignmentBytes = 512 << 10
)

// send says everything that the session has to say, until it ends, and returns why.
func (s *session) send(ctx context.Context, name string) error {
	if err := s.welcome(name); err != nil {
		return err
	}
	if err := s.full(); err != nil {
		return err
	}
	for {
		select {
		case <-s.ended:
			return s.why
		case <-ctx.Done():
			return errHungUp
		case <-s.out.wake:
		}
		if err := s.sendDue(s.out.take()); err != nil {
			return err
		}
	}
}

func (s *session) welcome(name string) error {
	return s.stream.Send(&agentv1.FromServer{Message: &agentv1.FromServer_Welcome{Welcome: &agentv1.Welcome{
		ClusterId: s.d.opts.Engine.View().ClusterID, NodeName: name, HeartbeatNs: int64(s.d.opts.Heartbeat()),
	}}})
}

// full says which tasks the node should run: all that it does not name are stopped. Each message is made of the newest state; what changes
// meanwhile follows.
func (s *session) full() error {
	var ids []cluster.TaskID
	for t := range s.d.opts.Engine.View().TasksOn(s.node) {
		if assignable(t, s.node) {
			ids = append(ids, t.ID)
		} else {
			s.told[t.ID] = told{} // the agent keeps it, with its logs, until it hears that the record is gone
		}
	}
	for {
		m, rest := s.compose(ids)
		m.Full, m.More = true, len(rest) > 0
		if err := s.assignments(m); err != nil || len(rest) == 0 {
			return err
		}
		ids = rest
	}
}

// sendDue sends what the outbox gave.
func (s *session) sendDue(d due) error {
	if d.ack != 0 {
		ack := &agentv1.ReportAck{Number: d.ack}
		if err := s.stream.Send(&agentv1.FromServer{Message: &agentv1.FromServer_Ack{Ack: ack}}); err != nil {
			return err
		}
	}
	if d.beat {
		beat := &agentv1.Heartbeat{Renew: s.authority != s.d.opts.Signer.Fingerprint(), PeriodNs: int64(s.d.opts.Heartbeat())}
		if err := s.stream.Send(&agentv1.FromServer{Message: &agentv1.FromServer_Heartbeat{Heartbeat: beat}}); err != nil {
			return err
		}
	}
	if d.leave != "" {
		if err := s.stream.Send(leave(d.leave)); err != nil {
			return err
		}
		return errLeft
	}
	for _, m := range d.controls {
		if err := s.stream.Send(m); err != nil {
			return err
		}
	}
	if err := s.sayExecs(d.execs); err != nil {
		return err
	}
	if len(d.forget) > 0 {
		if err := s.forget(d.forget); err != nil {
			return err
		}
	}
	return s.changes(d)
}

// forget tells the agent which of the tasks that it reported have no record.
func (s *session) forget(ids []cluster.TaskID) error {
	m := &agentv1.Assignments{Revision: uint64(s.d.opts.Engine.View().Revision)}
	slices.Sort(ids)
	for _, id := range ids {
		delete(s.told, id)
		m.Remove = append(m.Remove, string(id))
	}
	return s.assignments(m)
}

// changes tells what is different from what the agent was told.
func (s *session) changes(d due) error {
	ids := d.tasks
	if d.all {
		ids = slices.AppendSeq(ids, maps.Keys(s.told))
		for t := range s.d.opts.Engine.View().TasksOn(s.node) {
			if assignable(t, s.node) {
				ids = append(ids, t.ID)
			}
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	for len(ids) > 0 {
		m, rest := s.compose(ids)
		if len(m.GetUpsert())+len(m.GetRemove()) > 0 {
			if err := s.assignments(m); err != nil {
				return err
			}
		}
		ids = rest
	}
	return nil
}

// compose makes a message of what is new about the first of ids in the newest state, and returns those that are left.
func (s *session) compose(ids []cluster.TaskID) (m *agentv1.Assignments, rest []cluster.TaskID) {
	state := s.d.opts.Engine.View()
	m = &agentv1.Assignments{Revision: uint64(state.Revision)}
	size := 0
	for i, id := range ids {
		if len(m.GetUpsert())+len(m.GetRemove()) >= maxAssignments || size >= maxAssignmentBytes {
			return m, ids[i:]
		}
		size += s.composeTask(m, state, id)
	}
	return m, nil
}

// composeTask adds one task to a message, if there is something new to say, and returns by how many bytes the message grew.
func (s *session) composeTask(m *agentv1.Assignments, state *engine.State, id cluster.TaskID) int {
	t := state.Task(id)
	if t == nil {
		if _, ok := s.told[id]; !ok {
			return 0
		}
		delete(s.told, id)
		m.Remove = append(m.Remove, string(id))
		return len(id)
	}
	if !assignable(t, s.node) {
		return 0
	}
	a, now := assign(state, t)
	if before, ok := s.told[id]; ok && before == now {
		return 0
	}
	s.told[id] = now
	s.d.addSecrets(a)
	m.Upsert = append(m.Upsert, a)
	return proto.Size(a)
}

func (s *session) assignments(m *agentv1.Assignments) error {
	s.sent++
	m.Number = s.sent
	return s.stream.Send(&agentv1.FromServer{Message: &agentv1.FromServer_Assignments{Assignments: m}})
}
