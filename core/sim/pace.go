package sim

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// checkPace checks the rules of when a task may be made, told to stop and placed, from the records alone.
func (w *World) checkPace(t engine.Turn) {
	for _, c := range t.Changes {
		if c, ok := c.Change.(cluster.PutSlot); ok {
			if old := t.Before.Slot(c.Slot.Job, c.Slot.Key); old != nil && old.SpecVersion != c.Slot.SpecVersion {
				w.books.moved[c.Slot.ID()] = t.State.Revision
				delete(w.books.restarts, c.Slot.ID()) // another content has its own attempts
			}
		}
	}
	leaving := map[string]bool{} // jobs of which something up was told to leave voluntarily, and whether for a better place
	var placed []*cluster.Task
	for _, c := range t.Changes {
		switch c := c.Change.(type) {
		case cluster.RemoveJob:
			for id := range w.books.restarts {
				if strings.HasPrefix(id, c.Job+"/") {
					delete(w.books.restarts, id)
				}
			}
		case cluster.RemoveSlot:
			delete(w.books.restarts, c.Job+"/"+string(c.Key))
		case cluster.AddTask:
			if x := t.State.Task(c.Task.ID); x != nil {
				w.checkAlone(t, x)
				w.checkRestart(t, x)
			}
		case cluster.SetDesired:
			if x := t.State.Task(c.Task); x != nil && w.checkLeaves(t, x, c.Desired) {
				leaving[x.Job] = leaving[x.Job] || strings.HasPrefix(c.Desired.Reason, "rebalance")
			}
		case cluster.SetPlacement:
			if x := t.State.Task(c.Task); x != nil {
				placed = append(placed, x)
				w.checkPlaced(t, x)
			}
		}
	}
	for job, rebalance := range leaving {
		w.checkBudget(t, job, rebalance)
	}
	w.checkPriority(t, placed)
}

// specs returns what was and is asked of a job: within a turn an update that rolls back may change it after decisions were made.
func specs(t engine.Turn, job string) []*cluster.JobSpec {
	var out []*cluster.JobSpec
	for _, st := range [...]*engine.State{t.State, t.Before} {
		if j := st.Job(job); j != nil {
			out = append(out, &j.Control.Spec)
		}
	}
	return out
}

// checkAlone checks that nothing else of the slot may run when a task is made: but one beside which it starts first, and what is lost and replaceable.
func (w *World) checkAlone(t engine.Turn, x *cluster.Task) {
	w.looked("tasks made")
	job := t.State.Job(x.Job)
	if job == nil {
		w.failf("V1: %s was made for a job that there is not", x.ID)
		return
	}
	beside, others := 0, false
	for _, o := range t.State.SlotTasks(x.Job, x.Slot) {
		if o.ID == x.ID || o.Dead() {
			continue
		}
		others = true
		n := t.State.Node(o.Placement.Node)
		switch o.ConditionOn(n).State {
		case cluster.OK:
			if !o.Desired.State.Wanted() {
				w.failf("V1: %s was made while %s still stops", x.ID, o.ID)
			}
			beside++
		case cluster.Lost:
			replaceable := slices.ContainsFunc(specs(t, x.Job), func(s *cluster.JobSpec) bool {
				return s.OnLost != cluster.LostWait && w.now.Sub(n.Status.Since) >= s.LostAfter && !w.now.Before(n.Status.Replace)
			})
			if o.CreatedRev >= job.CreatedRev && !replaceable {
				w.failf("V1: %s was made while %s is lost, and the job waits", x.ID, o.ID)
			}
		case cluster.Gone:
		}
	}
	if !others && job.Control.Spec.Parallelism > 0 && !slices.ContainsFunc(specs(t, x.Job), func(s *cluster.JobSpec) bool {
		return s.Parallelism == 0 || taken(t.State, x.Job) <= s.Parallelism
	}) {
		w.failf("turn: %s was made, and %d slots of its job have a task", x.ID, taken(t.State, x.Job))
	}
	first := slices.ContainsFunc(specs(t, x.Job), func(s *cluster.JobSpec) bool { return s.Update.Order == cluster.StartFirst })
	if first {
		w.books.first[x.ID] = true
	}
	if beside > 1 || beside == 1 && !first {
		w.failf("V1: %s was made beside %d others of its slot", x.ID, beside)
	}
}

// ended returns since when a task is not what its slot needs: the first moment at which it was told to go, came to its end, was lost or was declared gone.
func ended(st *engine.State, x *cluster.Task) cluster.Time {
	var all []cluster.Time
	if !x.Desired.State.Wanted() {
		all = append(all, x.Desired.Since)
	}
	if x.Observed.State.Terminal() {
		all = append(all, x.Observed.At)
	}
	if x.Condition.State == cluster.Gone {
		all = append(all, x.Condition.Since)
	}
	if n := st.Node(x.Placement.Node); n != nil && n.Status.State == cluster.NodeDown {
		all = append(all, n.Status.Since)
	}
	if len(all) == 0 {
		return cluster.Time{}
	}
	return slices.MinFunc(all, func(a, b cluster.Time) int { return cmp.Compare(a.Engine, b.Engine) })
}

// checkRestart checks that a task after one that ended by itself waits for the delay, and that there are no more of them than are allowed.
func (w *World) checkRestart(t engine.Turn, x *cluster.Task) {
	var pred *cluster.Task
	for _, o := range t.State.SlotTasks(x.Job, x.Slot) {
		if o.ID != x.ID && (pred == nil || pred.CreatedRev < o.CreatedRev) {
			pred = o
		}
	}
	job := t.State.Job(x.Job)
	if pred == nil || job == nil || pred.CreatedRev < job.CreatedRev || pred.CreatedRev < w.books.moved[x.Job+"/"+string(x.Slot)] || pred.SpecVersion != x.SpecVersion || !pred.Desired.State.Wanted() || pred.Observed.Unknown {
		return
	}
	if s := pred.Observed.State; s != cluster.Complete && s != cluster.Failed && s != cluster.Rejected {
		return
	}
	for _, o := range t.State.SlotTasks(x.Job, x.Slot) {
		if o != pred && pred.Observed.At.Before(ended(t.State, o)) {
			return // another one's end is what it follows
		}
	}
	w.looked("restarts")
	r := w.books.restarts[x.Job+"/"+string(x.Slot)]
	if r == nil || r.version != x.SpecVersion {
		r = &spent{version: x.SpecVersion}
		w.books.restarts[x.Job+"/"+string(x.Slot)] = r
	}
	if r.at = append(r.at, w.now.Engine); !slices.ContainsFunc(specs(t, x.Job), func(s *cluster.JobSpec) bool { return s.Restart.Attempts > 0 }) {
		r.at = nil // without a limit nothing is spent
	}
	ok := false
	for _, s := range specs(t, x.Job) {
		in := 0
		for _, at := range r.at {
			if s.Restart.Window == 0 || w.now.Engine-at < s.Restart.Window {
				in++
			}
		}
		waited := w.now.Sub(pred.Observed.At)
		wanted := s.Restart.Condition == cluster.RestartAny || s.Restart.Condition == cluster.RestartOnFailure && pred.Observed.State != cluster.Complete
		ok = ok || wanted && waited >= s.Restart.Delay && (s.Restart.Attempts == 0 || in <= s.Restart.Attempts)
	}
	if !ok {
		w.failf("restart: %s follows %s (%s) after %s as number %d: %+v", x.ID, pred.ID, pred.Observed.State, w.now.Sub(pred.Observed.At), len(r.at), job.Control.Spec.Restart)
	}
}

// checkLeaves checks a task that is told to stop because it no longer meets its job's constraints, and reports whether one that was up leaves voluntarily.
func (w *World) checkLeaves(t engine.Turn, x *cluster.Task, d cluster.Desired) bool {
	old, n := t.Before.Task(x.ID), t.State.Node(x.Placement.Node)
	if old == nil || d.State != cluster.DesiredShutdown {
		return false
	}
	was := *x // as it was seen when this was decided: after what agents and the monitor said in this turn
	if was.Desired = old.Desired; !was.Up(n) {
		return false
	}
	switch {
	case d.By == "constraint":
		w.looked("drifts")
		if n != nil && !w.refused(t.State, x.Job, n) && !w.refused(t.Before, x.Job, n) {
			w.failf("drift: %s has to leave %s, which meets all that its job asks", x.ID, n.Spec.Name)
		}
		if s := specs(t, x.Job); len(s) > 0 && !slices.ContainsFunc(s, func(s *cluster.JobSpec) bool { return s.OnDrift != cluster.DriftKeep }) {
			w.failf("drift: %s has to leave %s, and its job keeps what drifts", x.ID, n.Spec.Name)
		}
	case d.By == "drain":
		w.looked("drains")
		if n != nil && n.Spec.Availability != cluster.Drain {
			w.failf("drain: %s has to leave %s, which is not drained", x.ID, n.Spec.Name)
		}
	case strings.HasPrefix(d.Reason, "rebalance"):
		w.looked("rebalanced tasks")
		before, after := t.Before.Job(x.Job), t.State.Job(x.Job) // it may begin and end within a turn
		if before == nil || after == nil || !before.Rebalancing() && before.Rebalance.Ask == after.Rebalance.Ask {
			w.failf("rebalance: %s has to leave %s, and nobody asked for that", x.ID, x.Placement.Node)
		}
	case strings.HasPrefix(d.Reason, "update to version"):
		w.looked("updates")
		if j := t.State.Job(x.Job); j != nil && x.SpecVersion == j.Control.SpecVersion {
			w.failf("update: %s has to go and has the wanted content already", x.ID)
		}
	default:
		return false
	}
	return !slices.ContainsFunc(t.State.SlotTasks(x.Job, x.Slot), func(o *cluster.Task) bool { return o.Up(t.State.Node(o.Placement.Node)) })
}

// checkBudget checks that no more slots of a job are not up than it allows, after some that were up were told to leave. A slot that was not up before an
// update and has not been up since does not count for it; all do for what moves to a better place.
func (w *World) checkBudget(t engine.Turn, job string, all bool) {
	j := t.State.Job(job)
	if j == nil || !j.Control.Spec.Numbered() || j.Control.Spec.Parallelism > 0 {
		return // which slots of other types are wanted is not in the records
	}
	w.looked("budgets")
	forced := false
	wanted, down := 0, 0
	for _, s := range t.State.Slots(job) {
		if s.Unwanted || s.Done || s.Held != "" {
			continue
		}
		wanted++
		up := false
		for _, x := range t.State.SlotTasks(job, s.Key) {
			n := t.State.Node(x.Placement.Node)
			up = up || x.Up(n)
			forced = forced || n != nil && n.Spec.Availability == cluster.Drain && n.Spec.DrainDeadline > 0 && w.now.Sub(n.Spec.DrainSince) >= n.Spec.DrainDeadline
		}
		if !up && (all || s.FellIn(&j.Update, t.State.Now) || s.MovedBy == cluster.MovedByUpdate) {
			down++
		}
	}
	limit := 0
	for _, s := range specs(t, job) {
		limit = max(limit, s.MaxUnavailable.Of(wanted))
	}
	if down > limit && !forced {
		w.failf("budget: %d of %d slots of %s are not up after a move, and it allows %d", down, wanted, job, limit)
	}
}

// checkPlaced checks that a node may have the task that was placed there, by what filters say of it now.
func (w *World) checkPlaced(t engine.Turn, x *cluster.Task) {
	w.looked("placements")
	n := t.State.Node(x.Placement.Node)
	if n == nil {
		return
	}
	if w.refused(t.State, x.Job, n) && !w.ignored() {
		w.failf("filter: %s was placed on %s, which its job refuses", x.ID, n.Spec.Name)
	}
	if len(x.Nodes) > 0 && !slices.Contains(x.Nodes, n.ID) {
		w.failf("slot: %s was placed on %s, and its slot is limited to %v", x.ID, n.Spec.Name, x.Nodes)
	}
	j := t.State.Job(x.Job)
	if j == nil || j.Control.Spec.MaxPerNode == 0 {
		return
	}
	same := 0
	for o := range t.State.TasksOn(n.ID) {
		if o.Job == x.Job && !o.Dead() {
			same++
		}
	}
	if same > j.Control.Spec.MaxPerNode {
		w.failf("per node: %s was placed on %s as number %d of its job, which allows %d", x.ID, n.Spec.Name, same, j.Control.Spec.MaxPerNode)
	}
}

// checkPriority checks that no task waits that could have had the place of one of lower priority which was placed in the same turn.
func (w *World) checkPriority(t engine.Turn, placed []*cluster.Task) {
	if len(placed) == 0 || slices.ContainsFunc(w.plugins, func(p *Plugin) bool { return p.Dead || len(p.queue) > 0 || p.owes || w.real-p.started < 4*Tick }) {
		return
	}
	if len(placed) >= w.Engine.Config().MaxChanges/2 || slices.ContainsFunc(allSlots(t.State), func(s *cluster.Slot) bool { return s.Claim != "" }) {
		return
	}
	seen := map[string]bool{}
	for x := range t.State.Tasks() {
		key := engine.GroupKey(x)
		s, j := t.State.Slot(x.Job, x.Slot), t.State.Job(x.Job)
		if x.Placed() || x.Dead() || seen[key] || s == nil || s.Held != "" || j == nil || w.now.Sub(j.Control.Changed) < 4*Tick {
			continue // filters are asked anew about a job that changed, and it takes no part meanwhile
		}
		seen[key] = true
		stall := t.State.StallsOf(cluster.Subject{Kind: cluster.SubjectGroup, ID: key})
		if len(stall) == 0 || slices.ContainsFunc(stall[0].Facts.Excluded, func(e cluster.Exclusion) bool { return strings.HasPrefix(string(e.Code), "plugin_") }) {
			continue
		}
		without := map[cluster.TaskID]bool{}
		for _, o := range placed {
			if k := t.State.Job(o.Job); k != nil && k.Control.Spec.Priority < j.Control.Spec.Priority {
				without[o.ID] = true
			}
		}
		if len(without) == 0 {
			continue
		}
		w.looked("priorities")
		if _, fits := w.truth(t.State, wishOf(x), without); len(fits) > 0 {
			w.failf("priority: %s waits, and would fit on %v but for tasks of lower priority that were placed just now", x.ID, fits)
		}
	}
}

// grown is how late something may be, beyond what the rules say.
const grown = time.Second
