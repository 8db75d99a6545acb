package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

const (
	// DebugFlag, as a plugin's argument, has it wait for a daemon to attach instead of being started by one.
	DebugFlag = "--debug"
	// DebugEnv does the same where arguments cannot be given, if it is 1.
	DebugEnv = "SETPOINT_PLUGIN_DEBUG"
	// ReattachEnv is how a plugin that waits names itself: on its standard output, as one line that a shell understands.
	ReattachEnv = "SETPOINT_REATTACH_PLUGINS"
	// healthName is the service that hosts ask about.
	healthName = "plugin"
)

// Attachment is how a daemon reaches a plugin that it did not start.
type Attachment struct {
	Socket   string `json:"socket"` // path of a unix socket
	PID      int    `json:"pid"`
	Protocol int    `json:"protocol"` // version
}

// Reattach returns the line with which a plugin of that name says how to attach to it.
func (a Attachment) Reattach(plugin string) string {
	text, err := json.Marshal(map[string]Attachment{plugin: a})
	if err != nil {
		panic(fmt.Sprintf("setpoint: write an attachment: %v", err)) // it has strings and numbers only
	}
	return ReattachEnv + "='" + string(text) + "'"
}

// ParseReattach reads the value of ReattachEnv: attachments by the name of the plugin.
func ParseReattach(value string) (map[string]Attachment, error) {
	var out map[string]Attachment
	if err := json.Unmarshal([]byte(value), &out); err != nil {
		return nil, fmt.Errorf("read %s: %w", ReattachEnv, err)
	}
	for name, a := range out {
		if !filepath.IsAbs(a.Socket) {
			return nil, fmt.Errorf("read %s: the socket of %s, %q, is no absolute path", ReattachEnv, name, a.Socket)
		}
	}
	return out, nil
}

// DebugServer serves a plugin to whichever daemon of the same user, or of root, attaches to it, one after another. Its socket is in a directory that only that
// user may enter, and each side checks who the other is; there is no TLS.
type DebugServer struct {
	dir      string
	listener net.Listener
}

// ListenDebug begins to listen, in a directory of its own below dir, or below the system's for temporary files if dir is empty.
func ListenDebug(dir string) (*DebugServer, error) {
	own, err := os.MkdirTemp(dir, "setpoint-debug-") // of mode 0700
	if err != nil {
		return nil, fmt.Errorf("make a directory for the socket: %w", err)
	}
	l, err := net.Listen("unix", filepath.Join(own, "plugin.sock"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen: %w", err), os.RemoveAll(own))
	}
	return &DebugServer{dir: own, listener: l}, nil
}

// Attachment says how to reach the server.
func (d *DebugServer) Attachment() Attachment {
	return Attachment{Socket: d.listener.Addr().String(), PID: os.Getpid(), Protocol: ProtocolVersion}
}

// Serve serves a plugin until ctx ends, and removes the socket then. A daemon cannot end it: it only goes away.
func (d *DebugServer) Serve(ctx context.Context, plugin pluginv1.PluginServer) error {
	defer func() { _ = os.RemoveAll(d.dir) }()
	g := grpc.NewServer(serverOptions()...)
	pluginv1.RegisterPluginServer(g, unstoppable{plugin})
	healthy := health.NewServer()
	healthy.SetServingStatus(healthName, grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(g, healthy)
	defer context.AfterFunc(ctx, g.Stop)()
	if err := g.Serve(&knownPeers{d.listener}); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// unstoppable is a plugin that does not end when it is told to.
type unstoppable struct{ pluginv1.PluginServer }

// Stop does nothing.
func (unstoppable) Stop(context.Context, *pluginv1.StopRequest) (*pluginv1.StopResponse, error) {
	return &pluginv1.StopResponse{}, nil
}

// knownPeers is a listener that takes connections of this user and of root only.
type knownPeers struct{ net.Listener }

// Accept waits for somebody who may connect.
func (k *knownPeers) Accept() (net.Conn, error) {
	for {
		conn, err := k.Listener.Accept()
		if err != nil {
			return nil, err
		}
		uid, err := PeerUser(conn)
		if err == nil && (uid == 0 || uid == os.Geteuid()) {
			return conn, nil
		}
		_ = conn.Close()
	}
}

// debugging reports whether the plugin is to wait for a daemon to attach.
func debugging(args []string) bool {
	return len(args) == 2 && args[1] == DebugFlag || os.Getenv(DebugEnv) == "1"
}

// serveDebug waits for daemons until it is interrupted.
func serveDebug(name string, server *Server) error {
	d, err := ListenDebug("")
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	fmt.Println(d.Attachment().Reattach(name))
	return d.Serve(ctx, server)
}
