package cluster

import (
	"slices"
	"time"
)

// NodeID names a node for ever. It is given once, when its agent joins, and is never used for another machine.
type NodeID string

// Availability is what the operator allows on a node.
type Availability string

const (
	// Active nodes take new tasks.
	Active Availability = "active"
	// Pause keeps what runs and starts nothing new there, restarts included.
	Pause Availability = "pause"
	// Drain empties the node.
	Drain Availability = "drain"
)

// NodeState is what the monitor concluded from heartbeats.
type NodeState string

const (
	// NodeReady is heard of and has reported all tasks that it knows.
	NodeReady NodeState = "ready"
	// NodeSilent has missed heartbeats and is within its grace: nothing moves, nothing new is placed there.
	NodeSilent NodeState = "silent"
	// NodeDown has been silent for longer than its grace: its tasks are lost and are replaced elsewhere.
	NodeDown NodeState = "down"
)

// Node is a machine with an agent.
type Node struct {
	ID      NodeID
	Joined  Time
	Created Revision

	Spec        NodeSpec        // Owner: the operator
	Description NodeDescription // Owner: the node's agent
	Status      NodeStatus      // Owner: the monitor
	Drain       DrainStatus     // Owner: reconcile

	Seen FieldRevisions // Owner: the engine; when what plugins see of the node last changed
}

// NodeSpec is what the operator decided about a node.
type NodeSpec struct {
	Name           string // unique among nodes that are not decommissioned
	Labels         map[string]string
	Availability   Availability
	DrainDeadline  time.Duration // from DrainSince; 0: wait for budgets without limit
	DrainSince     Time          // when Availability became Drain
	Decommissioned bool          // "it never comes back": its tasks are gone
	AskedBy        string        // who decided the latest of all this
	AskedRev       Revision      // when
}

// NodeDescription is what the agent found on its machine.
type NodeDescription struct {
	Hostname   string
	OS         string // as in GOOS
	Arch       string // as in GOARCH
	Addresses  []string
	Attributes map[string]string
	Drivers    []string
	Capacity   Resources
	Version    string // of the agent
}

// The attributes by which an agent says that something does not work on its machine: AttributeSecrets, and one for each driver that it offers, DriverAttribute.
const (
	AttributeSecrets = "secrets"
	Unavailable      = "unavailable"
)

// DriverAttribute is the attribute with which an agent says that a driver which it offers does not work now.
func DriverAttribute(driver string) string { return "driver." + driver }

// HasDriver reports whether the node can run tasks of a driver. An agent that says nothing of drivers, as one of another make may, is taken to have all.
func (d *NodeDescription) HasDriver(driver string) bool {
	if len(d.Drivers) > 0 {
		return slices.Contains(d.Drivers, driver)
	}
	for _, offered := range []string{DriverProcess, DriverDocker, DriverSim} {
		if d.Attributes[DriverAttribute(offered)] == Unavailable {
			return false // it does say something: none of its drivers works
		}
	}
	return true
}

// KeepsSecrets reports whether the node can keep secrets in memory. An agent that says nothing of it is taken to.
func (d *NodeDescription) KeepsSecrets() bool { return d.Attributes[AttributeSecrets] != Unavailable }

// NodeStatus is what the monitor infers about a node.
type NodeStatus struct {
	State   NodeState
	Since   Time // of the state
	Replace Time // of the last time that it went down: no earlier are its tasks replaced elsewhere
	Massed  bool // it was silent when a mass silence began that is not over
}

// DrainState says how far a drain has come.
type DrainState string

const (
	// DrainNone is the state of a node that is not being drained.
	DrainNone DrainState = ""
	// Draining means that some task has not been seen to stop yet.
	Draining DrainState = "draining"
	// Drained means that every task of the node was observed to have stopped, or is lost with its node.
	Drained DrainState = "drained"
)

// DrainStatus is the progress of a drain.
type DrainStatus struct {
	State DrainState
	Since Time
	Left  int // tasks that have not been seen to stop
	Lost  int // tasks lost with the node: their stop was not confirmed
}

// NodeField is a group of node fields that a plugin can watch.
type NodeField uint8

// The groups of node fields, in the order of FieldRevisions.
const (
	FieldLabels NodeField = iota
	FieldAttributes
	FieldPlatform // hostname, os, arch, addresses, drivers, version
	FieldCapacity
	FieldAvailability
	FieldState
	FieldIdentity // name, and whether it was decommissioned; every plugin sees these
	NodeFields    // how many there are
)

// FieldRevisions says for each group of fields at which revision it last changed.
type FieldRevisions [NodeFields]Revision

// FieldMask is a set of NodeField.
type FieldMask uint8

// Mask returns the set of the given fields.
func Mask(fields ...NodeField) FieldMask {
	var m FieldMask
	for _, f := range fields {
		m |= 1 << f
	}
	return m
}

// Has reports whether f is in m.
func (m FieldMask) Has(f NodeField) bool { return m&(1<<f) != 0 }

// Latest returns the newest revision among the fields in m.
func (r FieldRevisions) Latest(m FieldMask) Revision {
	var out Revision
	for f := range NodeFields {
		if m.Has(f) {
			out = max(out, r[f])
		}
	}
	return out
}

// Usable reports whether new tasks may be sent to the node, as far as its operator and its heartbeats are concerned.
func (n *Node) Usable() bool {
	return n.Status.State == NodeReady && n.Spec.Availability == Active && !n.Spec.Decommissioned
}

// Down reports whether the node is down or will never come back.
func (n *Node) Down() bool { return n.Status.State == NodeDown || n.Spec.Decommissioned }
