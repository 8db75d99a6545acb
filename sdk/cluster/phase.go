package cluster

// Phase is one word about a task for people. It is derived and never stored.
type Phase string

// The phases of a task.
const (
	PhasePending   Phase = "pending"   // wanted, not placed, nothing known to be in its way
	PhaseStalled   Phase = "stalled"   // cannot advance now; its stalls say why
	PhaseStarting  Phase = "starting"  // placed, not running yet
	PhaseUnhealthy Phase = "unhealthy" // running, health check not passed
	PhaseRunning   Phase = "running"
	PhaseStopping  Phase = "stopping"  // told to stop, not seen to have stopped
	PhaseLost      Phase = "lost"      // its node is down
	PhaseGone      Phase = "gone"      // its node was declared gone
	PhaseCancelled Phase = "cancelled" // told to stop before it was placed
	PhaseComplete  Phase = "complete"
	PhaseFailed    Phase = "failed"
	PhaseRejected  Phase = "rejected"
	PhaseStopped   Phase = "stopped"
)

// PhaseOf derives the phase of a task from its sections, its node (nil if it has none) and whether it has a stall.
func PhaseOf(t *Task, n *Node, stalled bool) Phase {
	switch t.Observed.State {
	case Complete:
		return PhaseComplete
	case Failed:
		return PhaseFailed
	case Rejected:
		return PhaseRejected
	case Stopped:
		return PhaseStopped
	case ObservedNone, Accepted, Preparing, Starting, Running:
	}
	switch t.ConditionOn(n).State {
	case Gone:
		return PhaseGone
	case Lost:
		return PhaseLost
	case OK:
	}
	switch {
	case !t.Desired.State.Wanted() && !t.Placed():
		return PhaseCancelled
	case !t.Desired.State.Wanted():
		return PhaseStopping
	case t.Observed.State == Running && t.Observed.Healthy:
		return PhaseRunning
	case stalled:
		return PhaseStalled
	case t.Observed.State == Running:
		return PhaseUnhealthy
	case t.Placed():
		return PhaseStarting
	}
	return PhasePending
}
