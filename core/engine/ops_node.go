package engine

import (
	"fmt"
	"maps"
	"slices"

	"github.com/setpointd/setpoint/sdk/cluster"
)

func (e *Engine) node(name string) (*cluster.Node, error) {
	n := e.work.NodeNamed(name)
	if n == nil {
		return nil, notFound("node", name, "node ls lists those that there are")
	}
	return n, nil
}

func (e *Engine) setNodeSpec(n *cluster.Node, spec cluster.NodeSpec) NodeResult {
	spec.AskedBy, spec.AskedRev = e.asking, e.rev
	e.apply(cluster.AuthorOperator, cluster.SetNodeSpec{Node: n.ID, Spec: spec})
	return NodeResult{Node: e.work.Node(n.ID), Changed: true}
}

func (e *Engine) joinNode(op JoinNode, now cluster.Time) (any, error) {
	if op.ID == "" || e.work.Node(op.ID) != nil {
		return nil, &OpError{Kind: Conflict, Message: fmt.Sprintf("node id %q cannot be given", op.ID), Hint: "choose another random id"}
	}
	name := op.Name
	for i := 2; ; i++ {
		if _, taken := e.work.names.Get(name); !taken && name != "" {
			break
		}
		if op.Name == "" {
			name = string(op.ID)
			continue
		}
		name = fmt.Sprintf("%s-%d", op.Name, i)
	}
	n := &cluster.Node{
		ID: op.ID, Joined: now, Created: e.rev,
		Spec:   cluster.NodeSpec{Name: name, Labels: op.Labels, Availability: cluster.Active, AskedBy: e.asking, AskedRev: e.rev},
		Status: cluster.NodeStatus{State: cluster.NodeSilent, Since: now},
	}
	e.agents[n.ID] = &agent{last: now}
	e.lookNow = true
	e.apply(cluster.AuthorOperator, cluster.AddNode{Node: n})
	e.block(n.ID, e.agents[n.ID])
	e.apply(cluster.AuthorAgent, cluster.SetNodeDescription{Node: n.ID, Description: op.Description})
	return NodeResult{Node: e.work.Node(n.ID), Changed: true}, nil
}

// setAvailability changes all the nodes, or none.
func (e *Engine) setAvailability(op SetAvailability, now cluster.Time) (any, error) {
	switch {
	case len(op.Nodes) == 0:
		return nil, &OpError{Kind: Invalid, Message: "no node is named", Hint: "name at least one"}
	case op.Availability != cluster.Active && op.Availability != cluster.Pause && op.Availability != cluster.Drain:
		return nil, &OpError{Kind: Invalid, Message: fmt.Sprintf("%q is no availability", op.Availability), Hint: "active, pause or drain"}
	case op.DrainDeadline < 0:
		return nil, &OpError{Kind: Invalid, Message: "a drain's deadline cannot be negative", Hint: "0 waits without limit"}
	}
	ids := make([]cluster.NodeID, 0, len(op.Nodes))
	for _, name := range op.Nodes {
		n, err := e.node(name)
		switch {
		case err != nil:
			return nil, err
		case n.Spec.Decommissioned:
			return nil, refused("it never comes back; node rm forgets it", "node %s is decommissioned", n.Spec.Name)
		}
		ids = append(ids, n.ID)
	}
	results := make([]NodeResult, 0, len(ids))
	for _, id := range ids {
		results = append(results, e.makeAvailable(e.work.Node(id), op, now))
	}
	return results, nil
}

func (e *Engine) makeAvailable(n *cluster.Node, op SetAvailability, now cluster.Time) NodeResult {
	spec := n.Spec
	spec.Availability = op.Availability
	spec.DrainDeadline, spec.DrainSince = 0, cluster.Time{}
	if op.Availability == cluster.Drain {
		spec.DrainDeadline, spec.DrainSince = op.DrainDeadline, now
		if n.Spec.Availability == cluster.Drain {
			spec.DrainSince = n.Spec.DrainSince
		}
	}
	if spec.Availability == n.Spec.Availability && spec.DrainDeadline == n.Spec.DrainDeadline {
		return NodeResult{Node: n}
	}
	return e.setNodeSpec(n, spec)
}

func (e *Engine) labelNode(op LabelNode) (any, error) {
	n, err := e.node(op.Node)
	if err != nil {
		return nil, err
	}
	if problems := cluster.ValidateLabels(op.Set); len(problems) > 0 {
		return nil, &OpError{Kind: Invalid, Message: "the labels are not valid", Problems: problems}
	}
	spec := n.Spec
	spec.Labels = relabelled(spec.Labels, op.Set, op.Remove)
	if len(spec.Labels) > max(cluster.MaxLabels, len(n.Spec.Labels)) {
		return nil, refused("remove what is not needed", "node %s would have %d labels; the limit is %d", n.Spec.Name, len(spec.Labels), cluster.MaxLabels)
	}
	if maps.Equal(spec.Labels, n.Spec.Labels) {
		return NodeResult{Node: n}, nil
	}
	return e.setNodeSpec(n, spec), nil
}

func (e *Engine) decommission(op Decommission) (any, error) {
	n, err := e.node(op.Node)
	if err != nil {
		return nil, err
	}
	if n.Spec.Decommissioned {
		return NodeResult{Node: n}, nil
	}
	if n.Status.State != cluster.NodeDown && !op.Force {
		return nil, refused("wait until it is down, drain it first, or use --force: its tasks may then run twice until its agent stops them",
			"node %s is %s, not down", n.Spec.Name, n.Status.State)
	}
	e.forgetCopy(n.ID)
	spec := n.Spec
	spec.Decommissioned = true
	return e.setNodeSpec(n, spec), nil
}

func (e *Engine) removeNode(op RemoveNode) (any, error) {
	n, err := e.node(op.Node)
	if err != nil {
		return nil, err
	}
	if !n.Spec.Decommissioned {
		return nil, refused("node decommission says that it never comes back", "node %s is not decommissioned", n.Spec.Name)
	}
	for t := range e.work.TasksOn(n.ID) {
		e.dirtyJobs[t.Job] = true
		if !t.Dead() {
			return nil, refused("try again in a moment", "task %s of node %s has not been declared gone yet", t.ID, n.Spec.Name)
		}
	}
	for _, t := range slices.Collect(e.work.TasksOn(n.ID)) {
		if len(e.touched) >= e.cfg.MaxChanges {
			return NodeResult{Node: n, Changed: true, More: true}, nil
		}
		e.apply(cluster.AuthorReconcile, cluster.RemoveTask{Task: t.ID})
	}
	e.forgetCopy(n.ID)
	e.setStalls(e.work.StallsOf(cluster.Subject{Kind: cluster.SubjectNode, ID: string(n.ID)}), nil)
	e.apply(cluster.AuthorOperator, cluster.RemoveNode{Node: n.ID})
	for name := range e.answered {
		e.dirtyJobs[name] = true
	}
	return NodeResult{Node: n, Changed: true}, nil
}

func (e *Engine) confirmDown(op ConfirmDown) (any, error) {
	var nodes []*cluster.Node
	for _, name := range op.Nodes {
		n, err := e.node(name)
		if err != nil {
			return nil, err
		}
		if n.Status.State != cluster.NodeSilent {
			return nil, refused("only a silent node can be confirmed to be down", "node %s is %s", name, n.Status.State)
		}
		nodes = append(nodes, n)
	}
	for _, n := range nodes {
		e.agents[n.ID].confirmed = true
		e.lookNow = true
	}
	return NodeResult{Changed: len(nodes) > 0}, nil
}
