package dispatch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/engine"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// noteTimeout is how long it may take to record that the state is an older copy.
const noteTimeout = 10 * time.Second

// AheadError says that an agent has seen a newer state than the server has: its state is an older copy.
type AheadError struct{ said string }

// Error says what a person can do.
func (e *AheadError) Error() string { return e.said }

// whatOlderCopy is the hint of the stall and the error.
const whatOlderCopy = "stop the server, and bring the newest state back, or accept the copy with `setpoint state restore`"

// older returns an error for a node that has seen more than the state has, now or when it came before: what the state says of its tasks may be long past, however far its own revision has
// come meanwhile. That it is so is recorded in the state, so that a server that is started again knows it as well.
func (d *Dispatcher) older(ctx context.Context, state *engine.State, n *cluster.Node, hello *agentv1.Hello) error {
	if n == nil {
		return nil // it is told apart from a node that was removed
	}
	if seen := hello.GetSeenRevision(); seen > uint64(state.Revision) {
		said := fmt.Sprintf("node %s has seen revision %d, and this state is at %d: it is an older copy, and nothing is stopped for it", n.Spec.Name, seen, state.Revision)
		d.mu.Lock()
		_, known := d.ahead[n.ID]
		d.ahead[n.ID] = said
		d.mu.Unlock()
		if !known {
			d.noteOlder(ctx, n.ID, said)
		}
	}
	if said := d.saidOlder(state, n.ID); said != "" {
		return connect.NewError(connect.CodeFailedPrecondition, &AheadError{said + "; " + whatOlderCopy})
	}
	return nil
}

// noteOlder records that the state is an older copy of what a node has seen.
func (d *Dispatcher) noteOlder(ctx context.Context, id cluster.NodeID, said string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	note := engine.NoteStall{About: string(id), Code: cluster.CodeOlderCopy, Message: said, Clears: whatOlderCopy}
	if _, err := d.opts.Engine.Do(ctx, "server", note); err != nil {
		d.opts.Log.Error("older copy of the state not recorded", "node", id, "error", err)
	}
}

// saidOlder returns why the state is an older copy of what a node has seen; "" if nothing says so.
func (d *Dispatcher) saidOlder(state *engine.State, id cluster.NodeID) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if said, ok := d.ahead[id]; ok {
		return said
	}
	if noted := state.Noted(string(id), cluster.CodeOlderCopy); noted != nil {
		return noted.Message
	}
	return ""
}

// Ahead returns an *AheadError if the state is an older copy of what some agent has seen.
func (d *Dispatcher) Ahead() error {
	state := d.opts.Engine.View()
	d.mu.Lock()
	known := slices.Collect(maps.Keys(d.ahead))
	d.mu.Unlock()
	for id := range state.NotedOf(cluster.CodeOlderCopy) {
		known = append(known, cluster.NodeID(id))
	}
	slices.Sort(known)
	for _, id := range known {
		if n := state.Node(id); n != nil && !n.Spec.Decommissioned {
			return &AheadError{d.saidOlder(state, id) + "; " + whatOlderCopy}
		}
	}
	return nil
}
