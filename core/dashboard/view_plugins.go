package dashboard

import (
	"context"

	"connectrpc.com/connect"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// plugins returns all that is known of each plugin.
func (d *Dashboard) plugins(ctx context.Context, s *session) ([]*apiv1.GetPluginResponse, error) {
	return d.board.plugins.get(d.board.revision(), func() ([]*apiv1.GetPluginResponse, error) {
		list, err := s.api.ListPlugins(ctx, connect.NewRequest(&apiv1.ListPluginsRequest{}))
		if err != nil {
			return nil, err
		}
		var out []*apiv1.GetPluginResponse
		for _, p := range list.Msg.GetPlugins() {
			one, err := s.api.GetPlugin(ctx, connect.NewRequest(&apiv1.GetPluginRequest{Plugin: p.GetName()}))
			if err != nil {
				one = connect.NewResponse(&apiv1.GetPluginResponse{Plugin: p})
			}
			out = append(out, one.Msg)
		}
		return out, nil
	})
}

func (d *Dashboard) pluginsView(a *ask) (*view, error) {
	return &view{title: "Plugins", tab: "plugins", frame: "plugins.html", regions: func(ctx context.Context) ([]region, error) {
		all, err := d.plugins(ctx, a.session)
		return []region{{"plugins", "plugintable.html", all}}, err
	}}, nil
}

func (d *Dashboard) pluginView(a *ask) (*view, error) {
	name := a.PathValue("name")
	find := func(ctx context.Context) (*apiv1.GetPluginResponse, error) {
		all, err := d.plugins(ctx, a.session)
		if err != nil {
			return nil, err
		}
		for _, p := range all {
			if p.GetPlugin().GetName() == name {
				return p, nil
			}
		}
		return nil, notFound("plugin", name)
	}
	if _, err := find(a.Context()); err != nil {
		return nil, err
	}
	return &view{title: name, tab: "plugins", frame: "plugin.html", fixed: name, regions: func(ctx context.Context) ([]region, error) {
		p, err := find(ctx)
		return []region{{"plugin", "plugindetail.html", p}}, err
	}}, nil
}
