package engine

import (
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
	case cluster.PutRequest, cluster.RemoveRequest:
		e.applyRequest(c)
	case cluster.PutNotice, cluster.RemoveNotice:
		e.applyNotice(c)
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
	recordRequest
	recordNotice
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
	if fields == 0 {
		e.ledger.nodes[e.index[n.ID]].Node = &n
		return
	}
	e.nodeChanged(&n, fields)
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
	if e.ledger.describe(i, n) {
		e.ableChanged(i)
	}
	e.mirror(i, n, fields)
	e.dirtyNodes[n.ID] = true
	if fields&placingFields != 0 {
		e.changedNodes[i] = true
	}
	if fields&reconcileFields == 0 {
		return
	}
	e.dirtyTasksOn(n.ID)
	e.dirtyClaims(n.ID)
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
		id := c.Slot.ID()
		old, packed := e.work.slot(id), packSlot(&e.packer, c.Slot)
		before, _ := e.work.slots.Set(id, packed)
		e.work.slotCounts.change(id, before, packed)
		e.touch(recordSlot, id)
		e.wakeSlot(c.Slot.Job, c.Slot.Key)
		e.holdSlot(old, c.Slot)
		e.keepClaim(c.Slot)
	case cluster.RemoveSlot:
		id := c.Job + "/" + string(c.Key)
		before, _ := e.work.slots.Delete(id)
		e.work.slotCounts.change(id, before, "")
		delete(e.claims, id)
		e.wakeSlot(c.Job, c.Key)
		e.touch(recordSlot, id)
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
