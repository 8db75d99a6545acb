// Package monitor concludes from what was heard, and when, which nodes are ready, silent or down, and which tasks are gone; and it turns an agent's report
// into observations.
//
// It is pure: it takes time as a value, does no I/O, and imports sdk/cluster and the standard library only. It owns a node's status and a task's condition.
package monitor

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Limits are the times after which silence means something.
type Limits struct {
	Silent time.Duration // without a word for so long, a node is silent
	Down   time.Duration // without a word for so long, it is down
	Few    int           // so many silent nodes are never mass silence by number alone; DESIGN says 3
}

// Hearing is what is known of a node's agent. It is not stored: after a start of the server every node has a full grace.
type Hearing struct {
	Node      *cluster.Node
	Last      cluster.Time // when something was last heard, or the server started
	Grace     cluster.Time // when it was given one more grace, after a mass silence; zero: never
	Reported  bool         // its newest session has reported every task that the agent knows
	Confirmed bool         // an operator said that its silence means that it is down
}

// Silence is a mass silence under way: more than half of the nodes went silent, so that the network is the likelier cause.
type Silence struct {
	Since cluster.Time
	Nodes []cluster.NodeID // in the order of ids; the set that it began with
}

// Result is what was concluded.
type Result struct {
	Changes []cluster.Change
	Silence *Silence         // nil: none under way
	Regrace []cluster.NodeID // nodes that get one more grace from now on, since a mass silence has ended
	Stall   *cluster.Stall
	Wake    time.Duration
}

// Nodes concludes the state of every node. hearings are in the order of node ids; before is the mass silence that was under way.
func Nodes(hearings iter.Seq[Hearing], before *Silence, limits Limits, now cluster.Time) Result {
	var r Result
	var silent []Hearing
	present := 0
	for h := range hearings {
		n := h.Node
		if n.Spec.Decommissioned {
			continue
		}
		quiet := now.Sub(h.Last)
		if wasReady(n, now) {
			present++
		}
		switch {
		case quiet < limits.Silent && h.Reported:
			r.set(n, cluster.NodeReady, now)
			r.wake(limits.Silent - quiet)
		case n.Status.State == cluster.NodeDown:
		case quiet < limits.Silent:
			r.wake(limits.Silent - quiet) // it speaks, and has not reported everything yet
		case h.Confirmed:
			r.set(n, cluster.NodeDown, now)
		default:
			r.set(n, cluster.NodeSilent, now)
			silent = append(silent, h)
			r.wake(h.left(limits, now))
		}
	}
	r.judgeSilence(silent, present, before, limits, now)
	return r
}

// recently is how long a node counts as one that was ready a while ago.
const recently = time.Minute

// wasReady reports whether the node counts for what share of the nodes is silent: it is not down, or became so just now; and it was ready at some time.
func wasReady(n *cluster.Node, now cluster.Time) bool {
	switch n.Status.State {
	case cluster.NodeDown:
		return now.Sub(n.Status.Since) < recently
	case cluster.NodeSilent:
		return n.Status.Since != n.Joined
	case cluster.NodeReady:
	}
	return true
}

// left returns how much of the node's grace is left, at most none.
func (h *Hearing) left(limits Limits, now cluster.Time) time.Duration {
	since := h.Last
	if since.Before(h.Grace) {
		since = h.Grace
	}
	return limits.Down - now.Sub(since)
}

// judgeSilence decides whether silent nodes whose grace is over are down, or too many at once for that.
func (r *Result) judgeSilence(silent []Hearing, present int, before *Silence, limits Limits, now cluster.Time) {
	var ids []cluster.NodeID
	for _, h := range silent {
		if wasReady(h.Node, now) {
			ids = append(ids, h.Node.ID)
		}
	}
	if mass(ids, present, before, limits) {
		r.Silence = before
		if before == nil {
			r.Silence = &Silence{Since: now, Nodes: ids}
		}
		r.Stall = &cluster.Stall{
			Subject: cluster.Subject{Kind: cluster.SubjectCluster, ID: "nodes"}, Source: cluster.SourceCore, Code: cluster.CodeMassSilence,
			Message: fmt.Sprintf("%d of %d nodes are silent at once, which looks like the network; replacing is suspended", len(ids), present),
			Clears:  "half or fewer of them stay silent, or node confirm-down",
		}
		return
	}
	for _, h := range silent {
		switch {
		case before != nil: // also those that fell silent after it began: they may be about to speak as well
			r.Regrace = append(r.Regrace, h.Node.ID)
			r.wake(limits.Down)
		case h.left(limits, now) <= 0:
			r.set(h.Node, cluster.NodeDown, now)
		}
	}
}

func mass(silent []cluster.NodeID, present int, before *Silence, limits Limits) bool {
	if before == nil {
		return len(silent) >= limits.Few && 2*len(silent) > present
	}
	still := 0
	for _, id := range silent {
		if slices.Contains(before.Nodes, id) {
			still++
		}
	}
	return 2*still > len(before.Nodes)
}

func (r *Result) set(n *cluster.Node, st cluster.NodeState, now cluster.Time) {
	if n.Status.State == st {
		return
	}
	status := cluster.NodeStatus{State: st, Since: now}
	for i, c := range r.Changes {
		if old, ok := c.(cluster.SetNodeStatus); ok && old.Node == n.ID {
			r.Changes[i] = cluster.SetNodeStatus{Node: n.ID, Status: status}
			return
		}
	}
	r.Changes = append(r.Changes, cluster.SetNodeStatus{Node: n.ID, Status: status})
}

func (r *Result) wake(d time.Duration) {
	if d > 0 && (r.Wake == 0 || d < r.Wake) {
		r.Wake = d
	}
}

// Gone ends the tasks of a node that an operator declared gone for good.
func Gone(n *cluster.Node, tasks iter.Seq[*cluster.Task], now cluster.Time) []cluster.Change {
	if !n.Spec.Decommissioned {
		return nil
	}
	var out []cluster.Change
	for t := range tasks {
		if t.Dead() {
			continue
		}
		out = append(out, cluster.SetCondition{Task: t.ID, Condition: cluster.Condition{
			State: cluster.Gone, Since: now, Reason: "node " + n.Spec.Name + " was decommissioned",
		}})
	}
	return out
}
