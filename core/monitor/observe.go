package monitor

import (
	"iter"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Report is what an agent said of one task.
type Report struct {
	Task     cluster.TaskID
	State    cluster.ObservedState
	Message  string
	Err      string
	ExitCode int
	Healthy  bool
}

// Observe turns one report of a node's agent into an observation. It returns nil if there is nothing new: the task is not this node's, the state is older
// than the one known, or nothing changed.
func Observe(t *cluster.Task, node cluster.NodeID, r Report, now cluster.Time) *cluster.SetObserved {
	if t == nil || t.Placement.Node != node || r.State == cluster.ObservedNone || r.State < t.Observed.State || t.Observed.State.Terminal() {
		return nil
	}
	o := cluster.Observed{State: r.State, Message: r.Message, Err: r.Err, ExitCode: r.ExitCode, Healthy: r.Healthy, At: t.Observed.At}
	if o == t.Observed {
		return nil
	}
	o.At = now
	return &cluster.SetObserved{Task: t.ID, Observed: o}
}

// Missing ends the tasks that a node's agent once reported and did not name in its full report: it does not know them, so they do not run. A task that was
// never observed is not missing: it is assigned again.
func Missing(tasks iter.Seq[*cluster.Task], named map[cluster.TaskID]bool, now cluster.Time) []cluster.Change {
	var out []cluster.Change
	for t := range tasks {
		if named[t.ID] || t.Dead() || t.Observed.State == cluster.ObservedNone {
			continue
		}
		out = append(out, cluster.SetObserved{Task: t.ID, Observed: cluster.Observed{
			State: cluster.Failed, Message: t.Observed.Message, Err: "not known here: the agent does not know this task any more", Unknown: true, At: now,
		}})
	}
	return out
}
