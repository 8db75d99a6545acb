// Package monitor concludes from what was heard, and when, which nodes are ready, silent or down, and which tasks are gone; and it turns an agent's report
// into observations.
//
// It is pure: it takes time as a value, does no I/O, and imports sdk/cluster and the standard library only. It owns a node's status and a task's condition.
package monitor

import (
	"fmt"
	"iter"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Limits are the times after which silence means something.
type Limits struct {
	Silent time.Duration // without a word for so long, a node is silent
	Down   time.Duration // without a word for so long, it is down
	Return time.Duration // a node that was given one more grace is down no earlier than so long after that; less than Down: Down
	Few    int           // so many silent nodes are never mass silence by number alone; DESIGN says 3

	ReplaceEvery time.Duration // the tasks of at most one node are replaced in so long; 0: of all that go down
}

// Hearing is what is known of a node's agent. It is not stored: after a start of the server every node has a full grace.
type Hearing struct {
	Node      *cluster.Node
	Last      cluster.Time // when something was last heard, or the server started
	Grace     cluster.Time // when it was given one more grace, since all come back at once: at the server's start, and after a mass silence; zero: never
	Reported  bool         // its newest session has reported every task that the agent knows
	Confirmed bool         // an operator said that its silence means that it is down
}

// Result is what was concluded.
type Result struct {
	Changes []cluster.Change
	Regrace []cluster.NodeID // nodes that get one more grace from now on, since a mass silence has ended
	Stall   *cluster.Stall
	Wake    time.Duration
}

// round is what is concluded now.
type round struct {
	Result
	at map[cluster.NodeID]int // where among the changes a node's is
}

// silence is who was and is silent.
type silence struct {
	set     []*cluster.Node // with which a mass silence began that is under way; empty: none is
	still   int             // of the set, those that have not spoken again
	now     []Hearing       // all nodes that are silent and not known to be down
	present int             // nodes that count for what share of them is silent
}

// Nodes concludes the state of every node. hearings are in the order of node ids.
func Nodes(hearings iter.Seq[Hearing], limits Limits, now cluster.Time) Result {
	r := round{at: map[cluster.NodeID]int{}}
	var s silence
	var last cluster.Time // when a node's tasks were last replaced, or will be
	for h := range hearings {
		if last.Before(h.Node.Status.Replace) {
			last = h.Node.Status.Replace
		}
	}
	for h := range hearings {
		n := h.Node
		if n.Status.Massed {
			s.set = append(s.set, n)
		}
		if n.Spec.Decommissioned {
			continue
		}
		quiet := now.Sub(h.Last)
		if wasReady(n, now) {
			s.present++
		}
		switch {
		case quiet < limits.Silent && h.Reported:
			r.set(n, cluster.NodeReady, now)
			r.wake(limits.Silent - quiet)
		case n.Status.State == cluster.NodeDown:
		case quiet < limits.Silent: // it speaks and has not reported everything yet, or the server has just started
			r.wake(limits.Silent - quiet)
			if n.Status.Massed && n.Status.State == cluster.NodeSilent {
				s.still++
			}
		case h.Confirmed:
			r.down(n, limits, &last, now)
		default:
			r.set(n, cluster.NodeSilent, now)
			s.now = append(s.now, h)
			if n.Status.Massed {
				s.still++
			}
			r.wake(h.left(limits, now))
		}
	}
	r.judgeSilence(&s, limits, &last, now)
	return r.Result
}

// down sets a node down. Its tasks are replaced once it is its turn, if a limit is set to how fast nodes are replaced.
func (r *round) down(n *cluster.Node, limits Limits, last *cluster.Time, now cluster.Time) {
	at := now
	if next := last.Add(limits.ReplaceEvery); limits.ReplaceEvery > 0 && !last.IsZero() && now.Before(next) {
		at = next
	}
	*last = at
	r.set(n, cluster.NodeDown, now)
	r.edit(n, func(s *cluster.NodeStatus) { s.Replace = at })
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
	left := limits.Down - now.Sub(h.Last)
	if !h.Grace.IsZero() {
		left = max(left, limits.back()-now.Sub(h.Grace))
	}
	return left
}

// back is within which a node is heard again that was given one more grace.
func (l Limits) back() time.Duration { return max(l.Return, l.Down) }

// judgeSilence decides whether silent nodes whose grace is over are down, or too many at once for that.
func (r *round) judgeSilence(s *silence, limits Limits, last *cluster.Time, now cluster.Time) {
	var fell []*cluster.Node
	for _, h := range s.now {
		if wasReady(h.Node, now) {
			fell = append(fell, h.Node)
		}
	}
	if s.mass(len(fell), limits) {
		if len(s.set) == 0 {
			for _, n := range fell {
				r.edit(n, func(st *cluster.NodeStatus) { st.Massed = true })
			}
		}
		r.Stall = &cluster.Stall{
			Subject: cluster.Subject{Kind: cluster.SubjectCluster, ID: "nodes"}, Source: cluster.SourceCore, Code: cluster.CodeMassSilence,
			Message: fmt.Sprintf("%d of %d nodes are silent at once, which looks like the network; replacing is suspended", max(len(fell), s.still), s.present),
			Clears:  "half or fewer of them stay silent, or node confirm-down",
		}
		return
	}
	for _, n := range s.set {
		r.edit(n, func(st *cluster.NodeStatus) { st.Massed = false })
	}
	for _, h := range s.now {
		switch {
		case len(s.set) > 0: // also those that fell silent after it began: they may be about to speak as well
			r.Regrace = append(r.Regrace, h.Node.ID)
			r.wake(limits.back())
		case h.left(limits, now) <= 0:
			r.down(h.Node, limits, last, now)
		}
	}
}

// mass reports whether so many nodes are silent at once that the network is the likelier cause. Once it began, the set with which it did decides.
func (s *silence) mass(fell int, limits Limits) bool {
	if len(s.set) > 0 {
		return 2*s.still > len(s.set)
	}
	return fell >= limits.Few && 2*fell > s.present
}

func (r *round) set(n *cluster.Node, st cluster.NodeState, now cluster.Time) {
	if n.Status.State == st {
		return
	}
	r.edit(n, func(s *cluster.NodeStatus) {
		s.State, s.Since = st, now
		if now.Before(s.Replace) { // nothing of it was replaced
			s.Replace = cluster.Time{}
		}
	})
}

// edit changes a node's status, on top of what was changed already.
func (r *round) edit(n *cluster.Node, change func(*cluster.NodeStatus)) {
	if i, ok := r.at[n.ID]; ok {
		set := r.Changes[i].(cluster.SetNodeStatus)
		change(&set.Status)
		r.Changes[i] = set
		return
	}
	status := n.Status
	change(&status)
	if status != n.Status {
		r.at[n.ID] = len(r.Changes)
		r.Changes = append(r.Changes, cluster.SetNodeStatus{Node: n.ID, Status: status})
	}
}

func (r *round) wake(d time.Duration) {
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
