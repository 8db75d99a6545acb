package dispatch

import (
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Committed notes for each session what a turn changed of what its agent should know. It is called after every commit, in order, and never
// blocks.
func (d *Dispatcher) Committed(turn engine.Turn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.sessions) == 0 {
		return
	}
	for _, c := range turn.Changes {
		d.note(turn, c.Change)
	}
}

func (d *Dispatcher) note(turn engine.Turn, c cluster.Change) {
	switch c := c.(type) {
	case cluster.SetDesired:
		d.noteTask(turn.State.Task(c.Task))
	case cluster.SetPlacement:
		d.noteTask(turn.State.Task(c.Task))
	case cluster.SetObserved:
		if before := turn.Before.Task(c.Task); before == nil || before.Observed.State == cluster.ObservedNone {
			d.noteTask(turn.State.Task(c.Task))
		}
	case cluster.RemoveTask:
		d.noteTask(turn.Before.Task(c.Task))
	case cluster.SetNodeStatus:
		d.noteNode(turn.State, c.Node)
	case cluster.SetNodeSpec:
		d.noteNode(turn.State, c.Node)
	case cluster.RemoveNode:
		d.noteNode(turn.State, c.Node)
	}
}

func (d *Dispatcher) noteTask(t *cluster.Task) {
	if t == nil {
		return
	}
	if s := d.sessions[t.Placement.Node]; s != nil {
		s.out.task(t.ID)
	}
}

func (d *Dispatcher) noteNode(state *engine.State, id cluster.NodeID) {
	s := d.sessions[id]
	if s == nil {
		return
	}
	switch n := state.Node(id); {
	case n == nil:
		s.out.leave("the node was removed from the cluster")
	case n.Spec.Decommissioned:
		s.out.leave("node " + n.Spec.Name + " was decommissioned")
	default:
		s.out.all()
	}
}
