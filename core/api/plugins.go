package api

import (
	"context"
	"slices"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// ListPlugins returns the plugins.
func (v *service) ListPlugins(context.Context, *connect.Request[apiv1.ListPluginsRequest]) (*connect.Response[apiv1.ListPluginsResponse], error) {
	return connect.NewResponse(&apiv1.ListPluginsResponse{Plugins: v.plugins(v.view())}), nil
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
	for t := range s.Tasks() {
		out.Tasks[string(cluster.PhaseOf(t, s.Node(t.Placement.Node), len(s.TaskStalls(t)) > 0))]++
	}
	_, jobs, _, _ := s.Counts()
	out.Jobs, out.Stalls = int64(jobs), int64(len(allStalls(s)))
	return connect.NewResponse(out), nil
}

// CreateToken makes a join token.
func (v *service) CreateToken(ctx context.Context, req *connect.Request[apiv1.CreateTokenRequest]) (*connect.Response[apiv1.CreateTokenResponse], error) {
	lifetime, err := positive("lifetime", req.Msg.GetLifetime())
	if err != nil {
		return nil, err
	}
	role := pki.RoleNode
	if req.Msg.GetRole() != "" && req.Msg.GetRole() != string(role) {
		return nil, invalid("the request", unknownWord("role", req.Msg.GetRole(), string(role)))
	}
	token, stored, err := v.opts.Tokens.Create(ctx, role, lifetime)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&apiv1.CreateTokenResponse{Token: tokenView(stored), Text: token.Text()}), nil
}

// ListTokens returns the tokens that were made and not revoked, oldest first.
func (v *service) ListTokens(ctx context.Context, _ *connect.Request[apiv1.ListTokensRequest]) (*connect.Response[apiv1.ListTokensResponse], error) {
	stored, err := v.opts.Tokens.List(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(stored, func(a, b pki.StoredToken) int { return a.Created.Compare(b.Created) })
	out := &apiv1.ListTokensResponse{}
	for _, t := range stored {
		out.Tokens = append(out.Tokens, tokenView(t))
	}
	return connect.NewResponse(out), nil
}

// RevokeToken makes a token useless. Machines that joined with it stay.
func (v *service) RevokeToken(ctx context.Context, req *connect.Request[apiv1.RevokeTokenRequest]) (*connect.Response[apiv1.RevokeTokenResponse], error) {
	stored, err := v.opts.Tokens.List(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(stored, func(t pki.StoredToken) bool { return tokenID(t) == req.Msg.GetId() })
	if i < 0 {
		return nil, notFound("token", req.Msg.GetId(), "token ls lists those that there are")
	}
	if err := v.opts.Tokens.Revoke(ctx, stored[i].Hash); err != nil {
		return nil, err
	}
	return connect.NewResponse(&apiv1.RevokeTokenResponse{}), nil
}

func tokenView(t pki.StoredToken) *apiv1.Token {
	return &apiv1.Token{Id: tokenID(t), Role: string(t.Role), Created: wallTimestamp(t.Created), Expires: wallTimestamp(t.Expires)}
}

// tokenID returns the beginning of what is stored of a token: enough to name it, of no use to join with.
func tokenID(t pki.StoredToken) string {
	text, _ := t.Hash.MarshalText()
	return string(text[:12])
}
