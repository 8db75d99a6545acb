package engine

import (
	"cmp"
	"fmt"

	"github.com/setpointd/setpoint/sdk/cluster"
)

func (e *Engine) applyTask(c cluster.Change) {
	var old *cluster.Task
	var t cluster.Task
	change := func(id cluster.TaskID) {
		if old = e.task(id); old == nil {
			panic(fmt.Sprintf("apply %T: no task %s", c, id))
		}
		t = *old
	}
	switch c := c.(type) {
	case cluster.AddTask:
		if e.work.Task(c.Task.ID) != nil {
			panic("apply: task " + string(c.Task.ID) + " exists already")
		}
		t = *c.Task
	case cluster.SetDesired:
		change(c.Task)
		if !t.Desired.Follows(c.Desired) {
			panic(fmt.Sprintf("apply: task %s cannot go from %s to %s", t.ID, t.Desired.State, c.Desired.State))
		}
		t.Desired = c.Desired
	case cluster.SetPlacement:
		change(c.Task)
		if t.Placed() {
			panic("apply: task " + string(t.ID) + " was placed already")
		}
		t.Placement = c.Placement
		e.work.onNode.add(t.Placement.Node, t.ID)
		e.onTheWay[t.Job] = true
		if s := e.claims[t.Job+"/"+string(t.Slot)]; s != nil {
			e.changedNodes[e.index[s.Claim]], e.more = true, true // the room that was kept is free now
			e.poolsChanged(t.Reserve.Addresses)
		}
	case cluster.SetObserved:
		change(c.Task)
		if c.Observed.State < t.Observed.State {
			panic(fmt.Sprintf("apply: task %s was observed %s and cannot be %s", t.ID, t.Observed.State, c.Observed.State))
		}
		t.Observed = c.Observed
		e.dirtyJobs[t.Job] = true
	case cluster.SetCondition:
		change(c.Task)
		t.Condition = c.Condition
		e.dirtyJobs[t.Job] = true
	case cluster.RemoveTask:
		e.dropTask(c.Task)
		return
	}
	e.work.setTask(&e.packer, &t)
	e.work.unsettled.change(old, &t)
	e.seen = nil
	e.touch(recordTask, string(t.ID))
	e.taskChanged(old, &t)
}

// task returns a task of the working state, or nil. Who asks for one mostly changes it next, so it is unpacked once for both.
func (e *Engine) task(id cluster.TaskID) *cluster.Task {
	if e.seen == nil || e.seen.ID != id {
		e.seen = e.work.Task(id)
	}
	return e.seen
}

func (e *Engine) dropTask(id cluster.TaskID) {
	t := e.task(id)
	if t == nil {
		panic("apply: no task " + string(id))
	}
	e.work.dropTask(id)
	e.work.unsettled.change(t, nil)
	e.seen = nil
	if t.Placed() {
		e.work.onNode.drop(t.Placement.Node, id)
	}
	e.touch(recordTask, string(id))
	e.taskChanged(t, nil)
	for _, s := range e.work.StallsOf(cluster.Subject{Kind: cluster.SubjectTask, ID: string(id)}) {
		e.apply(cluster.AuthorEngine, cluster.RemoveStall{Key: s.Key()})
	}
}

// taskChanged keeps the ledger and the waiting groups in step with a task that was t before and is u now; nil: it did not or does not exist.
func (e *Engine) taskChanged(t, u *cluster.Task) {
	if x := cmp.Or(u, t); x != nil {
		e.wakeSlot(x.Job, x.Slot)
	}
	held, holds := reserves(t), reserves(u)
	if held != holds {
		if i, ok := e.index[t.Placement.Node]; held && ok {
			e.ledger.free(i, t)
			e.changedNodes[i] = true
		} else if i, ok := e.index[u.Placement.Node]; !held && ok {
			e.ledger.take(i, u)
		}
	}
	switch {
	case held && !holds:
		e.freeAddresses(t)
	case !held && holds:
		e.takeAddresses(u)
	}
	waited, waits := e.grouped(t), e.waits(u)
	switch {
	case waited && !waits:
		e.leaveGroup(t)
	case waits:
		e.joinGroup(u)
	}
	for _, x := range [...]*cluster.Task{t, u} {
		if x != nil && x.Placed() {
			e.dirtyNodes[x.Placement.Node] = true
		}
	}
}
