package pluginhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/setpointd/setpoint/core/pluginhost/runner"
	"github.com/setpointd/setpoint/sdk"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// process is where a plugin runs: a *runner.Process that the host has started, or an attached one.
type process interface {
	Dispense(name string) (any, error)
	Version() int
	PID() int
	Digest() [32]byte // of the executable; zero if it is not known
	Ping(ctx context.Context) error
	Shutdown(ctx context.Context) error
	Stop(ctx context.Context, grace time.Duration, polite func(context.Context) error) error
	Done() <-chan struct{}
	Exit() runner.ExitStatus
}

// attachedTimeout is how long a plugin may take for an answer while somebody looks into it with a debugger.
const attachedTimeout = time.Hour

// errDetached ends the session of an attached plugin.
var errDetached = errors.New("the attached process is gone")

// attached is a plugin that somebody else has started. The host connects to it and goes away again; it never ends it.
type attached struct {
	at   sdk.Attachment
	conn *grpc.ClientConn
	once sync.Once
	done chan struct{}
}

// attach connects to a plugin that waits for it. The error is a *failure.
func attach(ctx context.Context, name string, at sdk.Attachment, limit time.Duration) (*attached, error) {
	if at.Protocol != sdk.ProtocolVersion {
		return nil, invalid("attach to plugin %s: it speaks protocol version %d, the host %d", name, at.Protocol, sdk.ProtocolVersion)
	}
	conn, err := grpc.NewClient("passthrough:///plugin", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dialKnown(ctx, at.Socket) }))
	if err != nil {
		return nil, unavailable("attach to plugin %s: %v", name, err)
	}
	a := &attached{at: at, conn: conn, done: make(chan struct{})}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := a.Ping(ctx); err != nil {
		a.leave()
		f := callFailure(fmt.Sprintf("attach to plugin %s at %s", name, at.Socket), err)
		return nil, f
	}
	return a, nil
}

// dialKnown connects to a socket on which this user or root listens.
func dialKnown(ctx context.Context, socket string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	uid, err := sdk.PeerUser(conn)
	if err == nil && uid != 0 && uid != os.Geteuid() {
		err = fmt.Errorf("user %d listens on %s, neither root nor user %d, who runs this program", uid, socket, os.Geteuid())
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

func (a *attached) Dispense(string) (any, error)   { return pluginv1.NewPluginClient(a.conn), nil }
func (a *attached) Version() int                   { return a.at.Protocol }
func (a *attached) PID() int                       { return a.at.PID }
func (a *attached) Digest() [32]byte               { return [32]byte{} }
func (a *attached) Done() <-chan struct{}          { return a.done }
func (a *attached) Exit() runner.ExitStatus        { return runner.ExitStatus{} }
func (a *attached) Shutdown(context.Context) error { return nil }

// Ping asks the plugin's health service.
func (a *attached) Ping(ctx context.Context) error {
	_, err := grpc_health_v1.NewHealthClient(a.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "plugin"}, grpc.WaitForReady(false))
	return err
}

// Stop goes away. The process goes on.
func (a *attached) Stop(context.Context, time.Duration, func(context.Context) error) error {
	a.leave()
	return nil
}

func (a *attached) leave() {
	a.once.Do(func() {
		_ = a.conn.Close()
		close(a.done)
	})
}

// Attach has a plugin that somebody else has started serve instead of the process that does, with an hour for each answer. When its session ends the host
// goes back to a process of its own. After an error nothing has changed. It fails with ErrUnknownPlugin.
func (h *Host) Attach(ctx context.Context, plugin string, at sdk.Attachment) error {
	s := h.supervisor(plugin)
	if s == nil {
		return unknown(plugin)
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	p := *s.settings()
	p.attach, p.Timeout, p.StartTimeout = &at, attachedTimeout, max(p.StartTimeout, defaultStartTimeout)
	ready, err := s.open(ctx, &p, func(*instance) {})
	if err != nil {
		return fmt.Errorf("attach to plugin %s: %w; nothing has changed", plugin, err)
	}
	if err := s.succeed(ctx, ready); err != nil {
		s.discard(ctx, ready)
		return fmt.Errorf("attach to plugin %s: %w; nothing has changed", plugin, err)
	}
	s.log.Info("plugin attached", "pid", at.PID, "socket", at.Socket)
	return nil
}

// Detach goes back to a process of the host's own, if the plugin is attached to that socket. It fails with ErrUnknownPlugin.
func (h *Host) Detach(ctx context.Context, plugin, socket string) error {
	s := h.supervisor(plugin)
	if s == nil {
		return unknown(plugin)
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	if socket == "" || s.attachedTo() != socket {
		return nil
	}
	ready, err := s.open(ctx, s.settings(), func(*instance) {})
	if err != nil {
		s.restart() // the usual way, with what it says of failures
		return fmt.Errorf("detach from plugin %s: %w", plugin, err)
	}
	if err := s.succeed(ctx, ready); err != nil {
		s.discard(ctx, ready)
		return fmt.Errorf("detach from plugin %s: %w", plugin, err)
	}
	s.log.Info("plugin detached", "socket", socket)
	return nil
}

// attachedTo returns the socket of the attached process that serves, or "".
func (s *supervisor) attachedTo() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serving == nil {
		return ""
	}
	return s.serving.attachedTo()
}

// attachedTo returns the socket of an attached process, or "".
func (i *instance) attachedTo() string {
	if a, ok := i.process.(*attached); ok {
		return a.at.Socket
	}
	return ""
}

// digest returns the hash of the executable in hex; "" if it is not known.
func (i *instance) digest() string {
	if i.attachedTo() != "" {
		return ""
	}
	return fmt.Sprintf("%x", i.process.Digest())
}

// WriteAttachment writes the file at AttachPath.
func WriteAttachment(path string, at sdk.Attachment) error {
	text, err := json.Marshal(at)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	scratch := path + ".new"
	if err := errors.Join(os.WriteFile(scratch, text, 0o600), os.Rename(scratch, path)); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
