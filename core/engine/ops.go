package engine

import (
	"fmt"

	"github.com/setpointd/setpoint/core/place"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// operate carries out a command. Whatever it refuses, it has not changed anything.
func (e *Engine) operate(c command, now cluster.Time) (any, error) {
	switch op := c.op.(type) {
	case RunJob:
		return e.runJob(op, now)
	case StopJob:
		return e.stopJob(op)
	case StartJob:
		return e.startJob(op)
	case RestartJob:
		return e.restartJob(op, now)
	case ScaleJob:
		return e.scaleJob(op, now)
	case RollbackJob:
		return e.rollbackJob(op, now)
	case RebalanceJob:
		return e.rebalanceJob(op)
	case RemoveJob:
		return e.removeJob(op)
	case ControlUpdate:
		return e.controlUpdate(op)
	case StopTask:
		return e.stopTask(op, now)
	case JoinNode:
		return e.joinNode(op, now)
	case SetAvailability:
		return e.setAvailability(op, now)
	case LabelNode:
		return e.labelNode(op)
	case TrialLabels:
		return e.trialLabels(op)
	case Rehearse:
		return e.rehearse(op, now)
	case Decommission:
		return e.decommission(op)
	case RemoveNode:
		return e.removeNode(op)
	case ConfirmPlugin:
		return e.confirmPlugin(op)
	case ConfirmDown:
		return e.confirmDown(op)
	case NoteStall:
		return e.noteStall(op)
	case Why, Inspect, Foresee:
		return question{op, now}, nil
	}
	return nil, &OpError{Kind: Invalid, Message: fmt.Sprintf("%T cannot be asked here", c.op), Hint: "use a command of this version"}
}

// question stands for the answer to an operation that changes nothing, until the turn is over: in the midst of one there is nothing that anybody may see.
type question struct {
	op  Op
	now cluster.Time
}

// answer answers a question about the state as the turn has made it.
func (e *Engine) answer(q question, s *State) (any, error) {
	switch op := q.op.(type) {
	case Why:
		return e.why(op)
	case Foresee:
		return e.foresee(s, q.now), nil
	}
	return InspectResult{State: s, Nodes: e.ledger.use(), Pools: e.poolUse()}, nil
}

// why explains what keeps a task from every node.
func (e *Engine) why(op Why) (any, error) {
	t := e.work.Task(op.Task)
	if t == nil {
		return nil, notFound("task", string(op.Task), "task ls lists those that there are")
	}
	out := WhyResult{Task: t, Stalls: e.work.TaskStalls(t)}
	if !e.grouped(t) {
		return out, nil
	}
	g := e.placeGroup(e.groups[GroupKey(t)])
	c := e.cluster()
	st := place.Stand(c, g)
	d := place.Describe(c, g)
	out.Sentence, out.Nearest, out.Clears = place.Sentence(st.Facts(), d), d.Nearest.Name, d.Clears
	if r, ok := place.ExceedsEvery(c, g); ok {
		out.Exceeds = r
	}
	for _, n := range place.Explain(c, g) {
		w := WhyNode{Node: n.ID, Name: n.Name}
		for k := range n.Reasons {
			r := &n.Reasons[k]
			w.Reasons = append(w.Reasons, WhyReason{Source: r.Source, Code: r.Code, Detail: r.Text()})
		}
		out.Nodes = append(out.Nodes, w)
	}
	return out, nil
}
