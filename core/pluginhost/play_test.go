package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/setpointd/setpoint/plugins/constraint"
	"github.com/setpointd/setpoint/plugins/drain"
	"github.com/setpointd/setpoint/plugins/global"
	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// play makes this process a plugin.
func play(mode string) {
	switch mode {
	case constraint.Name:
		sdk.Serve(constraint.New())
	case drain.Name:
		sdk.Serve(drain.New())
	case global.Name:
		sdk.Serve(global.New())
	case "pool":
		sdk.Serve(poolPlugin("pool"))
	case "keeper":
		p := drain.New()
		p.Drainer = keeper{}
		sdk.Serve(p)
	case "contrary", "mute", "evictor":
		p := constraint.New()
		p.Version, p.Filter = "9.9.9", otherFilter{p.Filter, mode}
		sdk.Serve(p)
	case "deaf":
		plugin.Serve(&plugin.ServeConfig{
			HandshakeConfig: sdk.Handshake(), Plugins: plugin.PluginSet{sdk.PluginKey: rawPlugin{server: &liar{say: func(pluginv1.Plugin_SessionServer) error { select {} }}}},
			GRPCServer: plugin.DefaultGRPCServer,
		})
	case "liar":
		plugin.Serve(&plugin.ServeConfig{
			HandshakeConfig: sdk.Handshake(), Plugins: plugin.PluginSet{sdk.PluginKey: rawPlugin{server: &liar{say: sayAhead}}},
			GRPCServer: plugin.DefaultGRPCServer,
		})
	case "old":
		h := sdk.Handshake()
		h.ProtocolVersion = 99
		plugin.Serve(&plugin.ServeConfig{
			HandshakeConfig: h, Plugins: plugin.PluginSet{sdk.PluginKey: rawPlugin{server: &liar{}}}, GRPCServer: plugin.DefaultGRPCServer,
		})
	case "crash":
		fmt.Fprintln(os.Stderr, "no licence found")
		os.Exit(3)
	}
}

// otherFilter is a filter that refuses node n2 besides, or one that never answers where the constraints name an ssd.
type otherFilter struct {
	sdk.Filter
	mode string
}

func (f otherFilter) Compile(ctx context.Context, req sdk.CompileRequest) (sdk.Matcher, error) {
	if f.mode == "mute" && strings.Contains(string(req.Settings), "ssd") {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	m, err := f.Filter.Compile(ctx, req)
	if m == nil || err != nil || f.mode == "mute" {
		return m, err
	}
	return otherMatcher{m, f.mode == "evictor"}, nil
}

// keeper is a drainer that keeps everything.
type keeper struct{}

func (keeper) Drain(_ context.Context, req sdk.DrainRequest) (sdk.DrainResponse, error) {
	var out sdk.DrainResponse
	for _, t := range req.Tasks {
		out.Keep = append(out.Keep, sdk.Kept{Task: t.ID, Why: sdk.NewStall("precious", "it is precious")})
	}
	return out, nil
}

type otherMatcher struct {
	sdk.Matcher
	evicts bool
}

func (m otherMatcher) Match(n *cluster.Node) error {
	if n.Spec.Name == "n2" {
		return &sdk.Stall{Code: "full_moon", Detail: "moon is full", Evicts: m.evicts}
	}
	return m.Matcher.Match(n)
}

// poolSettings is what a job says to the pool plugin.
type poolSettings struct {
	Pool string   `setpoint:"pool,required"`
	Also []string `setpoint:"also"`
}

// poolFilter lets tasks run on the nodes of a pool, in ways that the pool's name says.
type poolFilter struct{}

func poolPlugin(name string) sdk.Plugin {
	return sdk.Plugin{
		Name: name, Version: "1.2.3", Filter: poolFilter{}, Drainer: poolFilter{}, JobTypes: map[string]sdk.JobType{"pools": poolFilter{}},
		Config: sdk.SchemaOf[struct {
			Pools []string `setpoint:"pools"`
		}](),
		Job: sdk.SchemaOf[poolSettings](), Watches: []sdk.Watch{sdk.WatchLabels},
	}
}

func (poolFilter) ValidateConfig(_ context.Context, req sdk.ConfigureRequest) error {
	var c struct {
		Pools []string `setpoint:"pools"`
	}
	if err := req.Config.Decode(&c); err != nil {
		return err
	}
	var d sdk.Diagnostics
	for i, p := range c.Pools {
		if p == "mars" {
			d.Add(sdk.At("pools").Index(i), "Unknown pool", "There is no pool on Mars.")
		}
	}
	return d.Err()
}

func (f poolFilter) Configure(ctx context.Context, req sdk.ConfigureRequest) error {
	return f.ValidateConfig(ctx, req)
}

func (poolFilter) Validate(_ context.Context, req sdk.CompileRequest) error {
	var s poolSettings
	if err := req.Settings.Decode(&s); err != nil {
		return err
	}
	var d sdk.Diagnostics
	for i, p := range s.Also {
		if p == "mars" {
			d.Add(sdk.At("also").Index(i), "Unknown pool", "There is no pool on Mars.")
		}
	}
	return d.Err()
}

func (poolFilter) Compile(ctx context.Context, req sdk.CompileRequest) (sdk.Matcher, error) {
	if req.Settings == "" {
		return nil, nil
	}
	var s poolSettings
	if err := req.Settings.Decode(&s); err != nil {
		return nil, err
	}
	switch s.Pool {
	case "never":
		select {} // not even when its time is over
	case "fails":
		return nil, errors.New("pool service is away")
	case "nowhere":
		return nil, sdk.NewStall("no_pool", "there is no pool %q", s.Pool)
	}
	return poolMatcher(s.Pool), nil
}

type poolMatcher string

func (m poolMatcher) Match(n *cluster.Node) error {
	if n.Spec.Labels["pool"] == string(m) {
		return nil
	}
	return &sdk.Stall{Code: "other_pool", Detail: "pool is not " + string(m), Evicts: true}
}

func (poolFilter) Drain(_ context.Context, req sdk.DrainRequest) (sdk.DrainResponse, error) {
	var out sdk.DrainResponse
	for _, t := range req.Tasks {
		if t.Job == "kept" {
			out.Keep = append(out.Keep, sdk.Kept{Task: t.ID, Why: sdk.NewStall("precious", "it is precious")})
			continue
		}
		out.Transitions = append(out.Transitions, sdk.Transition{Task: t.ID, Reason: "node drains"})
	}
	return out, nil
}

func (poolFilter) Slots(_ context.Context, req sdk.SlotsRequest) (sdk.SlotsResponse, error) {
	var out sdk.SlotsResponse
	for _, n := range req.Nodes {
		out.Slots = append(out.Slots, sdk.Slot{Key: cluster.SlotKey("on-" + n.Spec.Name), Nodes: []cluster.NodeID{n.ID}})
	}
	return out, nil
}

// rawPlugin serves the protocol without the SDK.
type rawPlugin struct {
	plugin.NetRPCUnsupportedPlugin
	server pluginv1.PluginServer
}

func (p rawPlugin) GRPCServer(_ *plugin.GRPCBroker, g *grpc.Server) error {
	pluginv1.RegisterPluginServer(g, p.server)
	return nil
}

func (rawPlugin) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("a plugin has no client")
}

// liar speaks the protocol as say says, once it is ready.
type liar struct {
	pluginv1.UnimplementedPluginServer
	say func(st pluginv1.Plugin_SessionServer) error
}

func (*liar) Describe(context.Context, *pluginv1.DescribeRequest) (*pluginv1.DescribeResponse, error) {
	return &pluginv1.DescribeResponse{Name: "liar", Version: "0", Protocol: 1, Interfaces: []string{sdk.InterfaceFilter}}, nil
}

func (*liar) Configure(context.Context, *pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error) {
	return &pluginv1.ConfigureResponse{}, nil
}

func (l *liar) Session(st pluginv1.Plugin_SessionServer) error {
	if _, err := st.Recv(); err != nil {
		return err
	}
	if err := st.Send(&pluginv1.FromPlugin{Message: &pluginv1.FromPlugin_Ready{Ready: &pluginv1.Ready{Protocol: 1}}}); err != nil {
		return err
	}
	return l.say(st)
}

// sayAhead claims to have applied what it was never told of.
func sayAhead(st pluginv1.Plugin_SessionServer) error {
	for {
		if _, err := st.Recv(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := st.Send(&pluginv1.FromPlugin{Message: &pluginv1.FromPlugin_Applied{Applied: &pluginv1.Applied{Revision: 1000}}}); err != nil {
			return err
		}
	}
}
