package runner

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

const (
	maxTermWait = 2 * time.Second // between SIGTERM and SIGKILL at most
	killWait    = 5 * time.Second // after SIGKILL, before a process counts as stuck in the kernel
)

// Process is a plugin that has answered. It ends only once: a restart is a new Process.
type Process struct {
	child   *child
	rpc     *plugin.GRPCClient
	version int
	log     hclog.Logger
	done    chan struct{}
}

// Conn is the connection to the plugin. It is closed by the time Done is.
func (p *Process) Conn() *grpc.ClientConn { return p.rpc.Conn }

// Dispense returns the client of the plugin type with that name in the negotiated version's plugin set.
func (p *Process) Dispense(name string) (any, error) { return p.rpc.Dispense(name) }

// Version is the protocol version that both sides speak.
func (p *Process) Version() int { return p.version }

// PID is the process id, which is also its process group.
func (p *Process) PID() int { return p.child.pid() }

// Digest is the sha256 of the executable that runs.
func (p *Process) Digest() [32]byte { return p.child.exe.digest }

// Confined is what is in force of the process.
func (p *Process) Confined() Confined {
	p.child.mu.Lock()
	defer p.child.mu.Unlock()
	return p.child.confined
}

// StderrTail returns the last lines on stderr, 40 at most, escaped for display.
func (p *Process) StderrTail() []string { return p.child.out.stderrTail() }

// Done is closed when the process has ended, by itself or not, and nothing of it is left: no group member, pipe, socket or
// goroutine.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit says how the process ended. Before Done is closed it is the zero value.
func (p *Process) Exit() ExitStatus {
	select {
	case <-p.done:
		return p.child.exitStatus()
	default:
		return ExitStatus{}
	}
}

// Ping asks the plugin's health service, for as long as ctx allows.
func (p *Process) Ping(ctx context.Context) error {
	if err := ping(ctx, p.rpc.Conn); err != nil {
		return fmt.Errorf("ping plugin %s: %w", p.child.command.Name, err)
	}
	return nil
}

// Shutdown asks the plugin through go-plugin's own service to end. It cuts calls that are under way, so whatever the plugin
// should finish first must be asked for before.
func (p *Process) Shutdown(ctx context.Context) error {
	err := p.rpc.Conn.Invoke(ctx, "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{})
	if err != nil && status.Code(err) != codes.Unavailable { // it cuts this call too
		return fmt.Errorf("ask plugin %s to shut down: %w", p.child.command.Name, err)
	}
	return nil
}

// Stop ends the process: polite (which may be nil) asks it to, for at most grace; then the process group gets SIGTERM, with 2 s or
// grace to follow, whichever is less; then SIGKILL. If polite fails, or ctx ends, the next step begins at once; a lost connection
// (codes.Unavailable) does not count as failing. Stop returns when Done is closed, or ErrStillAlive if the process survives
// SIGKILL for 5 s. It may be called more than once.
func (p *Process) Stop(ctx context.Context, grace time.Duration, polite func(context.Context) error) error {
	p.child.expectExit()
	by := p.stop(ctx, grace, polite)
	timer := time.NewTimer(killWait)
	defer timer.Stop()
	select {
	case <-p.done:
		p.log.Debug("plugin stopped", "by", by)
		return nil
	case <-timer.C:
		return fmt.Errorf("stop plugin %s (pid %d): %w", p.child.command.Name, p.PID(), ErrStillAlive)
	}
}

func (p *Process) stop(ctx context.Context, grace time.Duration, polite func(context.Context) error) (by string) {
	if polite != nil && p.askToEnd(ctx, grace, polite) {
		return "request"
	}
	// A frozen process cannot see SIGTERM before it goes on.
	p.child.signal(unix.SIGTERM)
	p.child.signal(unix.SIGCONT)
	term, cancel := context.WithTimeout(ctx, min(grace, maxTermWait))
	defer cancel()
	select {
	case <-p.child.done:
		return "SIGTERM"
	case <-term.Done():
	}
	p.child.kill()
	return "SIGKILL"
}

// askToEnd calls polite and reports whether the process ended within grace.
func (p *Process) askToEnd(ctx context.Context, grace time.Duration, polite func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	answer := make(chan error, 1) // buffered: a polite that ignores its context is not waited for
	go func() { answer <- polite(ctx) }()
	for {
		select {
		case <-p.child.done:
			return true
		case <-ctx.Done():
			return false
		case err := <-answer:
			// A plugin that ends may take its answer with it: a lost connection is no refusal.
			if err != nil && status.Code(err) != codes.Unavailable {
				p.log.Warn("plugin refused to stop", "error", err)
				return false
			}
			answer = nil
		}
	}
}

// watch cleans up after the process has ended.
func (p *Process) watch(cleanUp func()) {
	<-p.child.done
	_ = p.rpc.Close()
	cleanUp()
	exit := p.child.exitStatus()
	level := hclog.Warn
	if exit.Requested {
		level = hclog.Info
	}
	p.log.Log(level, "plugin process ended", "how", exit.String(), "requested", exit.Requested)
	close(p.done)
}

// connections are those that go-plugin dialled. It drops the connection without closing it when its first calls fail, so they are
// caught as they pass.
type connections struct {
	mu    sync.Mutex // guards conns
	conns map[*grpc.ClientConn]struct{}
}

func (c *connections) capture(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	streamer grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	c.mu.Lock()
	if c.conns == nil {
		c.conns = make(map[*grpc.ClientConn]struct{})
	}
	c.conns[cc] = struct{}{}
	c.mu.Unlock()
	return streamer(ctx, desc, cc, method, opts...)
}

func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for cc := range c.conns {
		_ = cc.Close()
	}
}
