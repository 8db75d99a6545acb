package dispatch

import (
	"fmt"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/engine"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// AheadError says that an agent has seen a newer state than the server has: its state is an older copy.
type AheadError struct {
	Node string // name
	Seen uint64
	Have cluster.Revision // of the state
}

// Error says what a person can do.
func (e *AheadError) Error() string {
	return fmt.Sprintf("node %s has seen revision %d, and this state is at %d: it is an older copy, and nothing is stopped for it; stop the server, and bring the newest state back, or accept "+
		"the copy with `setpoint state restore`", e.Node, e.Seen, e.Have)
}

// older returns an error for a node that has seen more than the state has, now or when it came before: what the state says of its tasks may be long past, however far its own revision has
// come meanwhile.
func (d *Dispatcher) older(state *engine.State, n *cluster.Node, hello *agentv1.Hello) error {
	if n == nil {
		return nil // it is told apart from a node that was removed
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if seen := hello.GetSeenRevision(); seen > uint64(state.Revision) {
		d.ahead[n.ID] = seen
	}
	seen, ahead := d.ahead[n.ID]
	if !ahead {
		return nil
	}
	return connect.NewError(connect.CodeFailedPrecondition, &AheadError{n.Spec.Name, seen, state.Revision})
}

// Ahead returns an *AheadError if the state is an older copy of what some agent has seen.
func (d *Dispatcher) Ahead() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	state := d.opts.Engine.View()
	for id, seen := range d.ahead {
		if n := state.Node(id); n != nil && !n.Spec.Decommissioned {
			return &AheadError{n.Spec.Name, seen, state.Revision}
		}
	}
	return nil
}
