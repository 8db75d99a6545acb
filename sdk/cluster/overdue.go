package cluster

import (
	"fmt"
	"time"
)

// Patience is how long a task may take for one step before that counts as waiting.
const Patience = 5 * time.Second

// Overdue says why a task that was placed does not advance, or was told to stop and has not been seen to stop. Like a phase it is derived and never stored. It
// returns nil while the task's last step is younger than Patience, and for tasks that wait for nothing. n is the task's node, nil if it has none.
func Overdue(t *Task, n *Node, now Time) *Stall {
	if t.Dead() || !t.Placed() || n == nil || t.ConditionOn(n).State != OK {
		return nil
	}
	s := Stall{Subject: Subject{Kind: SubjectTask, ID: string(t.ID)}, Source: SourceCore}
	switch {
	case !t.Desired.State.Wanted():
		s.Code, s.Since, s.Clears = CodeWaitingForStop, t.Desired.Since, "the agent of "+n.Spec.Name+" reports the stop, or the node is declared gone"
		s.Message = fmt.Sprintf("told to stop (%s) and not seen to stop on %s", t.Desired.Reason, n.Spec.Name)
	case t.Observed.State == Running && t.Observed.Healthy:
		return nil
	case t.Observed.State == Running:
		s.Code, s.Since, s.Clears = CodeUnhealthy, t.Observed.At, "its health check passes, or fails often enough to end it"
		s.Message = "runs on " + n.Spec.Name + " and is not healthy"
	case t.Observed.State == ObservedNone:
		s.Code, s.Since, s.Clears = CodeWaitingForAgent, t.Placement.Since, "the agent of "+n.Spec.Name+" takes it up"
		s.Message = "placed on " + n.Spec.Name + ", whose agent has not spoken of it"
	default:
		s.Code, s.Since, s.Clears = CodeWaitingForAgent, t.Observed.At, "it starts, or fails to"
		s.Message = fmt.Sprintf("%s on %s", t.Observed.State, n.Spec.Name)
		if t.Observed.Message != "" {
			s.Message += ": " + t.Observed.Message
		}
	}
	overdue := now.Sub(s.Since) >= Patience
	if n.Status.State == NodeSilent { // which may have begun a moment ago, and does not make the task's wait a shorter one
		s.Code, s.Since, s.Clears = CodeNodeSilent, later(s.Since, n.Status.Since), n.Spec.Name+" speaks again, or counts as down"
		s.Message += "; the node is silent"
	}
	if s.Changed = s.Since; !overdue {
		return nil
	}
	return &s
}

func later(a, b Time) Time {
	if a.Before(b) {
		return b
	}
	return a
}
