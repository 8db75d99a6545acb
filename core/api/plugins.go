package api

import (
	"context"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/engine"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// ListPlugins returns the plugins.
func (v *service) ListPlugins(_ context.Context, req *connect.Request[apiv1.ListPluginsRequest]) (*connect.Response[apiv1.ListPluginsResponse], error) {
	p, err := newPage(req.Msg.GetPageSize(), req.Msg.GetPageToken())
	if err != nil {
		return nil, err
	}
	var rows []row[*apiv1.Plugin]
	for _, x := range v.plugins(v.view()) {
		rows = append(rows, row[*apiv1.Plugin]{x.GetName(), x})
	}
	out := &apiv1.ListPluginsResponse{}
	out.Plugins, out.NextPageToken = cut(p, rows)
	return connect.NewResponse(out), nil
}

func (v *service) plugins(s *engine.State) []*apiv1.Plugin {
	var out []*apiv1.Plugin
	for _, p := range v.opts.Plugins.Plugins() {
		view := &apiv1.Plugin{
			Name: p.Name, Version: p.Version, State: p.State, Pid: int64(p.PID), Restarts: int64(p.Restarts), Interfaces: p.Interfaces,
			JobTypes: p.JobTypes, Message: p.Message, Since: wallTimestamp(p.Since),
		}
		for _, stall := range s.StallsOf(cluster.Subject{Kind: cluster.SubjectPlugin, ID: p.Name}) {
			view.Stalls = append(view.Stalls, stallView(s, stall))
		}
		out = append(out, view)
	}
	return out
}

// ConfirmPlugin accepts first answers of a plugin that would stop many tasks.
func (v *service) ConfirmPlugin(ctx context.Context, req *connect.Request[apiv1.ConfirmPluginRequest]) (*connect.Response[apiv1.ConfirmPluginResponse], error) {
	if _, err := v.opts.Engine.Do(ctx, author(ctx), engine.ConfirmPlugin{Plugin: req.Msg.GetPlugin()}); err != nil {
		return nil, err
	}
	return connect.NewResponse(&apiv1.ConfirmPluginResponse{}), nil
}

// GetStatus returns how the server and its cluster are.
func (v *service) GetStatus(context.Context, *connect.Request[apiv1.GetStatusRequest]) (*connect.Response[apiv1.GetStatusResponse], error) {
	s := v.view()
	out := &apiv1.GetStatusResponse{
		ClusterId: s.ClusterID, Version: v.opts.Version, Pid: int64(v.opts.PID), Started: wallTimestamp(v.opts.Started),
		Revision: uint64(s.Revision), Ready: true, Nodes: make(map[string]int64), Tasks: make(map[string]int64), Plugins: v.plugins(s),
	}
	if err := v.opts.Ready(); err != nil {
		out.Ready, out.NotReady = false, err.Error()
	}
	for n := range s.Nodes() {
		if n.Spec.Decommissioned {
			out.Nodes["decommissioned"]++
			continue
		}
		out.Nodes[string(n.Status.State)]++
		addIf(&out.NodesDraining, n.Spec.Availability == cluster.Drain)
		addIf(&out.NodesPaused, n.Spec.Availability == cluster.Pause)
	}
	for phase, n := range s.Phases() {
		out.Tasks[string(phase)] = int64(n)
	}
	_, jobs, _, _ := s.Counts()
	out.Jobs, out.Stalls = int64(jobs), int64(len(allStalls(s)))
	return connect.NewResponse(out), nil
}
