package dispatch

import (
	"time"

	"github.com/setpointd/setpoint/core/engine"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
	setpointv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/v1"
	"github.com/setpointd/setpoint/sdk/wire"
)

// told is what an agent was last told about a task, as far as a change is worth telling.
type told struct {
	desired cluster.DesiredState
	grace   time.Duration
	known   bool // an agent has spoken of the task
	start   bool
}

// assignable reports whether a task concerns the agent of a node: it was placed there and has not been seen to end.
func assignable(t *cluster.Task, node cluster.NodeID) bool {
	return t.Placement.Node == node && !t.Dead()
}

// assign returns what the agent of the task's node is to be told about it. It may start only if the state allows new tasks on the node and
// the content that it runs is still known.
func assign(s *engine.State, t *cluster.Task) (*agentv1.Assignment, told) {
	a := &agentv1.Assignment{
		Task: string(t.ID), Job: t.Job, Slot: string(t.Slot),
		Desired: uint32(t.Desired.State), GraceNs: int64(t.Desired.Grace), Observed: uint32(t.Observed.State),
	}
	for _, g := range t.Placement.Ports {
		a.Ports = append(a.Ports, wire.PortGrantToProto(g))
	}
	for _, g := range t.Placement.Addresses {
		a.Addresses = append(a.Addresses, wire.AddressGrantToProto(g))
	}
	if t.Desired.State.Wanted() {
		a.Spec = content(s, t)
		n := s.Node(t.Placement.Node)
		a.Start = a.GetSpec() != nil && n != nil && n.Usable()
	}
	return a, told{
		desired: t.Desired.State, grace: t.Desired.Grace, known: t.Observed.State != cluster.ObservedNone, start: a.GetStart(),
	}
}

// content returns what a task runs, or nil if its job no longer says so.
func content(s *engine.State, t *cluster.Task) *setpointv1.TaskSpec {
	job := s.Job(t.Job)
	if job == nil || job.CreatedRev > t.CreatedRev {
		return nil
	}
	v := job.VersionOf(t.JobVersion)
	if v == nil {
		return nil
	}
	return wire.TaskSpecToProto(&v.Spec.Task)
}
