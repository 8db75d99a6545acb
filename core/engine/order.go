package engine

import (
	"cmp"
	"maps"
	"slices"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// jobsInOrder returns the jobs that are to be decided about: those that were removed, which make room, then those of higher priority; of equal ones those that
// the turn before left over, so that none waits for ever behind others that keep changing; then by name.
func (e *Engine) jobsInOrder() []string {
	rank := func(name string) int {
		j := e.work.Job(name)
		if j == nil {
			return -1
		}
		return cluster.MaxPriority - j.Control.Spec.Priority
	}
	left := func(name string) int {
		if e.leftOver[name] {
			return 0
		}
		return 1
	}
	return slices.SortedFunc(maps.Keys(e.dirtyJobs), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(left(a), left(b)), cmp.Compare(a, b))
	})
}

// leaveOver notes which jobs the next turn has to begin with.
func (e *Engine) leaveOver(names []string) {
	for _, name := range names {
		e.leftOver[name] = true
	}
}
