package engine

import (
	"github.com/setpointd/setpoint/core/reconcile"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// stopTask ends one task. Its slot gets another by the rules of its job.
func (e *Engine) stopTask(op StopTask, now cluster.Time) (any, error) {
	t := e.work.Task(op.Task)
	switch {
	case t == nil:
		return nil, notFound("task", string(op.Task), "task ls lists those that there are")
	case t.Dead():
		return nil, refused("task ls shows the one that its slot has now", "task %s has ended", t.ID)
	case !t.Placed():
		return nil, refused("task why "+string(t.ID)+" says what it waits for", "task %s has no node yet, so there is nothing to stop", t.ID)
	}
	reason := "an operator stopped it"
	if e.asking != "" {
		reason = e.asking + " stopped it"
	}
	changes := reconcile.Stop(t, reason, op.Grace, now)
	e.applyAll(cluster.AuthorReconcile, changes)
	return TaskResult{Task: e.work.Task(t.ID), Changed: len(changes) > 0}, nil
}
