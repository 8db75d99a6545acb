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

// jobTasks are the tasks of the job that is decided about, in the order of their ids, once all of them were asked for: a decision that looks at all of a job's
// slots asks for each of them again.
type jobTasks struct {
	job   string
	tasks []*cluster.Task // nil: only some were asked for
}

func (e *Engine) view() view { return view{e.work, e, &jobTasks{}} }

// TasksOf returns what State.TasksOf does.
func (v view) TasksOf(job string) iter.Seq[*cluster.Task] {
	if v.read.tasks == nil || v.read.job != job {
		v.read.job, v.read.tasks = job, slices.AppendSeq(make([]*cluster.Task, 0, 16), v.State.TasksOf(job))
	}
	return slices.Values(v.read.tasks)
}

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
	return oldestFirst(slices.Clone(v.read.tasks[first:end]))
}
