package wire

import (
	"fmt"

	"github.com/setpointd/setpoint/sdk/cluster"
	setpointv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/v1"
)

// TaskToProto returns the message of t.
func TaskToProto(t *cluster.Task) *setpointv1.Task {
	return &setpointv1.Task{
		Id:          string(t.ID),
		Job:         t.Job,
		Slot:        string(t.Slot),
		JobVersion:  t.JobVersion,
		SpecVersion: t.SpecVersion,
		Created:     TimeToProto(t.Created),
		CreatedRev:  uint64(t.CreatedRev),
		Why:         t.Why,
		Avoid:       string(t.Avoid),
		Reserve:     ReserveToProto(t.Reserve),
		Nodes:       words[string](t.Nodes),
		Desired:     DesiredToProto(t.Desired),
		Placement:   PlacementToProto(t.Placement),
		Observed:    ObservedToProto(t.Observed),
		Condition:   ConditionToProto(t.Condition),
	}
}

// TaskFromProto returns the task that p says, or an error that wraps ErrRange if a state or port number in it does not exist.
func TaskFromProto(p *setpointv1.Task) (*cluster.Task, error) {
	reserve, err := ReserveFromProto(p.GetReserve())
	if err != nil {
		return nil, fmt.Errorf("task %s: %w", p.GetId(), err)
	}
	desired, err := DesiredFromProto(p.GetDesired())
	if err != nil {
		return nil, fmt.Errorf("task %s: %w", p.GetId(), err)
	}
	placement, err := PlacementFromProto(p.GetPlacement())
	if err != nil {
		return nil, fmt.Errorf("task %s: %w", p.GetId(), err)
	}
	observed, err := ObservedFromProto(p.GetObserved())
	if err != nil {
		return nil, fmt.Errorf("task %s: %w", p.GetId(), err)
	}
	return &cluster.Task{
		ID:          cluster.TaskID(p.GetId()),
		Job:         p.GetJob(),
		Slot:        cluster.SlotKey(p.GetSlot()),
		JobVersion:  p.GetJobVersion(),
		SpecVersion: p.GetSpecVersion(),
		Created:     TimeFromProto(p.GetCreated()),
		CreatedRev:  cluster.Revision(p.GetCreatedRev()),
		Why:         p.GetWhy(),
		Avoid:       cluster.NodeID(p.GetAvoid()),
		Reserve:     reserve,
		Nodes:       words[cluster.NodeID](p.GetNodes()),
		Desired:     desired,
		Placement:   placement,
		Observed:    observed,
		Condition:   ConditionFromProto(p.GetCondition()),
	}, nil
}

// ReserveToProto returns the message of r.
func ReserveToProto(r cluster.Reserve) *setpointv1.Reserve {
	return &setpointv1.Reserve{
		Resources: ResourcesToProto(r.Resources), Ports: each(r.Ports, PortToProto), Addresses: each(r.Addresses, addressToProto),
		MaxPerNode: int64(r.MaxPerNode),
	}
}

// ReserveFromProto returns what p says a task takes, or an error that wraps ErrRange if a port number in it is none.
func ReserveFromProto(p *setpointv1.Reserve) (cluster.Reserve, error) {
	ports, err := tryEach(p.GetPorts(), PortFromProto)
	if err != nil {
		return cluster.Reserve{}, err
	}
	return cluster.Reserve{
		Resources: ResourcesFromProto(p.GetResources()), Ports: ports, Addresses: each(p.GetAddresses(), addressFromProto),
		MaxPerNode: int(p.GetMaxPerNode()),
	}, nil
}

// DesiredToProto returns the message of d.
func DesiredToProto(d cluster.Desired) *setpointv1.Desired {
	return &setpointv1.Desired{State: uint32(d.State), Reason: d.Reason, By: d.By, Since: TimeToProto(d.Since), GraceNs: int64(d.Grace)}
}

// DesiredFromProto returns what p says is wanted, or an error that wraps ErrRange if its state does not exist.
func DesiredFromProto(p *setpointv1.Desired) (cluster.Desired, error) {
	if p.GetState() > uint32(cluster.DesiredRemove) {
		return cluster.Desired{}, fmt.Errorf("desired state %d: %w", p.GetState(), ErrRange)
	}
	return cluster.Desired{
		State:  cluster.DesiredState(p.GetState()),
		Reason: p.GetReason(),
		By:     p.GetBy(),
		Since:  TimeFromProto(p.GetSince()),
		Grace:  duration(p.GetGraceNs()),
	}, nil
}

// PlacementToProto returns the message of pl.
func PlacementToProto(pl cluster.Placement) *setpointv1.Placement {
	return &setpointv1.Placement{
		Node: string(pl.Node), Since: TimeToProto(pl.Since), Ports: each(pl.Ports, PortGrantToProto),
		Addresses: each(pl.Addresses, AddressGrantToProto), Among: amongToProto(pl.Among),
	}
}

func amongToProto(a cluster.Among) *setpointv1.Among {
	if a == (cluster.Among{}) {
		return nil
	}
	return &setpointv1.Among{Nodes: int64(a.Nodes), Allowed: int64(a.Allowed), Rank: int64(a.Rank), Beside: int64(a.Beside)}
}

// PlacementFromProto returns where p says a task was put, or an error that wraps ErrRange if a port number in it is none.
func PlacementFromProto(p *setpointv1.Placement) (cluster.Placement, error) {
	ports, err := tryEach(p.GetPorts(), PortGrantFromProto)
	if err != nil {
		return cluster.Placement{}, err
	}
	a := p.GetAmong()
	return cluster.Placement{
		Node: cluster.NodeID(p.GetNode()), Since: TimeFromProto(p.GetSince()), Ports: ports, Addresses: each(p.GetAddresses(), AddressGrantFromProto),
		Among: cluster.Among{Nodes: int(a.GetNodes()), Allowed: int(a.GetAllowed()), Rank: int(a.GetRank()), Beside: int(a.GetBeside())},
	}, nil
}

// ObservedToProto returns the message of o.
func ObservedToProto(o cluster.Observed) *setpointv1.Observed {
	return &setpointv1.Observed{
		State:    uint32(o.State),
		Message:  o.Message,
		Err:      o.Err,
		ExitCode: int64(o.ExitCode),
		Healthy:  o.Healthy,
		Unknown:  o.Unknown,
		At:       TimeToProto(o.At),
	}
}

// ObservedFromProto returns what p says was observed, or an error that wraps ErrRange if its state does not exist.
func ObservedFromProto(p *setpointv1.Observed) (cluster.Observed, error) {
	if p.GetState() > uint32(cluster.Stopped) {
		return cluster.Observed{}, fmt.Errorf("observed state %d: %w", p.GetState(), ErrRange)
	}
	return cluster.Observed{
		State:    cluster.ObservedState(p.GetState()),
		Message:  p.GetMessage(),
		Err:      p.GetErr(),
		ExitCode: int(p.GetExitCode()),
		Healthy:  p.GetHealthy(),
		Unknown:  p.GetUnknown(),
		At:       TimeFromProto(p.GetAt()),
	}, nil
}

// ConditionToProto returns the message of c.
func ConditionToProto(c cluster.Condition) *setpointv1.Condition {
	return &setpointv1.Condition{State: string(c.State), Since: TimeToProto(c.Since), Reason: c.Reason}
}

// ConditionFromProto returns the condition that p says.
func ConditionFromProto(p *setpointv1.Condition) cluster.Condition {
	return cluster.Condition{State: cluster.ConditionState(p.GetState()), Since: TimeFromProto(p.GetSince()), Reason: p.GetReason()}
}
