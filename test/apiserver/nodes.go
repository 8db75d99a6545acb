package apiserver

import (
	"context"
	"fmt"
	"sync"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// nodes are agents that report at once that a task runs which was placed on them, and that one has stopped which was told to.
type nodes struct {
	engine *engine.Engine
	wake   chan struct{}

	mu      sync.Mutex // guards what follows
	waiting []engine.AgentReports
}

// session is that of every agent. A server that is started again knows of none.
const session = 1

func newNodes(e *engine.Engine) *nodes { return &nodes{engine: e, wake: make(chan struct{}, 1)} }

// join has nodes join that are not there, and all of them connect and report what they run.
func (n *nodes) join(ctx context.Context, count int) error {
	about := cluster.NodeDescription{Drivers: []string{"sim", "process"}, Capacity: cluster.Resources{MilliCPU: 4000, Memory: 8 << 30}}
	for i := range count {
		name := fmt.Sprintf("n%d", i+1)
		id := cluster.NodeID(fmt.Sprintf("node-%d", i+1))
		if n.engine.View().Node(id) == nil {
			if _, err := n.engine.Do(ctx, "", engine.JoinNode{ID: id, Name: name, Description: about}); err != nil {
				return err
			}
		}
		report := engine.AgentReports{Node: id, Session: session, Full: true, Last: true}
		for t := range n.engine.View().TasksOn(id) {
			report.Tasks = append(report.Tasks, engine.TaskReport{Task: t.ID, State: t.Observed.State, ExitCode: t.Observed.ExitCode, Healthy: t.Observed.Healthy})
		}
		for _, in := range []engine.Input{engine.AgentUp{Node: id, Session: session, Description: about}, report} {
			if err := n.engine.Send(ctx, in); err != nil {
				return err
			}
		}
	}
	_, err := n.engine.Do(ctx, "", engine.Inspect{}) // after what was sent
	return err
}

// committed takes note of what a turn tells the nodes.
func (n *nodes) committed(turn engine.Turn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range turn.Changes {
		switch c := a.Change.(type) {
		case cluster.SetPlacement:
			n.report(c.Placement.Node, engine.TaskReport{Task: c.Task, State: cluster.Running, Healthy: true})
		case cluster.SetDesired:
			if t := turn.State.Task(c.Task); t != nil && t.Placed() && !c.Desired.State.Wanted() {
				n.report(t.Placement.Node, engine.TaskReport{Task: c.Task, State: cluster.Stopped})
			}
		}
	}
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

func (n *nodes) report(node cluster.NodeID, r engine.TaskReport) {
	n.waiting = append(n.waiting, engine.AgentReports{Node: node, Session: session, Tasks: []engine.TaskReport{r}})
}

// run sends what the nodes have to report, until the context ends.
func (n *nodes) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-n.wake:
		}
		n.mu.Lock()
		reports := n.waiting
		n.waiting = nil
		n.mu.Unlock()
		for _, r := range reports {
			if err := n.engine.Send(ctx, r); err != nil {
				return nil // it has ended
			}
		}
	}
}
