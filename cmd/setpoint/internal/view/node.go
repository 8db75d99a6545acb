package view

import apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"

// Node is a node as `node ls` and `node inspect` print it.
type Node struct {
	ID             string            `json:"id"`
	Name           string            `json:"name"`
	State          string            `json:"state"`
	Since          Moment            `json:"since"`
	Availability   string            `json:"availability"`
	Labels         map[string]string `json:"labels"`
	Capacity       Resources         `json:"capacity"`
	Used           Resources         `json:"used"`
	Free           Resources         `json:"free"`
	Tasks          int64             `json:"tasks"`
	Ports          []Port            `json:"ports"`
	Drain          *Drain            `json:"drain"`
	Decommissioned bool              `json:"decommissioned"`
	Joined         Moment            `json:"joined"`
	Stalls         []Stall           `json:"stalls"`
	Hostname       string            `json:"hostname"`
	OS             string            `json:"os"`
	Arch           string            `json:"arch"`
	Addresses      []string          `json:"addresses"`
	Attributes     map[string]string `json:"attributes"`
	Drivers        []string          `json:"drivers"`
	Version        string            `json:"version"`
	Holders        []Holder          `json:"holders,omitempty"` // of `node inspect`: the tasks that reserve something there
	Pools          []Pool            `json:"pools,omitempty"`   // of `node inspect`: those of which the holders have addresses
}

// Holder is a task with what it takes of its node.
type Holder struct {
	Task      string    `json:"task"`
	Phase     string    `json:"phase"`
	Reserves  Resources `json:"reserves"`
	Ports     []Port    `json:"ports"`
	Addresses []Address `json:"addresses"`
}

// Pool is how full a pool of addresses is.
type Pool struct {
	Name  string `json:"name"`
	CIDR  string `json:"cidr"`
	Total int64  `json:"total"`
	Used  int64  `json:"used"`
}

// Drain is how far a drain has come.
type Drain struct {
	State    string `json:"state"`
	Left     int64  `json:"left"`
	Lost     int64  `json:"lost"`
	Since    Moment `json:"since"`
	Deadline Span   `json:"deadline"`
	Until    Moment `json:"until"` // the moment of the deadline, while it is ahead
}

// OfNode returns a node's view.
func OfNode(n *apiv1.Node) Node {
	d := n.GetDescription()
	out := Node{
		ID: n.GetId(), Name: n.GetName(), State: n.GetState(), Since: moment(n.GetSince()), Availability: n.GetAvailability(), Labels: labels(n.GetLabels()),
		Capacity: resources(n.GetCapacity()), Used: resources(n.GetUsed()), Free: resources(n.GetFree()), Tasks: n.GetTasks(), Ports: ports(n.GetPorts()),
		Decommissioned: n.GetDecommissioned(), Joined: moment(n.GetJoined()), Stalls: OfStalls(n.GetStalls()),
		Hostname: d.GetHostname(), OS: d.GetOs(), Arch: d.GetArch(), Addresses: words(d.GetAddresses()), Attributes: labels(d.GetAttributes()),
		Drivers: words(d.GetDrivers()), Version: d.GetVersion(),
	}
	for _, h := range n.GetHolders() {
		out.Holders = append(out.Holders, Holder{
			Task: h.GetTask(), Phase: h.GetPhase(), Reserves: resources(h.GetReserves()), Ports: ports(h.GetPorts()), Addresses: addresses(h.GetAddresses()),
		})
	}
	for _, p := range n.GetPools() {
		out.Pools = append(out.Pools, Pool{Name: p.GetName(), CIDR: p.GetCidr(), Total: p.GetTotal(), Used: p.GetUsed()})
	}
	if r := n.GetDrain(); r != nil {
		out.Drain = &Drain{State: r.GetState(), Left: r.GetLeft(), Lost: r.GetLost(), Since: moment(r.GetSince()), Deadline: span(r.GetDeadline()), Until: moment(r.GetUntil())}
	}
	return out
}

// OfNodes returns the views of nodes.
func OfNodes(in []*apiv1.Node) []Node { return each(in, OfNode) }

// NodeChange is what came of a command about a node.
type NodeChange struct {
	Node
	Changed bool     `json:"changed"`
	Moves   []string `json:"moves"` // running tasks that new labels move
}

// OfNodeChange returns the view of what came of a command about a node.
func OfNodeChange(r *apiv1.NodeResponse) NodeChange {
	return NodeChange{Node: OfNode(r.GetNode()), Changed: r.GetChanged(), Moves: words(r.GetMoves())}
}
