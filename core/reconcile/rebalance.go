package reconcile

import (
	"slices"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// beginRebalance takes up that tasks are to move to where they would be placed now, or that they are not to any more. Then nothing more leaves, and what has
// left already comes up where it was to go.
func (d *decision) beginRebalance() {
	c := &d.job.Control
	switch {
	case d.job.Rebalancing():
		if d.balance.Ask != c.Rebalances {
			d.balance = cluster.Rebalance{Ask: c.Rebalances, Since: d.now}
		}
		return
	case c.Rebalances > 0 && c.RebalancesEnded == c.Rebalances:
		if d.balance.Ask != c.Rebalances {
			d.balance = cluster.Rebalance{Ask: c.Rebalances}
		}
		if !d.balance.Ended {
			d.balance.Ended, d.balance.Since = true, d.now
		}
	}
	for _, s := range d.slots {
		if s.Slot != nil {
			s.Leaves = ""
		}
	}
}

// rebalance has tasks move to where they would be placed now, if an operator asked for that, until that is nowhere else. What is on its way counts as if it had
// arrived, so that no more move than have to. What an update still moves is left to that, which places it anew. It returns the moves that wait for the budget.
func (d *decision) rebalance(seen map[*slot]bool, b *budget, u *cluster.Update) (waiting []move) {
	if !d.job.Rebalancing() {
		return nil
	}
	d.countLeaving()
	for moved := true; moved; {
		var busy bool
		if moved, busy, waiting = d.balancePass(seen, b, u); busy {
			return waiting
		}
	}
	d.balance.Ended, d.balance.Since = true, d.now
	return nil
}

// balancePass looks at each slot once. It reports whether a task was told to leave, so that others may have a better place now, and whether something is yet to
// happen before the rebalance can come to its end.
func (d *decision) balancePass(seen map[*slot]bool, b *budget, u *cluster.Update) (moved, busy bool, waiting []move) {
	stay := map[cluster.NodeID]bool{} // nodes whose tasks have no better place
	looked := len(d.slots)
	defer func() { d.inOrder(looked) }()
	c := d.balanced()
	for {
		s, key, from, ok := c.next()
		switch {
		case !ok:
			return moved, busy, nil
		case s != nil && seen[s], stay[from] && (s == nil || s.Leaves == "" && len(s.Nodes) == 0):
			continue
		case len(d.Changes) >= maxChanges:
			d.wakeIn(1)
			return moved, true, waiting
		case s == nil:
			s = d.rouse(key)
		}
		d.cur = s
		to := cluster.NodeID("")
		if !onItsWay(s) && (s.Leaves != "" || d.balance.Moved < len(d.slots)+d.sums.of(restIs)) {
			to = d.better(s)
		}
		if to == "" && !onItsWay(s) {
			d.leaves(s, func() { s.Leaves = "" })
			stay[from] = true
			continue
		}
		m := move{slot: s, cause: cluster.CauseRebalance, by: cluster.SourceCore, grace: -1, room: to, reason: d.whyBetter(to)}
		v := admitted
		if d.leaves(s, func() { v = d.admit(m, b, u) }); v == overBudget {
			return moved, true, []move{m} // the others can go no sooner
		}
		moved, busy, seen[s] = true, busy || s.Leaves != "", true
	}
}

// better returns the node that is a better place for the task that a slot keeps, "" if there is none.
func (d *decision) better(s *slot) cluster.NodeID {
	from := s.keep.Placement.Node
	if s.Leaves == from { // it does not count twice
		d.leaving[from]--
		defer func() { d.leaving[from]++ }()
	}
	return d.Better(d.job, s.Slot, s.keep.Task, d.claims, d.leaving)
}

// countLeaving counts the tasks of the job that leave their nodes by what was decided up to now, those of a removed job of this name among them.
func (d *decision) countLeaving() {
	d.leaving = map[cluster.NodeID]int{}
	for _, s := range d.slots {
		d.leavers(s, 1)
	}
	if !d.former {
		return
	}
	for t := range d.TasksOf(d.job.Name) {
		if t.CreatedRev < d.job.CreatedRev && t.Placed() && !t.Dead() {
			d.leaving[t.Placement.Node]++
		}
	}
}

// leaves does something with a slot that may have to do with whether its tasks leave.
func (d *decision) leaves(s *slot, do func()) {
	d.leavers(s, -1)
	do()
	d.leavers(s, 1)
}

func (d *decision) leavers(s *slot, by int) {
	for _, t := range s.tasks {
		if t.CreatedRev >= d.job.CreatedRev && t.Placed() && !t.Dead() &&
			(t.told || !t.Desired.State.Wanted() || s.Slot != nil && s.Leaves != "" && s.Leaves == t.Placement.Node) {
			d.leaving[t.Placement.Node] += by
		}
	}
}

// balanced returns the slots whose tasks may move to a better place. While a replacement that starts first has no node yet, where the others should be is not
// known, and only its slot is looked at.
func (d *decision) balanced() *candidates {
	var out []*slot
	awaits := false
	for _, s := range d.slots {
		if s.Slot == nil || !d.mayBalance(s) {
			continue
		}
		awaits = awaits || s.Leaves != "" && !onItsWay(s)
		out = append(out, s)
	}
	if awaits {
		out = slices.DeleteFunc(out, func(s *slot) bool { return s.Leaves == "" })
	}
	return d.candidatesAmong(out, !awaits)
}

// mayBalance reports whether a slot's task may move to a better place.
func (d *decision) mayBalance(s *slot) bool {
	return s.counts() && s.up && !s.keep.told && !s.holdsPlace() && !d.stale(s) && (s.next == nil || s.Leaves != "")
}

// onItsWay reports whether the replacement of a task that leaves for a better place has a node.
func onItsWay(s *slot) bool { return s.Leaves != "" && s.next != nil && s.next.Placed() }

func (d *decision) whyBetter(to cluster.NodeID) string {
	if n := d.Node(to); n != nil {
		return "rebalance: " + n.Spec.Name + " is a better place now"
	}
	return "rebalance"
}

// leave notes that a slot's task leaves for a better place, where room is kept for its successor.
func (d *decision) leave(s *slot, leaves *task, to cluster.NodeID) {
	if s.Leaves == "" {
		d.balance.Moved++
	}
	if to != "" {
		d.claims = append(d.claims, Claim{Slot: s.Slot, Node: to, Leaving: leaves.Task})
	}
}

// keepLeaves forgets that the slot's task leaves its node once it did.
func (s *slot) keepLeaves() {
	if s.Leaves != "" && !slices.ContainsFunc(s.tasks, func(t *task) bool { return t.live() && t.Placement.Node == s.Leaves }) {
		s.Leaves = ""
	}
}
