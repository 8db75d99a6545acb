package sdktest

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/setpointd/setpoint/sdk"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// Target is a plugin that can be run: Go code in this process, or a program in any language.
type Target interface {
	// Start begins a run of the plugin, which knows nothing of earlier ones. It returns once the plugin can be asked.
	Start(ctx context.Context) (Running, error)
}

// Running is one run of a plugin.
type Running interface {
	// Client is how the plugin is asked.
	Client() pluginv1.PluginClient
	// Ended is closed when the plugin has ended, or would have if it were a process of its own.
	Ended() <-chan struct{}
	// Kill ends the plugin at once, however it is. It may be called more than once.
	Kill()
}

// Go is a plugin that is run in this process, where the race detector and coverage see it; plugin is called for each run. It talks through the real protocol.
func Go(plugin func() sdk.Plugin) Target { return goTarget{plugin: plugin, log: hclog.NewNullLogger()} }

type goTarget struct {
	plugin func() sdk.Plugin
	log    hclog.Logger
}

// Start serves the plugin. The error is all that is wrong with its definition.
func (g goTarget) Start(context.Context) (Running, error) {
	ended := make(chan struct{})
	server, err := sdk.NewServer(g.plugin(), g.log, func() { close(ended) })
	if err != nil {
		return nil, err
	}
	return serve(server, ended)
}

// Server is a plugin that implements the protocol itself; make is called for each run. What it serves ends with the run only.
func Server(make func() pluginv1.PluginServer) Target { return serverTarget(make) }

type serverTarget func() pluginv1.PluginServer

// Start serves the plugin.
func (s serverTarget) Start(context.Context) (Running, error) { return serve(s(), nil) }

// inProcess is a plugin that is served in this process.
type inProcess struct {
	client pluginv1.PluginClient
	ended  chan struct{}
	kill   func()
}

func (p *inProcess) Client() pluginv1.PluginClient { return p.client }
func (p *inProcess) Ended() <-chan struct{}        { return p.ended }
func (p *inProcess) Kill()                         { p.kill() }

// serve serves a plugin over a connection in memory. ended may be nil: nobody says when the plugin would end.
func serve(server pluginv1.PluginServer, ended chan struct{}) (Running, error) {
	pipe := bufconn.Listen(1 << 20)
	g := grpc.NewServer(grpc.MaxRecvMsgSize(sdk.MaxReceiveBytes))
	pluginv1.RegisterPluginServer(g, server)
	dial := func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }
	conn, err := grpc.NewClient("passthrough:///plugin", grpc.WithContextDialer(dial),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(sdk.MaxReceiveBytes)))
	if err != nil {
		return nil, fmt.Errorf("connect to the plugin: %w", err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = g.Serve(pipe) })
	return &inProcess{
		client: pluginv1.NewPluginClient(conn), ended: ended,
		kill: sync.OnceFunc(func() {
			_ = conn.Close()
			g.Stop()
			serving.Wait()
		}),
	}, nil
}
