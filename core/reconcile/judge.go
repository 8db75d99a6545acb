package reconcile

import (
	"slices"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// task is a task with what follows from its node.
type task struct {
	*cluster.Task
	node *cluster.Node
	dead bool
	lost bool // its node is down, and it is not dead
	open bool // lost for long enough that the slot may have one more
	up   bool
	told bool // told to stop in this very decision
	cut  bool // its record was dropped in this very decision
}

// live reports whether the task is wanted and may be running or come to run.
func (t *task) live() bool { return t.Desired.State.Wanted() && !t.told && !t.dead && !t.lost }

// stopping reports whether the task was told to stop and may still run, so that nothing may take its place.
func (t *task) stopping() bool { return (!t.Desired.State.Wanted() || t.told) && !t.dead && !t.open }

// status is what a job wants of a slot.
type status uint8

const (
	wanted   status = iota
	held            // starts nothing, keeps what is there
	excluded        // limited to nodes all of which are refused: not wanted, and carries no stall
	unwanted
)

// slot is a slot with its tasks and what was decided about it.
type slot struct {
	*cluster.Slot               // a copy; compared with was at the end
	was           *cluster.Slot // nil: it is new
	status        status
	why           *cluster.Stall // with held: the reason
	tasks         []*task
	keep          *task // the one that stays; nil if none is up or coming up
	next          *task // the standing replacement of a start-first move of keep
	up            bool
	made          cluster.TaskID // the task that was created in this decision; "": none
	later         bool           // it takes the newest version in a later turn, and starts nothing before
	queued        bool           // it waits until fewer slots of the job have a task
	key           cluster.SlotKey
	busy          bool // something was decided or is waited for in it, or was said that may not last
	waits         *move
	unnamed       bool // its job's type does not name it
}

// stale reports whether the slot should move to the job's newest task section.
func (d *decision) stale(s *slot) bool {
	j := d.job
	switch {
	case s.Done && s.SpecVersion == j.Control.SpecVersion, s.Done && s.Ends && !s.Failed && !d.again(s):
		return false
	}
	if s.keep != nil {
		return s.keep.SpecVersion != j.Control.SpecVersion
	}
	return s.SpecVersion != j.Control.SpecVersion
}

// counts reports whether the slot takes part in the budget.
func (s *slot) counts() bool { return s.status == wanted && !s.Done && !s.queued }

// hasLive reports whether some task of the slot is wanted and may be running or come to run.
func (s *slot) hasLive() bool { return slices.ContainsFunc(s.tasks, (*task).live) }

// hasTask reports whether some task of the slot is not known to have ended.
func (s *slot) hasTask() bool {
	return slices.ContainsFunc(s.tasks, func(t *task) bool { return !t.dead })
}

// hasPlaced reports whether some task of the slot runs or is about to start.
func (s *slot) hasPlaced() bool {
	return slices.ContainsFunc(s.tasks, func(t *task) bool { return t.live() && t.Placed() })
}

// holdsPlace reports whether the slot holds a place of its job's update: it was moved, and its new task is not up yet or is watched.
func (s *slot) holdsPlace() bool {
	return s.MovedBy == cluster.MovedByUpdate || s.MovedBy == cluster.MovedByMonitor
}

// canWait reports whether what changed of the slot can be decided again in the next turn just as well: nothing else that this decision does goes with it.
func (s *slot) canWait() bool {
	return s.was != nil && s.made == "" && !slices.ContainsFunc(s.tasks, func(t *task) bool { return t.told }) &&
		s.Unwanted == s.was.Unwanted && s.MovedBy == s.was.MovedBy && s.MovedIn == s.was.MovedIn && s.Counted == s.was.Counted &&
		s.EverUp == s.was.EverUp && s.Done == s.was.Done && s.Failed == s.was.Failed && s.Claim == s.was.Claim
}

// pinned reports whether the slot is limited to one node.
func (s *slot) pinned() bool { return len(s.Nodes) == 1 }

func (d *decision) judgeTask(t *cluster.Task) *task {
	n := d.Node(t.Placement.Node)
	out := d.scratch.task()
	*out = task{Task: t, node: n, dead: t.Dead()}
	switch t.ConditionOn(n).State {
	case cluster.Gone:
		out.dead = true
	case cluster.Lost:
		out.lost = !out.dead
	case cluster.OK:
	}
	if out.lost && d.spec.OnLost != cluster.LostWait {
		left := max(d.spec.LostAfter-d.now.Sub(n.Status.Since), n.Status.Replace.Sub(d.now))
		out.open = left <= 0
		d.wakeIn(left)
	}
	out.up = !out.dead && t.Up(n)
	return out
}

// judge reads a slot's tasks and finds the one that it keeps. Tasks of a removed job of the same name only stand in the way until they are seen to stop.
func (d *decision) judge(s *slot) {
	v := d.View
	all := v.SlotTasks(s.Job, s.Key)
	s.tasks = d.scratch.tasks(len(all))
	for _, x := range all {
		t := d.judgeTask(x)
		switch {
		case x.CreatedRev < d.job.CreatedRev && (t.dead || t.lost || !t.Placed()):
			continue // dropped with the rest of the removed job
		case x.CreatedRev < d.job.CreatedRev:
			t.told = true
		case t.dead && !t.Placed():
			d.add(cluster.RemoveTask{Task: t.ID}) // what was never placed is no history
			continue
		}
		s.tasks = append(s.tasks, t)
	}
	if d.choose(s); !s.up && s.NotUpSince.IsZero() && s.status != unwanted {
		s.NotUpSince, s.NotUpWhy = d.now, whyNotUp(s) // by what came before this decision, not by what it tells
	}
}

// choose finds the task that the slot keeps, and the one that is to replace it.
func (d *decision) choose(s *slot) {
	s.keep, s.next = nil, nil
	for _, t := range s.tasks {
		if t.live() && (s.keep == nil || better(s, t, s.keep, d.View)) {
			s.keep = t
		}
	}
	s.up = s.keep != nil && s.keep.up
	if !s.up {
		return
	}
	for _, t := range s.tasks {
		if t != s.keep && t.live() && !t.up && t.CreatedRev > s.keep.CreatedRev {
			s.next = t
		}
	}
}

// better reports whether t is to be kept rather than u: what is up, then what is not being moved, then the slot's version, then the oldest.
func better(s *slot, t, u *task, v View) bool {
	if t.up != u.up {
		return t.up
	}
	if a, b := s.moving(v, t), s.moving(v, u); a != b {
		return !a
	}
	if a, b := t.SpecVersion == s.SpecVersion, u.SpecVersion == s.SpecVersion; a != b {
		return a
	}
	return t.CreatedRev < u.CreatedRev
}

// moving reports whether somebody wants the task to leave its node.
func (s *slot) moving(v View, t *task) bool {
	if !t.Placed() {
		return false
	}
	if s.Leaves == t.Placement.Node {
		return true
	}
	if say := v.Says(t.Task).Transition; say.Strength == cluster.Voluntary || say.Strength == cluster.Forced {
		return true
	}
	return drifts(v, v.Job(t.Job), t)
}

// drifts reports whether the task's node no longer meets the job's requirements, and the job moves such tasks.
func drifts(v View, j *cluster.Job, t *task) bool {
	if j == nil || j.Control.Spec.OnDrift == cluster.DriftKeep || !t.Placed() {
		return false
	}
	w := v.Verdict(j, t.Placement.Node)
	return w.Refused && w.Evicts
}
