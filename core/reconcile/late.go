package reconcile

import (
	"fmt"
	"strings"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// late says that an update takes too long, and what it waits for. Once it is paused nothing is asked of its slots any more, so they do not say so themselves.
func (d *decision) late() string {
	d.needsAll = d.book != nil
	text := fmt.Sprintf("no slot came up for %s", d.spec.Update.ProgressDeadline)
	for _, s := range d.slots {
		if s.Slot == nil || s.status != wanted || s.MovedBy != cluster.MovedByUpdate && !d.stale(s) {
			continue
		}
		if why := d.waitsFor(s); why != "" {
			return text + ": " + why
		}
	}
	return text
}

// waitsFor says what keeps a slot from coming up with the version of the update, or "" if that is its turn or the budget.
func (d *decision) waitsFor(s *slot) string {
	if s.up && s.next == nil && d.stale(s) {
		if fit := d.Fits(d.job, s.Slot, s.keep.Task, d.claims); fit.Node == "" {
			return fmt.Sprintf("task %s stays, for its replacement would not fit in its place: %s", s.keep.ID, strings.TrimSuffix(fit.Why, "."))
		}
		return ""
	}
	if t := stoppingTask(s); t != nil {
		return fmt.Sprintf("task %s has not stopped yet%s", t.ID, onNode(t))
	}
	t := newest(s)
	switch {
	case t == nil:
		return ""
	case !t.live():
		return fmt.Sprintf("task %s %s: %s", t.ID, t.Observed.State, t.Observed.Err)
	case !t.Placed():
		if fit := d.Fits(d.job, s.Slot, nil, d.claims); fit.Node == "" {
			return fmt.Sprintf("task %s has no node: %s", t.ID, strings.TrimSuffix(fit.Why, "."))
		}
		return fmt.Sprintf("task %s has no node yet", t.ID)
	case t.Observed.State == cluster.Running:
		return strings.TrimSuffix(fmt.Sprintf("task %s runs%s and is not healthy: %s", t.ID, onNode(t), t.Observed.Message), ": ")
	case t.Observed.State == cluster.ObservedNone:
		return fmt.Sprintf("of task %s nothing was heard yet%s", t.ID, onNode(t))
	}
	return fmt.Sprintf("task %s is %s%s", t.ID, t.Observed.State, onNode(t))
}

func onNode(t *task) string {
	if t.node == nil {
		return ""
	}
	return " on node " + t.node.Spec.Name
}
