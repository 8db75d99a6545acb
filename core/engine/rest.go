package engine

import "github.com/setpointd/setpoint/sdk/cluster"

// Rest says which jobs of a state are at rest: no update moves slots or left some behind, each wanted slot is up or done, by tasks of which nothing is still to come, and
// nothing is held or waits. How the slots of such a job are is in SlotCounts, without a look at any of them. As long as turns leave something over, slots are as they
// were when they were last decided about.
type Rest struct {
	s    *State
	away map[string]bool // jobs with tasks that ran when last heard of, on nodes that are down; nil: not looked for yet
}

// Rest returns what says which jobs are at rest. It is for one goroutine.
func (s *State) Rest() *Rest { return &Rest{s: s} }

// Of reports whether a job is at rest.
func (r *Rest) Of(job string) bool {
	n, j := r.s.SlotCounts(job), r.s.Job(job)
	if j == nil || r.s.StaleSlots(job, j.Control.SpecVersion) > 0 {
		return false
	}
	switch j.Update.State {
	case cluster.Updating, cluster.UpdatePaused, cluster.UpdateCancelled: // slots may keep tasks of another version than their own
		return false
	}
	if n.Wanted != n.Up+n.Done || n.Held > 0 || len(r.s.SlotStalls(job)) > 0 {
		return false
	}
	for range r.s.UnsettledOf(job) {
		return false
	}
	if r.away == nil {
		r.away = map[string]bool{}
		for t := range r.s.settledOffReach() {
			r.away[t.Job] = true
		}
	}
	return !r.away[job]
}
