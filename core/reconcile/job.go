package reconcile

import (
	"slices"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// maxChanges is about how many changes one decision makes, so that a turn can be committed at once. What is left follows in the next.
const maxChanges = 2000

// decision is one decision about one job.
type decision struct {
	View
	job   *cluster.Job
	spec  *cluster.JobSpec
	now   cluster.Time
	rev   cluster.Revision
	slots []*slot

	scratch *Scratch

	book   *Book  // nil: all slots are looked at
	sums   totals // of slots that are not looked at
	cur    *slot  // the one that is looked at; nil: what is decided concerns the job
	after  int    // entries of the book's movable that were taken, or passed over
	behind int    // the same of its queue

	wasRoused map[cluster.SlotKey]bool // slots that were at rest, and are looked at
	roused    map[cluster.NodeID]int   // how many of them are in the book's pile of a node
	leaving   map[cluster.NodeID]int   // in a rebalance: the job's tasks that leave their nodes

	passed int // entries of the book's waiting that were taken, or passed over

	needsAll bool // it is not enough to look at slots that are not at rest

	former bool // something of a removed job of this name is left
	scaled bool // fewer slots are wanted than there are
	unmade int  // slots that are wanted and that later decisions make
	places int  // of the update, that are held

	claims  []Claim // room kept for slots that move in this decision
	giveUp  bool    // the update ends although slots are left that it could not move
	balance cluster.Rebalance
	queued  int // slots that wait for their turn
	made    int // of these, slots that are new
	Result
}

// Job decides about one job, or about what is left of a removed one. It is to be called once per turn and job, since the ids of the tasks that it makes carry
// the revision of the turn.
func Job(v View, name string, now cluster.Time, rev cluster.Revision) Result {
	job := v.Job(name)
	if job == nil {
		return leftovers(v, name, now)
	}
	known := v.Book(name)
	var glanced *Book
	if known == nil {
		glanced = glance(v, job)
		known = glanced
	}
	for _, book := range [...]*Book{known, nil} {
		d := &decision{View: v, job: job, spec: &job.Control.Spec, now: now, rev: rev, balance: job.Rebalance, book: book, scratch: scratchOf(v)}
		if d.decide() {
			if book != nil {
				d.glanced = glanced
			}
			return d.Result
		}
	}
	panic("reconcile: nothing can be decided about job " + name)
}

// decide reports whether a decision could be made by looking only at slots that are not at rest. Without a book it always can.
func (d *decision) decide() bool {
	if d.book == nil {
		d.endFormer()
	} else {
		if !d.restful() || !d.minded() {
			return false
		}
		d.sums = d.book.totals
	}
	if !d.gather() {
		return false
	}
	d.each(d.judge)
	if !d.mark() {
		return false
	}
	var wishes []move
	d.each(func(s *slot) {
		d.evacuate(s)
		wishes = append(wishes, d.wishes(s)...)
		d.oneAtATime(s)
		d.finish(s)
	})
	update := d.beginUpdate()
	if d.book != nil && !sameCourse(update, d.job.Update) {
		return false
	}
	d.beginRebalance()
	d.supersede(&update)
	d.each(d.settle)
	if d.move(wishes, &update); d.needsAll {
		return false
	}
	d.each(func(s *slot) { d.fill(s, &update) })
	d.sayTurns()
	d.endUpdate(&update)
	d.write(update)
	d.keep(update)
	return true
}

// each does something for every slot that is looked at. What comes of it is known to concern that slot.
func (d *decision) each(do func(*slot)) {
	for _, s := range d.slots {
		d.cur = s
		do(s)
	}
	d.cur = nil
}

// settle does what no budget limits: it ends what is unwanted or surplus in a slot.
func (d *decision) settle(s *slot) {
	if s.status == unwanted {
		d.end(s)
		return
	}
	for _, t := range s.tasks {
		switch {
		case s.Done && s.Ends && !s.Failed && (t.lost || t.live()):
			d.tell(t, cluster.DesiredShutdown, "the work of the slot is done", -1)
			s.up = false
		case t == s.keep || t == s.next || !t.Desired.State.Wanted() || t.dead:
		case s.up && (t.lost || t.live()):
			d.tell(t, cluster.DesiredShutdown, "another task of the slot is up", -1)
		}
	}
	d.settleNext(s)
}

// oneAtATime ends tasks that wait while another task of the slot may run: a node came back before they were placed. With start-first one more may start.
func (d *decision) oneAtATime(s *slot) {
	if s.status == unwanted || d.spec.Update.Order == cluster.StartFirst {
		return
	}
	for _, t := range s.tasks {
		if t.live() && !t.Placed() && slices.ContainsFunc(s.tasks, func(x *task) bool { return x.Placed() && !x.dead && !x.open }) {
			d.tell(t, cluster.DesiredShutdown, "another task of the slot may run", -1)
			d.forget(s, t)
		}
	}
}

// evacuate ends tasks that did not start and cannot where they are: those that wait in a slot none of whose nodes may run them, or for other nodes than those
// of their slot, and those on a node that was paused or drained before its agent spoke of them.
func (d *decision) evacuate(s *slot) {
	if s.status == unwanted {
		return
	}
	for _, t := range s.tasks {
		switch {
		case s.status == excluded && t.live() && !t.Placed():
			d.tell(t, cluster.DesiredShutdown, "no node to which its slot is limited may run it", -1)
			d.forget(s, t)
		case s.status == wanted && t.live() && !t.Placed() && !slices.Equal(t.Nodes, s.Nodes):
			d.tell(t, cluster.DesiredShutdown, "its slot is limited to other nodes now", -1)
			d.forget(s, t)
		case t.live() && t.Placed() && t.Observed.State == cluster.ObservedNone && t.node != nil && t.node.Spec.Availability != cluster.Active:
			d.tell(t, cluster.DesiredShutdown, "its node was set to "+string(t.node.Spec.Availability)+" before it started", 0)
			d.forget(s, t)
		}
	}
}

// settleNext ends the replacement of a move that does not stand any more.
func (d *decision) settleNext(s *slot) {
	if s.next != nil && !d.moveStands(s) {
		d.tell(s.next, cluster.DesiredShutdown, "the move that it was for does not stand any more", -1)
		s.next = nil
	}
}

// moveStands reports whether the task that the slot keeps is still to be replaced by its successor.
func (d *decision) moveStands(s *slot) bool {
	if s.next.SpecVersion != s.SpecVersion {
		return false // superseded by a newer version
	}
	if d.spec.Update.Order != cluster.StartFirst && s.next.Observed.State == cluster.ObservedNone {
		return false // the job stops first now
	}
	if s.keep.SpecVersion != s.SpecVersion {
		return true
	}
	return s.moving(d, s.keep)
}

// end stops all tasks of an unwanted slot and forgets it once they are dead.
func (d *decision) end(s *slot) {
	to, grace, reason := cluster.DesiredRemove, time.Duration(-1), "the slot is not wanted any more"
	if d.job.Control.Stopped {
		to, grace, reason = cluster.DesiredShutdown, d.job.Control.StopGrace, "the job was stopped"
	}
	full := len(d.Changes) >= 2*maxChanges
	alive, dropped := false, true
	for _, t := range s.tasks {
		switch {
		case !t.dead:
			d.tell(t, to, reason, grace)
			alive = alive || !t.dead
		case to == cluster.DesiredRemove && full:
			dropped = false
		case to == cluster.DesiredRemove:
			d.add(cluster.RemoveTask{Task: t.ID})
		}
	}
	s.keep, s.next, s.up = nil, nil, false
	over := !alive && to == cluster.DesiredRemove && s.was != nil
	switch {
	case full && (over || !dropped):
		d.wakeIn(1) // the next turn goes on
	case over:
		d.add(cluster.RemoveSlot{Job: s.Job, Key: s.Key})
		s.was, s.Slot = nil, nil
	}
}

// tell moves a task's desired state forward. A task that was never placed and has to go is dead with that, and no history.
func (d *decision) tell(t *task, to cluster.DesiredState, reason string, grace time.Duration) {
	d.tellBy(t, to, reason, cluster.SourceCore, grace)
}

func (d *decision) tellBy(t *task, to cluster.DesiredState, reason, by string, grace time.Duration) {
	next := cluster.Desired{State: to, Reason: reason, By: by, Since: d.now, Grace: grace}
	if t.told || !t.Desired.Follows(next) {
		return
	}
	if len(d.Changes) >= maxChanges {
		d.wakeIn(1)
		return
	}
	d.add(cluster.SetDesired{Task: t.ID, Desired: next})
	told := *t.Task // what else is decided now sees what it would see if it were decided anew
	told.Desired = next
	t.Task, t.told, t.up = &told, true, false
	if !t.Placed() {
		t.dead, t.cut = true, true
		d.add(cluster.RemoveTask{Task: t.ID})
	}
}

// write compares every slot with what it was and records what changed.
func (d *decision) write(update cluster.Update) {
	d.each(func(s *slot) {
		if s.Slot == nil {
			return
		}
		d.cutHistory(s)
		switch {
		case s.was != nil && sameSlot(s.was, s.Slot):
		case len(d.Changes) >= 2*maxChanges && s.canWait():
			d.wakeIn(1)
		default:
			d.add(cluster.PutSlot{Slot: s.Slot})
		}
	})
	if d.balance != d.job.Rebalance {
		d.add(cluster.SetRebalance{Job: d.job.Name, Rebalance: d.balance})
	}
	if update != d.job.Update {
		d.add(cluster.SetUpdate{Job: d.job.Name, Update: update})
	}
}

// cutHistory drops the oldest dead tasks of a slot beyond the job's limit. The one by whose end the slot's next task is decided, and the newest, stay until that
// is made.
func (d *decision) cutHistory(s *slot) {
	if s.status == unwanted && !d.job.Control.Stopped {
		return // end drops them all
	}
	var needed, last *task
	if !s.hasLive() && s.made == "" {
		needed, last = lastGone(s), newest(s)
	}
	dead := 0
	for i := len(s.tasks) - 1; i >= 0; i-- {
		t := s.tasks[i]
		if !t.dead || t.cut {
			continue
		}
		dead++
		switch {
		case (t == needed || t == last || dead <= d.spec.HistoryLimit) && t.Desired.State != cluster.DesiredRemove:
		case len(d.Changes) >= 2*maxChanges:
			d.wakeIn(1) // the next turn goes on
			return
		default:
			d.add(cluster.RemoveTask{Task: t.ID})
		}
	}
}

// leftovers ends what is left of a removed job, slot by slot.
func leftovers(v View, name string, now cluster.Time) Result {
	r := Result{whole: v.Book(name) == nil}
	for _, key := range leftKeys(v, name) {
		if r.Wake > 0 {
			r.entries = append(r.entries, Entry{Key: key, Rest: restAwake})
			continue
		}
		at := len(r.Changes)
		note := r.endLeft(v, name, key, now)
		if len(r.Changes) > at {
			note = restAwake
		}
		if at >= maxChanges && note == restAwake {
			r.Changes = r.Changes[:at]
			r.wakeIn(1) // the next turn goes on
		}
		r.entries = append(r.entries, Entry{Key: key, Rest: note})
	}
	for _, e := range r.entries {
		r.looked = append(r.looked, e.Key)
	}
	return r
}

// leftKeys returns the keys of a removed job's slots of which something may be left to be done.
func leftKeys(v View, name string) []cluster.SlotKey {
	var keys []cluster.SlotKey
	if b := v.Book(name); b != nil {
		keys = slices.Clone(b.awake)
	} else {
		for _, s := range v.Slots(name) {
			keys = append(keys, s.Key)
		}
		for t := range v.TasksOf(name) {
			keys = append(keys, t.Slot)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// endLeft ends what is left of a removed job's slot, and returns what is to be noted of that if nothing changes.
func (r *Result) endLeft(v View, name string, key cluster.SlotKey, now cluster.Time) Rest {
	if v.Slot(name, key) != nil {
		r.add(cluster.RemoveSlot{Job: name, Key: key})
	}
	note := restGone
	for _, t := range v.SlotTasks(name, key) {
		r.endLeftover(v, t, now)
		note = 0
	}
	return note
}

// endFormer ends what is left of a removed job of this job's name.
func (d *decision) endFormer() {
	for t := range d.TasksOf(d.job.Name) {
		if t.CreatedRev >= d.job.CreatedRev {
			continue
		}
		d.former = true
		if len(d.Changes) >= maxChanges {
			d.wakeIn(1)
			return
		}
		d.endLeftover(d.View, t, d.now)
	}
}

// endLeftover ends a task of a removed job: its record goes as soon as it is dead, or at once if its node is down.
func (r *Result) endLeftover(v View, t *cluster.Task, now cluster.Time) {
	switch {
	case t.Dead() || t.ConditionOn(v.Node(t.Placement.Node)).State != cluster.OK || !t.Placed():
		r.add(cluster.RemoveTask{Task: t.ID})
	case t.Desired.State.Before(cluster.DesiredRemove):
		r.add(cluster.SetDesired{Task: t.ID, Desired: cluster.Desired{
			State: cluster.DesiredRemove, Reason: "the job was removed", By: cluster.SourceCore, Since: now, Grace: -1,
		}})
	}
}
