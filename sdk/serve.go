package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/encoding/protojson"

	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

const (
	// ProtocolVersion is the version of the plugin protocol. It changes only when the two sides cannot understand each other otherwise.
	ProtocolVersion = 1
	// PluginKey names the plugin in go-plugin's sets.
	PluginKey = "setpoint"
	// LifelineEnv names the variable that tells a plugin which descriptor is its lifeline: the read end of a pipe whose other end only the daemon holds. End
	// of file there means that the daemon is gone and the plugin must end too.
	LifelineEnv = "SETPOINT_PLUGIN_LIFELINE_FD"
	// MaxReceiveBytes is how large a message a plugin takes.
	MaxReceiveBytes = 64 << 20
)

// Handshake returns what both sides show each other before anything else. It keeps people from starting a plugin by hand and is no secret.
func Handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{
		ProtocolVersion: ProtocolVersion, MagicCookieKey: "SETPOINT_PLUGIN", MagicCookieValue: "e4d1a1f0-setpoint-plugin",
	}
}

func protocolError(what string) error { return fmt.Errorf("%w: %s", ErrProtocol, what) }

// Client is go-plugin's side of the daemon: dispensed under PluginKey, it is a pluginv1.PluginClient.
type Client struct{ plugin.NetRPCUnsupportedPlugin }

// GRPCServer is for plugins only.
func (Client) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error {
	return errors.New("the daemon serves no plugin")
}

// GRPCClient returns the client of the plugin protocol, as NewClient makes it.
func (Client) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return NewClient(conn), nil
}

// served is go-plugin's side of the plugin.
type served struct {
	plugin.NetRPCUnsupportedPlugin
	server *Server
}

// GRPCServer registers the plugin.
func (s served) GRPCServer(_ *plugin.GRPCBroker, g *grpc.Server) error {
	pluginv1.RegisterPluginServer(g, s.server)
	return nil
}

// GRPCClient is for the daemon only.
func (served) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("a plugin has no client")
}

// Serve runs the plugin until its daemon ends it or is gone. It is the last call of a plugin's main. A plugin whose definition is wrong, or that was started
// by hand, says so on standard error and exits with status 1; started by hand with the argument "describe" it prints what it is, as JSON,
// and with "--debug" it waits for a daemon to attach to it, and says how on standard output.
func Serve(p Plugin) {
	log := hclog.New(&hclog.LoggerOptions{Name: p.Name, Level: hclog.Trace, Output: os.Stderr, JSONFormat: !debugging(os.Args)})
	var grpcServer *grpc.Server
	server, err := NewServer(p, log, func() { shutDown(grpcServer) })
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if len(os.Args) == 2 && os.Args[1] == "describe" {
		describe(server)
		return
	}
	if debugging(os.Args) {
		if err := serveDebug(p.Name, server); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if err := holdLifeline(os.Getenv(LifelineEnv), func() { os.Exit(0) }); err != nil {
		log.Error("lifeline is unusable", "error", err)
		os.Exit(1)
	}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: Handshake(),
		Plugins:         plugin.PluginSet{PluginKey: served{server: server}},
		Logger:          log,
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			grpcServer = grpc.NewServer(append(opts, serverOptions()...)...)
			return grpcServer
		},
	})
}

// serverOptions raise what grpc allows to what the protocol needs.
func serverOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(MaxReceiveBytes),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
	}
}

// shutDown ends the server after what it is answering, at most a second later.
func shutDown(g *grpc.Server) {
	timer := time.AfterFunc(time.Second, g.Stop)
	defer timer.Stop()
	g.GracefulStop()
}

// describe prints what the plugin is.
func describe(s *Server) {
	resp, err := s.Describe(context.Background(), nil)
	if err == nil {
		fmt.Println(protojson.MarshalOptions{Multiline: true, UseProtoNames: true}.Format(resp))
	}
}

// holdLifeline calls gone when the pipe ends. Without a descriptor it does nothing.
func holdLifeline(descriptor string, gone func()) error {
	if descriptor == "" {
		return nil
	}
	fd, err := strconv.ParseUint(descriptor, 10, 31)
	if err != nil {
		return fmt.Errorf("%s=%q: want the number of a descriptor", LifelineEnv, descriptor)
	}
	pipe := os.NewFile(uintptr(fd), "lifeline")
	info, err := pipe.Stat()
	if err != nil {
		return fmt.Errorf("lifeline descriptor %d: %w", fd, err)
	}
	if info.Mode()&os.ModeNamedPipe == 0 {
		return fmt.Errorf("lifeline descriptor %d is %s, not a pipe", fd, info.Mode())
	}
	syscall.CloseOnExec(int(fd)) // a child of the plugin's would hold it open otherwise
	go func() {
		_, _ = io.Copy(io.Discard, pipe)
		gone()
	}()
	return nil
}
