package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// apply makes one change to the working state. This is where every write passes, so this is where the rule of one writer is held: a change by an author who
// does not own the section, or one that moves a state backwards, is a fault of the program and panics before anything is committed.
func (e *Engine) apply(by cluster.Author, c cluster.Change) {
	if err := cluster.Check(by, c); err != nil {
		panic(err)
	}
	switch c := c.(type) {
	case cluster.AddNode, cluster.SetNodeSpec, cluster.SetNodeDescription, cluster.SetNodeStatus, cluster.SetDrain, cluster.RemoveNode:
		e.applyNode(c)
	case cluster.PutJob, cluster.RemoveJob, cluster.SetUpdate, cluster.SetRebalance, cluster.PutSlot, cluster.RemoveSlot:
		e.applyJob(c)
	case cluster.AddTask, cluster.SetDesired, cluster.SetPlacement, cluster.SetObserved, cluster.SetCondition, cluster.RemoveTask:
		e.applyTask(c)
	case cluster.PutStall:
		e.work.stalls.Set(c.Stall.Key(), c.Stall)
		e.touch(recordStall, c.Stall.Key())
	case cluster.RemoveStall:
		e.work.stalls.Delete(c.Key)
		e.touch(recordStall, c.Key)
	default:
		panic(fmt.Sprintf("apply: unknown change %T", c))
	}
	e.changes = append(e.changes, Authored{By: by, Change: c, For: e.asking})
}

func (e *Engine) applyAll(by cluster.Author, changes []cluster.Change) {
	for _, c := range changes {
		e.apply(by, c)
	}
}

// record names one record that a turn touched; what is committed is its state at the end of the turn.
type record struct {
	kind recordKind
	key  string
}

type recordKind uint8

const (
	recordNode recordKind = iota
	recordJob
	recordSlot
	recordTask
	recordStall
)

func (e *Engine) touch(kind recordKind, key string) { e.touched[record{kind, key}] = struct{}{} }

func (e *Engine) applyNode(c cluster.Change) {
	var n cluster.Node
	var fields cluster.FieldMask
	change := func(id cluster.NodeID) {
		old := e.work.Node(id)
		if old == nil {
			panic(fmt.Sprintf("apply %T: no node %s", c, id))
		}
		n = *old
	}
	switch c := c.(type) {
	case cluster.AddNode:
		n, fields = *c.Node, allFields
		e.indexOf(n.ID)
	case cluster.SetNodeSpec:
		change(c.Node)
		fields = specFields(n.Spec, c.Spec)
		e.rename(&n, c.Spec)
		n.Spec = c.Spec
	case cluster.SetNodeDescription:
		change(c.Node)
		fields = descriptionFields(n.Description, c.Description)
		n.Description = c.Description
	case cluster.SetNodeStatus:
		change(c.Node)
		fields = cluster.Mask(cluster.FieldState)
		n.Status = c.Status
	case cluster.SetDrain:
		change(c.Node)
		n.Drain = c.Drain
	case cluster.RemoveNode:
		e.dropNode(c.Node)
		return
	}
	for f := range cluster.NodeFields {
		if fields.Has(f) {
			n.Seen[f] = e.rev
		}
	}
	if _, added := c.(cluster.AddNode); added && !n.Spec.Decommissioned {
		e.work.names.Set(n.Spec.Name, n.ID)
	}
	e.work.nodes.Set(n.ID, &n)
	e.touch(recordNode, string(n.ID))
	if fields != 0 {
		e.nodeChanged(&n, fields)
	}
}

const allFields = cluster.FieldMask(1<<cluster.NodeFields - 1)

func specFields(a, b cluster.NodeSpec) cluster.FieldMask {
	var m cluster.FieldMask
	if !maps.Equal(a.Labels, b.Labels) {
		m |= cluster.Mask(cluster.FieldLabels)
	}
	if a.Availability != b.Availability || a.Decommissioned != b.Decommissioned || a.DrainDeadline != b.DrainDeadline {
		m |= cluster.Mask(cluster.FieldAvailability)
	}
	if a.Name != b.Name || a.Decommissioned != b.Decommissioned {
		m |= cluster.Mask(cluster.FieldIdentity)
	}
	return m
}

func descriptionFields(a, b cluster.NodeDescription) cluster.FieldMask {
	var m cluster.FieldMask
	if !maps.Equal(a.Attributes, b.Attributes) {
		m |= cluster.Mask(cluster.FieldAttributes)
	}
	if !a.Capacity.Equal(b.Capacity) {
		m |= cluster.Mask(cluster.FieldCapacity)
	}
	if a.Hostname != b.Hostname || a.OS != b.OS || a.Arch != b.Arch || a.Version != b.Version ||
		!slices.Equal(a.Addresses, b.Addresses) || !slices.Equal(a.Drivers, b.Drivers) {
		m |= cluster.Mask(cluster.FieldPlatform)
	}
	return m
}

// rename keeps the index of names: a decommissioned node gives its name up.
func (e *Engine) rename(n *cluster.Node, to cluster.NodeSpec) {
	if id, ok := e.work.names.Get(n.Spec.Name); ok && id == n.ID {
		e.work.names.Delete(n.Spec.Name)
	}
	if !to.Decommissioned {
		e.work.names.Set(to.Name, n.ID)
	}
}

func (e *Engine) dropNode(id cluster.NodeID) {
	n := e.work.Node(id)
	if n == nil {
		panic("apply: no node " + string(id))
	}
	e.rename(n, cluster.NodeSpec{Decommissioned: true})
	e.wakeNode(e.indexOf(id))
	e.work.nodes.Delete(id)
	e.touch(recordNode, string(id))
	delete(e.agents, id)
	e.freeIndex(id)
}

// nodeChanged marks all that depends on what changed of a node.
func (e *Engine) nodeChanged(n *cluster.Node, fields cluster.FieldMask) {
	i := e.indexOf(n.ID)
	e.wakeNode(i)
	e.ledger.describe(i, n)
	e.mirror(i, n, fields)
	e.dirtyNodes[n.ID] = true
	if fields&placingFields != 0 {
		e.changedNodes[i] = true
	}
	if fields&reconcileFields == 0 {
		return
	}
	for t := range e.work.TasksOn(n.ID) {
		if !t.Dead() {
			e.dirtyJobs[t.Job] = true
		}
	}
	for name := range e.answered {
		e.dirtyJobs[name] = true
	}
}

var (
	placingFields   = cluster.Mask(cluster.FieldCapacity, cluster.FieldAvailability, cluster.FieldState)
	reconcileFields = cluster.Mask(cluster.FieldAvailability, cluster.FieldState, cluster.FieldIdentity)
)

func (e *Engine) applyJob(c cluster.Change) {
	switch c := c.(type) {
	case cluster.PutJob:
		e.work.jobs.Set(c.Job.Name, c.Job)
		e.touch(recordJob, c.Job.Name)
		e.register(c.Job)
		e.forgetBook(c.Job.Name)
		e.dirtyJobs[c.Job.Name] = true
		for _, g := range e.groupsOf[c.Job.Name] {
			g.dirty = true
		}
	case cluster.RemoveJob:
		e.unregister(c.Job)
		e.forgetBook(c.Job)
		e.work.jobs.Delete(c.Job)
		e.touch(recordJob, c.Job)
		e.dirtyJobs[c.Job] = true
	case cluster.SetUpdate:
		j := *e.work.Job(c.Job)
		j.Update = c.Update
		e.work.jobs.Set(j.Name, &j)
		e.touch(recordJob, j.Name)
	case cluster.SetRebalance:
		j := *e.work.Job(c.Job)
		j.Rebalance = c.Rebalance
		e.work.jobs.Set(j.Name, &j)
		e.touch(recordJob, j.Name)
	case cluster.PutSlot:
		old, _ := e.work.slots.Get(c.Slot.ID())
		e.work.slots.Set(c.Slot.ID(), c.Slot)
		e.touch(recordSlot, c.Slot.ID())
		e.wakeSlot(c.Slot.Job, c.Slot.Key)
		e.holdSlot(old, c.Slot)
		e.keepClaim(c.Slot)
	case cluster.RemoveSlot:
		id := c.Job + "/" + string(c.Key)
		e.work.slots.Delete(id)
		delete(e.claims, id)
		e.wakeSlot(c.Job, c.Key)
		e.touch(recordSlot, id)
	}
}

func (e *Engine) applyTask(c cluster.Change) {
	var old *cluster.Task
	var t cluster.Task
	change := func(id cluster.TaskID) {
		if old = e.work.Task(id); old == nil {
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
		e.work.onNode.Set(string(t.Placement.Node)+"\x00"+string(t.ID), struct{}{})
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
	e.work.tasks.Set(t.ID, &t)
	e.work.unsettled.change(old, &t)
	e.touch(recordTask, string(t.ID))
	e.taskChanged(old, &t)
}

func (e *Engine) dropTask(id cluster.TaskID) {
	t := e.work.Task(id)
	if t == nil {
		panic("apply: no task " + string(id))
	}
	e.work.tasks.Delete(id)
	e.work.unsettled.change(t, nil)
	e.work.onNode.Delete(string(t.Placement.Node) + "\x00" + string(id))
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

// waits reports whether the task is to be placed: it wants to be, and its slot is not held.
func (e *Engine) waits(t *cluster.Task) bool {
	if !waiting(t) {
		return false
	}
	s := e.work.Slot(t.Job, t.Slot)
	return s == nil || s.Held == ""
}

// grouped reports whether the task is in a group to be placed.
func (e *Engine) grouped(t *cluster.Task) bool {
	if t == nil || t.Placed() {
		return false
	}
	g := e.groups[GroupKey(t)]
	if g == nil {
		return false
	}
	_, in := g.tasks[t.ID]
	return in
}

// holdSlot keeps the tasks of a slot that is held out of placing, and takes them in again when it is not held any more.
func (e *Engine) holdSlot(old, s *cluster.Slot) {
	if old == nil || (old.Held == "") == (s.Held == "") {
		return
	}
	for _, t := range e.work.SlotTasks(s.Job, s.Key) {
		switch {
		case e.grouped(t) && !e.waits(t):
			e.leaveGroup(t)
		case e.waits(t):
			e.joinGroup(t)
		}
	}
}

// reserves reports whether the task takes up room on a node.
func reserves(t *cluster.Task) bool { return t != nil && t.Placed() && !t.Dead() }

// waiting reports whether the task wants to be placed.
func waiting(t *cluster.Task) bool {
	return t != nil && !t.Placed() && t.Desired.State.Wanted() && !t.Dead()
}
