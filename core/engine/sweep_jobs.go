package engine

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/setpointd/setpoint/core/place"
	"github.com/setpointd/setpoint/core/reconcile"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// sweepJob decides again about some slots of a job, and returns what it has cost. What is decided there must have been decided before.
func (e *Engine) sweepJob(most int, now cluster.Time) (cost int) {
	s := &e.sweep
	if s.slot == "" && !e.nextJob() {
		s.part++
		return 1
	}
	name, ended := s.job, true
	if e.dirtyJobs[name] || e.judging(name) {
		s.slot = ""
		return 1
	}
	prefix := name + "/"
	book, looks := e.books[name], e.glanceAt(name)
	s.slots, s.keys = s.slots[:0], s.keys[:0]
	e.work.slots.Ascend(max(s.slot, prefix), func(id string, v packedSlot) bool {
		switch {
		case !strings.HasPrefix(id, prefix):
			return false
		case id == s.slot:
			return true
		case len(s.slots) >= most && book != nil: // what nothing is kept of is decided as a whole
			ended = false
			return false
		}
		s.slots = append(s.slots, id)
		if key := cluster.SlotKey(id[len(prefix):]); !book.Settled(key) || !looks.settled(id, v) {
			s.keys = append(s.keys, key)
		}
		return true
	})
	cost = 1 + len(s.slots)
	if len(s.slots) > 0 {
		s.slot = s.slots[len(s.slots)-1]
	}
	for _, key := range s.keys {
		e.wakeSlot(name, key)
		cost += e.sweepWaiting(slotPrefix(name, key))
	}
	e.decideAgain(name, now)
	if ended {
		s.slot = ""
	}
	return cost
}

// glanceAt returns what tells of a job's slots that nothing is to be decided about them; nil if that is not to be had.
func (e *Engine) glanceAt(name string) *glance {
	job := e.work.Job(name)
	if !reconcile.Glances(job) {
		return nil
	}
	v := view{e.work, e, e.sweep.read}
	g := &glance{v: v, job: job, said: map[string]bool{}, moves: job.Control.Spec.OnDrift != cluster.DriftKeep && v.mayRefuse(job)}
	for _, s := range e.work.stallsWithPrefix(cluster.Subject{Kind: cluster.SubjectSlot, ID: name + "/"}.String()) {
		g.said[s.Subject.ID] = true
	}
	return g
}

// settled reports whether nothing is to be decided about one slot of the job.
func (g *glance) settled(id string, s packedSlot) bool {
	if g == nil || !g.quiet(id, s) {
		return false
	}
	one, tasks, up := glanced{id: id}, 0, 0
	g.v.State.tasks.Ascend(cluster.TaskID(id), func(t cluster.TaskID, packed packedTask) bool {
		if !one.has(t) { // keys that begin like this one, and go on with what comes before a slash
			return strings.HasPrefix(string(t), id) && t[len(id)] < '/'
		}
		if tasks++; g.up(task{t, packed}) {
			up++
		}
		return tasks == up
	})
	return tasks == 1 && up == 1 && !g.odd
}

// nextJob goes on to the next job, if there is any.
func (e *Engine) nextJob() bool {
	s := &e.sweep
	found := false
	e.work.jobs.Ascend(s.job, func(name string, _ *cluster.Job) bool {
		if name == s.job {
			return true
		}
		s.job, found = name, true
		return false
	})
	return found
}

// decideAgain decides about a job of which some slots were woken. If nothing comes of it, they are at rest again; otherwise the next turn decides, and it was
// missed, unless it follows from how little room there is now or from what was decided last.
func (e *Engine) decideAgain(name string, now cluster.Time) {
	if e.dirtyJobs[name] {
		return // it was caught, and is decided about in the next turn
	}
	s := &e.sweep
	v := sweepView{view{e.work, e, s.read}, new(bool)}
	defer v.next(false)
	r := reconcile.Job(v, name, now, e.rev)
	if e.cfg.Doubt {
		e.doubt(name, &r, now)
	}
	if what, detail := e.missed(name, &r, now); what != "" {
		if e.dirtyJobs[name] = true; !*v.lacked && !e.follows(name, what, &r) {
			e.catch(what, "job "+name, "%s", detail)
		}
		return
	}
	e.keepBook(name, &r)
	if r.NoRoom {
		e.noRoom[name] = true
	}
}

// follows reports whether what a decision finds follows from the last one about the job, and is found out once more is heard of what that changed: what is said,
// which was said before it changed anything, and how long to wait after a placing.
func (e *Engine) follows(job string, what Missed, r *reconcile.Result) bool {
	placed, onTheWay := e.onTheWay[job]
	if what == MissedDeadline {
		return placed
	}
	return onTheWay && len(r.Changes) == 0
}

// sweepView is the working state, and whether a decision found no room for something. Room that becomes free wakes whoever waits for it; that there is less of it
// wakes nobody, so that a decision for want of room may come out otherwise than before.
type sweepView struct {
	view
	lacked *bool
}

// Fits returns what it does for other decisions.
func (v sweepView) Fits(job *cluster.Job, slot *cluster.Slot, leaving *cluster.Task, also []reconcile.Claim) reconcile.Fit {
	fit := v.view.Fits(job, slot, leaving, also)
	*v.lacked = *v.lacked || fit.Node == ""
	return fit
}

// missed returns what of a decision was not decided before; "" if nothing.
func (e *Engine) missed(name string, r *reconcile.Result, now cluster.Time) (what Missed, detail string) {
	for _, c := range r.Changes {
		if !e.tidies(c) {
			return MissedDecision, inShort(c)
		}
	}
	if r.Rollback != 0 {
		return MissedDecision, "a rollback to version " + strconv.FormatUint(r.Rollback, 10)
	}
	if said := e.saysOther(name, r); said != "" {
		return MissedDecision, said
	}
	if at, set := e.wakes.at[name]; r.Wake > 0 && (!set || at > now.Engine+r.Wake) {
		return MissedDeadline, "it is to be decided about in " + r.Wake.String()
	}
	return "", ""
}

// tidies reports whether a change only drops from a slot's record what counts for nothing any more. That is left to the next decision about the slot, whatever
// causes it: restarts that are longer ago than their window, and room kept for a task that was placed, of which its agent has not spoken yet.
func (e *Engine) tidies(c cluster.Change) bool {
	put, is := c.(cluster.PutSlot)
	if !is {
		return false
	}
	old := e.work.Slot(put.Slot.Job, put.Slot.Key)
	if old == nil || len(put.Slot.Restarts) > len(old.Restarts) {
		return false
	}
	same := *put.Slot
	same.Restarts = old.Restarts
	if same.Claim == "" && slices.ContainsFunc(e.work.SlotTasks(old.Job, old.Key), func(t *cluster.Task) bool { return reserves(t) && t.Desired.State.Wanted() }) {
		same.Claim = old.Claim
	}
	return reflect.DeepEqual(*old, same)
}

// saysOther returns what stall a decision begins or ends, "" if none. One that is only worded in another way, as with other numbers, is left as it is.
func (e *Engine) saysOther(name string, r *reconcile.Result) string {
	before := append(e.work.StallsOf(cluster.Subject{Kind: cluster.SubjectJob, ID: name}), e.work.StallsOf(cluster.Subject{Kind: cluster.SubjectUpdate, ID: name})...)
	if len(r.Stalls) > 0 || e.anyStall(cluster.Subject{Kind: cluster.SubjectSlot, ID: name + "/"}.String()) {
		before = e.lookedStalls(name, r)
	}
	if len(before)+len(r.Stalls) == 0 {
		return ""
	}
	had := make(map[string]*cluster.Stall, len(before))
	for _, old := range before {
		had[old.Key()] = old
	}
	says := make(map[string]bool, len(r.Stalls))
	for i := range r.Stalls {
		x := &r.Stalls[i]
		if old := had[x.Key()]; !says[x.Key()] && (old == nil || old.Code != x.Code) { // of several the first counts
			return "nothing said that " + x.Message
		}
		says[x.Key()] = true
	}
	for _, old := range before {
		if !says[old.Key()] {
			return "it is said still that " + old.Message
		}
	}
	return ""
}

// anyStall reports whether there is a stall whose key begins so.
func (e *Engine) anyStall(prefix string) (found bool) {
	e.work.stalls.Ascend(prefix, func(key string, _ *cluster.Stall) bool {
		found = strings.HasPrefix(key, prefix)
		return false
	})
	return found
}

// sweepWaiting looks at the tasks of a slot that wait: whether they are among those that are placed, and whether they could be.
func (e *Engine) sweepWaiting(prefix string) (cost int) {
	for x := range e.work.withPrefix(prefix) {
		if x.has(taskPlaced) || x.dead() {
			continue
		}
		t := e.work.whole(x)
		if waits, in := e.waits(t), e.grouped(t); waits && !in {
			e.catch(MissedPlacement, "task "+string(t.ID), "it waits, and is in no group that is placed")
			e.joinGroup(t)
		} else if in && !waits {
			e.catch(MissedPlacement, "task "+string(t.ID), "it is in a group that is placed, and is held")
			e.leaveGroup(t)
		} else if in {
			cost += e.sweepGroup(e.groups[GroupKey(t)])
		}
	}
	return cost
}

// sweepGroup looks once in a round at whether a group that waits fits nowhere, for the reasons that are said.
func (e *Engine) sweepGroup(g *group) (cost int) {
	s := &e.sweep
	if g.swept == s.round || g.dirty || g.stands == nil || len(e.changesFor(g)) > 0 || e.awaitsVerdict(g.job) {
		return 0
	}
	g.swept = s.round
	pg := e.placeGroup(g)
	nodes := pg.Nodes
	if nodes == nil {
		nodes = s.allNodes(len(e.byIndex))
	}
	now := place.Recheck(s.cluster(e), pg, *g.stands, nodes)
	said := e.work.StallsOf(groupSubject(g.key))
	facts := now.Facts()
	switch {
	case now.Fits():
		e.catch(MissedPlacement, "group "+g.key, "it waits, and fits somewhere")
		g.dirty = true
	case e.judging(g.job):
	case len(said) != 1 || said[0].Code != now.Code() || said[0].Facts.Nodes != facts.Nodes || !slices.Equal(said[0].Facts.Excluded, facts.Excluded):
		e.catch(MissedReason, "group "+g.key, "%d nodes: %v", facts.Nodes, facts.Excluded)
		g.dirty = true
	}
	return 1 + len(nodes)/nodesPerLook
}

// judging reports whether a filter owes its verdict of some node for a job: until it answers, which takes milliseconds or for ever, what was decided and said
// stays.
func (e *Engine) judging(job string) bool {
	for _, p := range e.plugins {
		c := p.classes[e.jobClasses[job][p.name]]
		if p.isFilter() && (c == nil || !c.answered || !c.indifferent && p.unjudged(c).Count() > 0) {
			return true
		}
	}
	return false
}

// allNodes returns the indexes below n.
func (s *sweep) allNodes(n int) []int {
	for len(s.nodes) < n {
		s.nodes = append(s.nodes, len(s.nodes))
	}
	return s.nodes[:n]
}
