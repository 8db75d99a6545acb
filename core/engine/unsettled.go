package engine

import (
	"iter"
	"strings"

	"github.com/tidwall/btree"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// unsettled is an index of the tasks of which something is still to come, and a count of the others by their phase, so that neither what waits nor how many tasks
// are in which phase has to be looked for among all tasks.
type unsettled struct {
	ids     *btree.Map[cluster.TaskID, struct{}]
	settled [len(settledPhases)]int
}

// settledPhases are those of tasks that are settled, while their node is not down.
var settledPhases = [...]cluster.Phase{
	cluster.PhaseRunning, cluster.PhaseCancelled, cluster.PhaseGone, cluster.PhaseComplete, cluster.PhaseFailed, cluster.PhaseRejected, cluster.PhaseStopped,
}

func newUnsettled() unsettled { return unsettled{ids: new(btree.Map[cluster.TaskID, struct{}])} }

func (u *unsettled) fork() unsettled { return unsettled{ids: u.ids.Copy(), settled: u.settled} }

// change keeps up with a task that was before and is after; nil: it did not or does not exist.
func (u *unsettled) change(before, after *cluster.Task) {
	switch {
	case before == nil:
		u.enter(after.ID, settledAt(after))
	case after == nil:
		u.leave(before.ID, settledAt(before))
	default:
		if was, is := settledAt(before), settledAt(after); was != is {
			u.leave(before.ID, was)
			u.enter(after.ID, is)
		}
	}
}

// enter counts a task that is settled, or notes it if at is -1.
func (u *unsettled) enter(id cluster.TaskID, at int) {
	if at >= 0 {
		u.settled[at]++
	} else {
		u.ids.Set(id, struct{}{})
	}
}

func (u *unsettled) leave(id cluster.TaskID, at int) {
	if at >= 0 {
		u.settled[at]--
	} else {
		u.ids.Delete(id)
	}
}

// settledAt returns where among settledPhases the phase of a task is, or -1 if the task is not settled.
func settledAt(t *cluster.Task) int {
	switch {
	case t.Dead():
	case t.Desired.State.Wanted() && t.Observed.State == cluster.Running && t.Observed.Healthy:
		return 0 // whether its node is down is looked up when it matters
	default:
		return -1
	}
	phase := cluster.PhaseOf(t, nil, false)
	for i, p := range settledPhases {
		if p == phase {
			return i
		}
	}
	panic("engine: a dead task is " + string(phase))
}

// Unsettled yields the tasks of which something is still to come, in the order of their ids: all but those that are wanted, run and are healthy, and those that
// are dead. What waits or is overdue is among them.
func (s *State) Unsettled() iter.Seq[*cluster.Task] { return s.unsettledWithPrefix("") }

// UnsettledOf is Unsettled of one job.
func (s *State) UnsettledOf(job string) iter.Seq[*cluster.Task] {
	return s.unsettledWithPrefix(job + "/")
}

func (s *State) unsettledWithPrefix(prefix string) iter.Seq[*cluster.Task] {
	return func(yield func(*cluster.Task) bool) {
		s.unsettled.ids.Ascend(cluster.TaskID(prefix), func(id cluster.TaskID, _ struct{}) bool {
			return strings.HasPrefix(string(id), prefix) && yield(s.Task(id))
		})
	}
}

// Phases returns how many tasks are in each phase that some task is in.
func (s *State) Phases() map[cluster.Phase]int {
	out := map[cluster.Phase]int{}
	for i, n := range s.unsettled.settled {
		if n != 0 {
			out[settledPhases[i]] = n
		}
	}
	for t := range s.Unsettled() {
		n := s.Node(t.Placement.Node)
		phase := cluster.PhaseOf(t, n, true)
		if phase == cluster.PhaseStalled && len(s.TaskStalls(t)) == 0 {
			phase = cluster.PhaseOf(t, n, false)
		}
		out[phase]++
	}
	for t := range s.settledOffReach() {
		out[cluster.PhaseOf(t, s.Node(t.Placement.Node), false)]++
		if out[cluster.PhaseRunning]--; out[cluster.PhaseRunning] == 0 {
			delete(out, cluster.PhaseRunning)
		}
	}
	return out
}

// settledOffReach yields the tasks that count as running by what was last reported, on nodes that are down or have no record. It looks at all nodes with tasks.
func (s *State) settledOffReach() iter.Seq[*cluster.Task] {
	return func(yield func(*cluster.Task) bool) {
		s.onNode.nodes.Scan(func(node cluster.NodeID, _ tasksOfOne) bool {
			if n := s.Node(node); n != nil && !n.Down() {
				return true
			}
			for t := range s.TasksOn(node) {
				if settledAt(t) == 0 && !yield(t) {
					return false
				}
			}
			return true
		})
	}
}
