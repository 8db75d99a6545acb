package wire

import (
	"fmt"

	"github.com/setpointd/setpoint/sdk/cluster"
	setpointv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/v1"
)

// NodeToProto returns the message of n.
func NodeToProto(n *cluster.Node) *setpointv1.Node {
	p := &setpointv1.Node{
		Id:          string(n.ID),
		Joined:      TimeToProto(n.Joined),
		CreatedRev:  uint64(n.Created),
		Spec:        NodeSpecToProto(n.Spec),
		Description: NodeDescriptionToProto(n.Description),
		Status:      NodeStatusToProto(n.Status),
		Drain:       DrainStatusToProto(n.Drain),
	}
	if n.Seen != (cluster.FieldRevisions{}) {
		p.Seen = each(n.Seen[:], func(r cluster.Revision) uint64 { return uint64(r) })
	}
	return p
}

// NodeFromProto returns the node that p says. It returns an error that wraps ErrRange if p has revisions for more groups of fields than are known here;
// groups that p does not have are at revision 0.
func NodeFromProto(p *setpointv1.Node) (*cluster.Node, error) {
	n := &cluster.Node{
		ID:          cluster.NodeID(p.GetId()),
		Joined:      TimeFromProto(p.GetJoined()),
		Created:     cluster.Revision(p.GetCreatedRev()),
		Spec:        NodeSpecFromProto(p.GetSpec()),
		Description: NodeDescriptionFromProto(p.GetDescription()),
		Status:      NodeStatusFromProto(p.GetStatus()),
		Drain:       DrainStatusFromProto(p.GetDrain()),
	}
	if len(p.GetSeen()) > len(n.Seen) {
		return nil, fmt.Errorf("node %s: field group %d: %w", n.ID, len(p.GetSeen())-1, ErrRange)
	}
	for i, r := range p.GetSeen() {
		n.Seen[i] = cluster.Revision(r)
	}
	return n, nil
}

// NodeSpecToProto returns the message of s.
func NodeSpecToProto(s cluster.NodeSpec) *setpointv1.NodeSpec {
	return &setpointv1.NodeSpec{
		Name:            s.Name,
		Labels:          mapOrNil(s.Labels),
		Availability:    string(s.Availability),
		DrainDeadlineNs: int64(s.DrainDeadline),
		DrainSince:      TimeToProto(s.DrainSince),
		Decommissioned:  s.Decommissioned,
		AskedBy:         s.AskedBy,
		AskedRev:        uint64(s.AskedRev),
	}
}

// NodeSpecFromProto returns what p says an operator decided.
func NodeSpecFromProto(p *setpointv1.NodeSpec) cluster.NodeSpec {
	return cluster.NodeSpec{
		Name:           p.GetName(),
		Labels:         mapOrNil(p.GetLabels()),
		Availability:   cluster.Availability(p.GetAvailability()),
		DrainDeadline:  duration(p.GetDrainDeadlineNs()),
		DrainSince:     TimeFromProto(p.GetDrainSince()),
		Decommissioned: p.GetDecommissioned(),
		AskedBy:        p.GetAskedBy(),
		AskedRev:       cluster.Revision(p.GetAskedRev()),
	}
}

// NodeDescriptionToProto returns the message of d.
func NodeDescriptionToProto(d cluster.NodeDescription) *setpointv1.NodeDescription {
	return &setpointv1.NodeDescription{
		Hostname:   d.Hostname,
		Os:         d.OS,
		Arch:       d.Arch,
		Addresses:  listOrNil(d.Addresses),
		Attributes: mapOrNil(d.Attributes),
		Drivers:    listOrNil(d.Drivers),
		Capacity:   ResourcesToProto(d.Capacity),
		Version:    d.Version,
	}
}

// NodeDescriptionFromProto returns what p says an agent found.
func NodeDescriptionFromProto(p *setpointv1.NodeDescription) cluster.NodeDescription {
	return cluster.NodeDescription{
		Hostname:   p.GetHostname(),
		OS:         p.GetOs(),
		Arch:       p.GetArch(),
		Addresses:  listOrNil(p.GetAddresses()),
		Attributes: mapOrNil(p.GetAttributes()),
		Drivers:    listOrNil(p.GetDrivers()),
		Capacity:   ResourcesFromProto(p.GetCapacity()),
		Version:    p.GetVersion(),
	}
}

// NodeStatusToProto returns the message of s.
func NodeStatusToProto(s cluster.NodeStatus) *setpointv1.NodeStatus {
	return &setpointv1.NodeStatus{State: string(s.State), Since: TimeToProto(s.Since), Replace: TimeToProto(s.Replace), Massed: s.Massed}
}

// NodeStatusFromProto returns the status that p says.
func NodeStatusFromProto(p *setpointv1.NodeStatus) cluster.NodeStatus {
	return cluster.NodeStatus{
		State: cluster.NodeState(p.GetState()), Since: TimeFromProto(p.GetSince()), Replace: TimeFromProto(p.GetReplace()), Massed: p.GetMassed(),
	}
}

// DrainStatusToProto returns the message of s.
func DrainStatusToProto(s cluster.DrainStatus) *setpointv1.DrainStatus {
	return &setpointv1.DrainStatus{State: string(s.State), Since: TimeToProto(s.Since), Left: int64(s.Left), Lost: int64(s.Lost)}
}

// DrainStatusFromProto returns the progress that p says.
func DrainStatusFromProto(p *setpointv1.DrainStatus) cluster.DrainStatus {
	return cluster.DrainStatus{
		State: cluster.DrainState(p.GetState()),
		Since: TimeFromProto(p.GetSince()),
		Left:  int(p.GetLeft()),
		Lost:  int(p.GetLost()),
	}
}
