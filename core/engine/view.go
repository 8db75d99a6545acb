package engine

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/setpointd/setpoint/core/reconcile"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// view is the working state as reconcile sees it in one decision, during which it does not change.
type view struct {
	*State
	e    *Engine
	read *jobTasks
}

var _ reconcile.View = view{}

// jobTasks are the slots and tasks of the job that is decided about, in the order of their ids, once all of them were asked for: a decision that looks at all of a
// job's slots asks for each of them again.
type jobTasks struct {
	job   string
	tasks []*cluster.Task // nil: only some were asked for

	taskRoom pool[cluster.Task]
	slotRoom pool[cluster.Slot]
	scratch  reconcile.Scratch
}

func (e *Engine) view() view { return view{e.work, e, &jobTasks{}} }

// next prepares the view for another decision. If kept is false nothing of what was read for the one before is needed any more: its memory is used again.
func (v view) next(kept bool) {
	v.read.tasks = nil
	if kept {
		v.read.taskRoom, v.read.slotRoom, v.read.scratch = pool[cluster.Task]{}, pool[cluster.Slot]{}, reconcile.Scratch{}
	}
	v.read.taskRoom.used, v.read.slotRoom.used = 0, 0
}

// pool is room for many records that are read together.
type pool[T any] struct {
	parts [][]T
	used  int
}

const poolPart = 32 // records that are given room at once

func (p *pool[T]) get() *T {
	part, at := p.used/poolPart, p.used%poolPart
	if part == len(p.parts) {
		p.parts = append(p.parts, make([]T, poolPart))
	}
	p.used++
	return &p.parts[part][at]
}

// Scratch returns memory for the decision.
func (v view) Scratch() *reconcile.Scratch { return &v.read.scratch }

// Node returns what State.Node does. It is asked for each task.
func (v view) Node(id cluster.NodeID) *cluster.Node {
	if i, ok := v.e.index[id]; ok {
		return v.e.ledger.nodes[i].Node
	}
	return nil
}

// TasksOf returns what State.TasksOf does.
func (v view) TasksOf(job string) iter.Seq[*cluster.Task] {
	if v.read.tasks == nil || v.read.job != job {
		v.read.job, v.read.tasks = job, make([]*cluster.Task, 0, 16)
		for x := range v.withPrefix(job + "/") {
			t := v.read.taskRoom.get()
			x.into(t)
			v.read.tasks = append(v.read.tasks, t)
		}
	}
	return slices.Values(v.read.tasks)
}

// Slots returns what State.Slots does.
func (v view) Slots(job string) []*cluster.Slot { return v.slotsInto(job, v.read.slotRoom.get) }

// SlotTasks returns what State.SlotTasks does.
func (v view) SlotTasks(job string, key cluster.SlotKey) []*cluster.Task {
	if v.read.tasks == nil || v.read.job != job {
		return v.State.SlotTasks(job, key)
	}
	prefix := slotPrefix(job, key)
	first, _ := slices.BinarySearchFunc(v.read.tasks, prefix, func(t *cluster.Task, p string) int { return cmp.Compare(string(t.ID), p) })
	end := first
	for end < len(v.read.tasks) && strings.HasPrefix(string(v.read.tasks[end].ID), prefix) {
		end++
	}
	if end-first < 2 {
		return v.read.tasks[first:end:end]
	}
	return oldestFirst(slices.Clone(v.read.tasks[first:end]))
}
