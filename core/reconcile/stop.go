package reconcile

import (
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Stop ends one task because an operator asks for that: the change that tells it to shut down within a grace (negative: as its specification says), or none if it
// was told that before and has no less time now. It is a forced move, so nothing is waited for; what it means for the slot, Job decides: the slot needs a task
// that was not ended by itself, and so another is made, which spends no restart.
func Stop(t *cluster.Task, reason string, grace time.Duration, now cluster.Time) []cluster.Change {
	next := cluster.Desired{State: cluster.DesiredShutdown, Reason: reason, By: cluster.SourceCore, Since: now, Grace: grace}
	if t.Dead() || !t.Placed() || !t.Desired.Follows(next) {
		return nil
	}
	return []cluster.Change{cluster.SetDesired{Task: t.ID, Desired: next}}
}
