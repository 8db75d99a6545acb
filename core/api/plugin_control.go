package api

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/engine"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// PluginOperator looks into plugins and replaces them. The plugins that it is asked about are configured, or were a moment ago.
type PluginOperator interface {
	// Inspect returns all that is known of a plugin, but for its view in lists.
	Inspect(name string) (*apiv1.GetPluginResponse, error)
	// Logs calls yield with the last lines that a plugin's processes wrote (negative: all that are kept), and with those that come if follow is set.
	Logs(ctx context.Context, name string, tail int, follow bool, yield func([]*apiv1.PluginLine) error) error
	// Reload replaces a plugin's process. What cannot serve is a *PluginError, and has changed nothing.
	Reload(ctx context.Context, name string) (*apiv1.ReloadPluginResponse, error)
	// Shadow compares a candidate with a plugin. A candidate that cannot be asked is a *PluginError.
	Shadow(ctx context.Context, req *apiv1.ShadowPluginRequest) (*apiv1.ShadowPluginResponse, error)
}

// PluginError is why a plugin's process could not be used.
type PluginError struct {
	Code    string // plugin_unavailable, plugin_timeout or plugin_invalid
	Message string
	Hint    string
	Err     error
}

// Error returns the message.
func (e *PluginError) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *PluginError) Unwrap() error { return e.Err }

// plugin refuses names of plugins that are not configured.
func (v *service) plugin(name string) (PluginOperator, error) {
	if v.opts.PluginOperator == nil {
		return nil, &engine.OpError{Kind: engine.Refused, Message: "this server runs no plugins"}
	}
	if !slices.ContainsFunc(v.opts.Plugins.Plugins(), func(p Plugin) bool { return p.Name == name }) {
		return nil, notFound("plugin", name, "plugin ls lists those that there are")
	}
	return v.opts.PluginOperator, nil
}

// GetPlugin returns all that is known of a plugin.
func (v *service) GetPlugin(_ context.Context, req *connect.Request[apiv1.GetPluginRequest]) (*connect.Response[apiv1.GetPluginResponse], error) {
	op, err := v.plugin(req.Msg.GetPlugin())
	if err != nil {
		return nil, err
	}
	out, err := op.Inspect(req.Msg.GetPlugin())
	if err != nil {
		return nil, err
	}
	for _, p := range v.plugins(v.view()) {
		if p.GetName() == req.Msg.GetPlugin() {
			out.Plugin = p
		}
	}
	return connect.NewResponse(out), nil
}

// PluginLogs sends what a plugin's processes wrote.
func (v *service) PluginLogs(ctx context.Context, req *connect.Request[apiv1.PluginLogsRequest], stream *connect.ServerStream[apiv1.PluginLogsResponse]) error {
	m := req.Msg
	op, err := v.plugin(m.GetPlugin())
	if err != nil {
		return err
	}
	// An empty message says that the stream stands: a plugin may write nothing for long.
	if err := stream.Send(&apiv1.PluginLogsResponse{}); err != nil {
		return err
	}
	return op.Logs(ctx, m.GetPlugin(), int(min(max(m.GetTail(), -1), 1<<20)), m.GetFollow(), func(lines []*apiv1.PluginLine) error {
		return stream.Send(&apiv1.PluginLogsResponse{Lines: lines})
	})
}

// ReloadPlugin replaces a plugin's process.
func (v *service) ReloadPlugin(ctx context.Context, req *connect.Request[apiv1.ReloadPluginRequest]) (*connect.Response[apiv1.ReloadPluginResponse], error) {
	op, err := v.plugin(req.Msg.GetPlugin())
	if err != nil {
		return nil, err
	}
	v.opts.Log.Info("plugin reload asked for", "plugin", req.Msg.GetPlugin(), "caller", author(ctx))
	out, err := op.Reload(ctx, req.Msg.GetPlugin())
	if err != nil {
		return nil, err
	}
	shorten(out.GetComparison(), 0)
	return connect.NewResponse(out), nil
}

// ShadowPlugin compares a candidate with a plugin.
func (v *service) ShadowPlugin(ctx context.Context, req *connect.Request[apiv1.ShadowPluginRequest]) (*connect.Response[apiv1.ShadowPluginResponse], error) {
	m := req.Msg
	op, err := v.plugin(m.GetPlugin())
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(m.GetPath()) {
		return nil, &engine.OpError{Kind: engine.Invalid, Message: fmt.Sprintf("the path %q is not absolute", m.GetPath()), Hint: "give the whole path of the candidate on the server's machine"}
	}
	v.opts.Log.Info("plugin shadow asked for", "plugin", m.GetPlugin(), "path", m.GetPath(), "caller", author(ctx))
	out, err := op.Shadow(ctx, m)
	if err != nil {
		return nil, err
	}
	shorten(out.GetComparison(), m.GetLimit())
	return connect.NewResponse(out), nil
}

const defaultDifferences = 1000 // that are listed

// shorten leaves out differences beyond the limit; how many there are in all is left.
func shorten(c *apiv1.PluginComparison, limit int32) {
	if limit <= 0 {
		limit = defaultDifferences
	}
	if c != nil {
		c.Differences = c.GetDifferences()[:min(len(c.GetDifferences()), int(limit))]
	}
}
