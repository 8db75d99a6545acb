package api

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/setpointd/setpoint/core/engine"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
	"github.com/setpointd/setpoint/sdk/wire"
)

// timestamp returns a moment on the wall clock, nil if it was never set.
func timestamp(t cluster.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t.WallTime())
}

// wallTimestamp returns a moment, nil if it was never set.
func wallTimestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// nodeName returns a node's name, or its id if it has no record.
func nodeName(s *engine.State, id cluster.NodeID) string {
	if s != nil {
		if n := s.Node(id); n != nil {
			return n.Spec.Name
		}
	}
	return string(id)
}

// taskView returns a task as people look at it.
func taskView(s *engine.State, t *cluster.Task) *apiv1.Task {
	n := s.Node(t.Placement.Node)
	stalls := s.TaskStalls(t)
	condition := t.ConditionOn(n)
	v := &apiv1.Task{
		Id: string(t.ID), Job: t.Job, JobVersion: t.JobVersion, Slot: string(t.Slot), NodeId: string(t.Placement.Node),
		Desired: &apiv1.Desired{State: t.Desired.State.String(), Reason: t.Desired.Reason, By: t.Desired.By, Since: timestamp(t.Desired.Since)},
		Observed: &apiv1.Observed{
			State: t.Observed.State.String(), Message: t.Observed.Message, Err: t.Observed.Err, ExitCode: int64(t.Observed.ExitCode),
			Healthy: t.Observed.Healthy, At: timestamp(t.Observed.At),
		},
		Condition: &apiv1.Condition{State: string(condition.State), Since: timestamp(condition.Since), Reason: condition.Reason},
		Phase:     string(cluster.PhaseOf(t, n, len(stalls) > 0)),
		Created:   timestamp(t.Created), Why: t.Why, Placed: timestamp(t.Placement.Since), Dead: t.Dead(),
	}
	if t.Placed() {
		v.Node = nodeName(s, t.Placement.Node)
	}
	if t.Desired.Grace >= 0 && !t.Desired.State.Wanted() {
		v.Desired.Grace = durationpb.New(t.Desired.Grace)
	}
	for i := range stalls {
		v.Stalls = append(v.Stalls, stallView(s, &stalls[i]))
	}
	for _, p := range t.Placement.Ports {
		v.Ports = append(v.Ports, &apiv1.Port{Name: p.Name, Number: uint32(p.Number)})
	}
	for _, g := range t.Placement.Addresses {
		v.Addresses = append(v.Addresses, &apiv1.Address{Name: g.Name, Pool: g.Pool, Address: g.Address})
	}
	return v
}

// notNegative returns what is left to be given: nothing of what is overdrawn since a node has less than it had.
func notNegative(r cluster.Resources) cluster.Resources {
	out := cluster.Resources{MilliCPU: max(r.MilliCPU, 0), Memory: max(r.Memory, 0)}
	for name, n := range r.Units {
		if out.Units == nil {
			out.Units = make(map[string]int64, len(r.Units))
		}
		out.Units[name] = max(n, 0)
	}
	return out
}

// newestTask returns the newest task of a slot, or nil.
func newestTask(s *engine.State, job string, key cluster.SlotKey) *cluster.Task {
	tasks := s.SlotTasks(job, key)
	if len(tasks) == 0 {
		return nil
	}
	return tasks[len(tasks)-1]
}

// nodeView returns a node as people look at it. Without use nothing is said of what is reserved there.
func nodeView(s *engine.State, n *cluster.Node, use *engine.NodeUse) *apiv1.Node {
	v := &apiv1.Node{
		Id: string(n.ID), Name: n.Spec.Name, State: string(n.Status.State), Since: timestamp(n.Status.Since),
		Availability: string(n.Spec.Availability), Labels: n.Spec.Labels,
		Capacity: wire.ResourcesToProto(n.Description.Capacity), Description: wire.NodeDescriptionToProto(n.Description),
		Decommissioned: n.Spec.Decommissioned, Joined: timestamp(n.Joined),
	}
	if n.Drain.State != cluster.DrainNone {
		v.Drain = &apiv1.Drain{State: string(n.Drain.State), Left: int64(n.Drain.Left), Lost: int64(n.Drain.Lost), Since: timestamp(n.Drain.Since)}
		if n.Spec.DrainDeadline > 0 {
			v.Drain.Deadline = durationpb.New(n.Spec.DrainDeadline)
			if left := n.Spec.DrainSince.Engine + n.Spec.DrainDeadline - s.Now.Engine; left > 0 && n.Drain.State == cluster.Draining {
				v.Drain.Until = timestamppb.New(s.Now.WallTime().Add(left))
			}
		}
	}
	for _, stall := range s.StallsOf(cluster.Subject{Kind: cluster.SubjectNode, ID: string(n.ID)}) {
		v.Stalls = append(v.Stalls, stallView(s, stall))
	}
	if use != nil {
		v.Used, v.Free, v.Tasks = wire.ResourcesToProto(use.Reserved), wire.ResourcesToProto(notNegative(use.Free)), int64(use.Tasks)
		v.Ports = portsTaken(use.Ports)
	}
	return v
}
