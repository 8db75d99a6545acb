package api

import (
	"cmp"
	"context"
	"slices"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/engine"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
	"github.com/setpointd/setpoint/sdk/wire"
)

const listNodes = "node ls lists those that there are"

// uses returns what is reserved on each node and in pools, and the state in which it is.
func (v *service) uses(ctx context.Context) (engine.InspectResult, map[cluster.NodeID]*engine.NodeUse, error) {
	all, err := do[engine.InspectResult](ctx, v.opts.Engine, engine.Inspect{})
	if err != nil {
		return all, nil, err
	}
	out := make(map[cluster.NodeID]*engine.NodeUse, len(all.Nodes))
	for i := range all.Nodes {
		out[all.Nodes[i].Node] = &all.Nodes[i]
	}
	return all, out, nil
}

// setHolders says of a node which tasks reserve something there, and how full the pools are of which they have addresses.
func setHolders(v *apiv1.Node, all engine.InspectResult, n *cluster.Node) {
	named := make(map[string]bool)
	for t := range all.State.TasksOn(n.ID) {
		if t.Dead() {
			continue
		}
		view := taskView(all.State, t)
		v.Holders = append(v.Holders, &apiv1.Holder{
			Task: view.GetId(), Phase: view.GetPhase(), Reserves: wire.ResourcesToProto(t.Reserve.Resources), Ports: view.GetPorts(), Addresses: view.GetAddresses(),
		})
		for _, a := range t.Placement.Addresses {
			named[a.Pool] = true
		}
	}
	for _, p := range all.Pools {
		if named[p.Name] {
			v.Pools = append(v.Pools, &apiv1.Pool{Name: p.Name, Cidr: p.CIDR, Total: p.Total, Used: p.Used})
		}
	}
}

func portsTaken(ports map[uint16]cluster.TaskID) []*apiv1.Port {
	out := make([]*apiv1.Port, 0, len(ports))
	for number, task := range ports {
		out = append(out, &apiv1.Port{Name: string(task), Number: uint32(number)})
	}
	slices.SortFunc(out, func(a, b *apiv1.Port) int { return cmp.Compare(a.GetNumber(), b.GetNumber()) })
	return out
}

// ListNodes returns a page of nodes.
func (v *service) ListNodes(ctx context.Context, req *connect.Request[apiv1.ListNodesRequest]) (*connect.Response[apiv1.ListNodesResponse], error) {
	p, err := newPage(req.Msg.GetPageSize(), req.Msg.GetPageToken())
	if err != nil {
		return nil, err
	}
	all, uses, err := v.uses(ctx)
	if err != nil {
		return nil, err
	}
	state := all.State
	var rows []row[*cluster.Node]
	for n := range state.Nodes() {
		rows = append(rows, row[*cluster.Node]{string(n.ID), n})
	}
	nodes, next := cut(p, rows)
	out := &apiv1.ListNodesResponse{NextPageToken: next, Revision: uint64(state.Revision)}
	for _, n := range nodes {
		out.Nodes = append(out.Nodes, nodeView(state, n, uses[n.ID]))
	}
	return connect.NewResponse(out), nil
}

// GetNode returns one node.
func (v *service) GetNode(ctx context.Context, req *connect.Request[apiv1.GetNodeRequest]) (*connect.Response[apiv1.NodeResponse], error) {
	all, uses, err := v.uses(ctx)
	if err != nil {
		return nil, err
	}
	n := all.State.NodeNamed(req.Msg.GetNode())
	if n == nil {
		return nil, notFound("node", req.Msg.GetNode(), listNodes)
	}
	view := nodeView(all.State, n, uses[n.ID])
	setHolders(view, all, n)
	return connect.NewResponse(&apiv1.NodeResponse{Node: view}), nil
}

// node runs a command about a node.
func (v *service) node(ctx context.Context, op engine.Op) (*connect.Response[apiv1.NodeResponse], error) {
	r, err := do[engine.NodeResult](ctx, v.opts.Engine, op)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(v.nodeResponse(r)), nil
}

func (v *service) nodeResponse(r engine.NodeResult) *apiv1.NodeResponse {
	state, n := v.view(), r.Node
	if newest := state.Node(n.ID); newest != nil {
		n = newest
	}
	return &apiv1.NodeResponse{Node: nodeView(state, n, nil), Changed: r.Changed}
}

// SetAvailability activates, pauses or drains nodes.
func (v *service) SetAvailability(ctx context.Context, req *connect.Request[apiv1.SetAvailabilityRequest]) (*connect.Response[apiv1.SetAvailabilityResponse], error) {
	op, err := availabilityOp(req.Msg)
	if err != nil {
		return nil, err
	}
	results, err := do[[]engine.NodeResult](ctx, v.opts.Engine, op)
	if err != nil {
		return nil, err
	}
	out := &apiv1.SetAvailabilityResponse{}
	for _, r := range results {
		out.Nodes = append(out.Nodes, v.nodeResponse(r))
	}
	return connect.NewResponse(out), nil
}

func availabilityOp(m *apiv1.SetAvailabilityRequest) (engine.SetAvailability, error) {
	op := engine.SetAvailability{Nodes: m.GetNodes(), Availability: cluster.Availability(m.GetAvailability())}
	var err error
	if op.DrainDeadline, err = positive("drain_deadline", m.GetDrainDeadline()); err != nil {
		return op, err
	}
	if to := op.Availability; !slices.Contains([]cluster.Availability{cluster.Active, cluster.Pause, cluster.Drain}, to) {
		return op, invalid("the request", unknownWord("availability", string(to), string(cluster.Active), string(cluster.Pause), string(cluster.Drain)))
	}
	return op, nil
}

// LabelNode sets and removes labels, and says which running tasks that moves, as far as the filters can tell beforehand.
func (v *service) LabelNode(ctx context.Context, req *connect.Request[apiv1.LabelNodeRequest]) (*connect.Response[apiv1.NodeResponse], error) {
	m := req.Msg
	moves, err := v.wouldMove(ctx, engine.TrialLabels{Node: m.GetNode(), Set: m.GetSet(), Remove: m.GetRemove()})
	if err != nil {
		return nil, err
	}
	var out *connect.Response[apiv1.NodeResponse]
	if m.GetDryRun() {
		state := v.view()
		n := state.NodeNamed(m.GetNode())
		if n == nil {
			return nil, notFound("node", m.GetNode(), listNodes)
		}
		out = connect.NewResponse(&apiv1.NodeResponse{Node: nodeView(state, n, nil)})
	} else if out, err = v.node(ctx, engine.LabelNode{Node: m.GetNode(), Set: m.GetSet(), Remove: m.GetRemove()}); err != nil {
		return nil, err
	}
	out.Msg.Moves = moves
	return out, nil
}

// wouldMove has the filters judge a node as it would be. A filter that cannot answer moves nothing that could be told now.
func (v *service) wouldMove(ctx context.Context, op engine.TrialLabels) ([]string, error) {
	trial, err := do[engine.Trial](ctx, v.opts.Engine, op)
	if err != nil {
		return nil, err
	}
	var out []string
	for i := range trial.Filters {
		f := &trial.Filters[i]
		verdicts, err := v.opts.Plugins.Trial(ctx, f.Plugin, f.Classes, []engine.IndexedNode{trial.Node})
		if err != nil {
			v.opts.Log.Warn("filter did not answer a trial", "plugin", f.Plugin, "error", err)
			continue
		}
		for _, id := range f.Moves(trial.Node.Index, verdicts) {
			out = append(out, string(id))
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// DecommissionNode declares that a node never comes back.
func (v *service) DecommissionNode(ctx context.Context, req *connect.Request[apiv1.DecommissionNodeRequest]) (*connect.Response[apiv1.NodeResponse], error) {
	return v.node(ctx, engine.Decommission{Node: req.Msg.GetNode(), Force: req.Msg.GetForce()})
}

// RemoveNode drops the record of a decommissioned node.
func (v *service) RemoveNode(ctx context.Context, req *connect.Request[apiv1.RemoveNodeRequest]) (*connect.Response[apiv1.RemoveNodeResponse], error) {
	for more := true; more; {
		r, err := do[engine.NodeResult](ctx, v.opts.Engine, engine.RemoveNode{Node: req.Msg.GetNode()})
		if err != nil {
			return nil, err
		}
		more = r.More
	}
	return connect.NewResponse(&apiv1.RemoveNodeResponse{}), nil
}

// ConfirmDown says of silent nodes that they are down.
func (v *service) ConfirmDown(ctx context.Context, req *connect.Request[apiv1.ConfirmDownRequest]) (*connect.Response[apiv1.ConfirmDownResponse], error) {
	if _, err := v.opts.Engine.Do(ctx, author(ctx), engine.ConfirmDown{Nodes: req.Msg.GetNodes()}); err != nil {
		return nil, err
	}
	return connect.NewResponse(&apiv1.ConfirmDownResponse{}), nil
}
