package engine

import (
	"github.com/setpointd/setpoint/core/monitor"
	"github.com/setpointd/setpoint/sdk/cluster"
)

func (e *Engine) agentUp(in AgentUp, now cluster.Time) {
	n := e.work.Node(in.Node)
	a := e.agents[in.Node]
	if n == nil || n.Spec.Decommissioned || in.Session <= a.session {
		return
	}
	e.lookNow = true
	*a = agent{session: in.Session, last: now, named: map[cluster.TaskID]bool{}, strays: a.strays, spoke: a.spoke}
	e.describe(n, in.Description)
}

func (e *Engine) agentDescribes(in AgentDescribes, now cluster.Time) {
	n, a := e.work.Node(in.Node), e.agents[in.Node]
	if n == nil || a.session != in.Session {
		return
	}
	a.last = now
	e.describe(n, in.Description)
}

func (e *Engine) describe(n *cluster.Node, d cluster.NodeDescription) {
	if descriptionFields(n.Description, d) != 0 {
		e.apply(cluster.AuthorAgent, cluster.SetNodeDescription{Node: n.ID, Description: d})
	}
}

// agentReports records what an agent observed. Once its full report is complete, what it did not name does not run there.
func (e *Engine) agentReports(in AgentReports, now cluster.Time) {
	a := e.agents[in.Node]
	if e.work.Node(in.Node) == nil || a == nil || a.session != in.Session {
		return
	}
	a.last = now
	if in.Received != nil {
		e.acks = append(e.acks, in.Received)
	}
	e.setStrays(in.Node, a, len(in.Strays))
	for _, r := range in.Tasks {
		if a.named != nil {
			a.named[r.Task] = true
		}
		if c := monitor.Observe(e.task(r.Task), in.Node, monitor.Report(r), now); c != nil {
			e.apply(cluster.AuthorAgent, *c)
		}
	}
	if !in.Full || !in.Last || a.named == nil {
		return
	}
	e.applyAll(cluster.AuthorAgent, monitor.Missing(e.work.TasksOn(in.Node), a.named, now))
	a.named, a.reported, a.spoke = nil, true, true
	e.block(in.Node, a)
	e.lookNow = true
}

// setStrays keeps new tasks off a node while something runs there under its agent's mark without a record.
func (e *Engine) setStrays(id cluster.NodeID, a *agent, strays int) {
	if a.strays != strays {
		a.strays = strays
		e.block(id, a)
	}
}

// block keeps new tasks off a node as long as nobody knows what else runs there: until its agent has reported once since the server started, and while it stops
// what it runs without a record.
func (e *Engine) block(id cluster.NodeID, a *agent) {
	i, why := e.indexOf(id), a.blocked()
	if n := e.ledger.nodes[i]; n.Blocked != why {
		n.Blocked = why
		e.ledger.reopen(i)
		e.changedNodes[i] = true
	}
}

// blocked returns why nothing new may be placed on the agent's node; "": it may.
func (a *agent) blocked() string {
	switch {
	case !a.spoke:
		return "its agent has not reported since the server started"
	case a.strays > 0:
		return "it still stops what it runs without a record"
	}
	return ""
}
