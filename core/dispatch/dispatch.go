package dispatch

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	"github.com/setpointd/setpoint/proto/setpoint/agent/v1/agentv1connect"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Engine is what the package needs of the engine.
type Engine interface {
	// Do runs a command and returns its result after the commit. A refusal is an *engine.OpError.
	Do(ctx context.Context, by string, op engine.Op) (any, error)
	// Send hands over an input; it blocks while the queue is full.
	Send(ctx context.Context, in engine.Input) error
	// View returns the newest committed state.
	View() *engine.State
}

// Tokens knows the tokens with which machines join.
type Tokens interface {
	// Verify returns what the bearer of a token becomes. The error is pki.ErrTokenRefused or pki.ErrTokenExpired for a token that does not
	// serve.
	Verify(ctx context.Context, token pki.Token) (pki.Role, error)
}

// Signer issues certificates; *pki.Authority is one.
type Signer interface {
	Sign(now time.Time, id pki.Identity, request []byte) ([]byte, error)
	CertificatePEM() []byte
	Fingerprint() pki.Fingerprint
}

// Options are what a Dispatcher needs. All fields but the last three are required.
type Options struct {
	Engine   Engine
	Identity func(context.Context) (pki.Identity, error) // who calls; pki.ErrNoCertificate if the caller showed none
	Tokens   Tokens
	Signer   Signer
	Log      hclog.Logger

	Authority func(context.Context) (pki.Fingerprint, error) // by which the caller's certificate was verified
	// Issued says to whom an authority of the cluster issued a certificate, whether or not its time has ended. The errors are pki.ErrNotIssued and pki.ErrRevoked.
	Issued func(cert *x509.Certificate) (pki.Identity, error)

	Secrets Secrets // nil: there are none, and tasks that need some are rejected

	Heartbeat func() time.Duration // how often the server wants to hear of an agent now; nil: every 2 s
	Gather    time.Duration        // how long heartbeats are gathered into one input; 0: 100 ms
}

// Dispatcher keeps the sessions with agents.
type Dispatcher struct {
	opts  Options
	tasks sync.WaitGroup // of sessions: their handlers and what these started

	mu       sync.Mutex // guards what follows
	closed   bool
	next     uint64 // number of the newest session
	sessions map[cluster.NodeID]*session
	heard    map[cluster.NodeID]struct{} // since the last AgentsHeard
	ahead    map[cluster.NodeID]string   // nodes that have seen a newer revision than the state had, and what is to be said of it
}

// New returns a dispatcher without sessions.
func New(opts Options) (*Dispatcher, error) {
	if opts.Engine == nil || opts.Identity == nil || opts.Tokens == nil || opts.Signer == nil || opts.Log == nil || opts.Authority == nil || opts.Issued == nil {
		return nil, errors.New("make dispatcher: an option is missing")
	}
	if opts.Heartbeat == nil {
		opts.Heartbeat = func() time.Duration { return 2 * time.Second }
	}
	if opts.Gather <= 0 {
		opts.Gather = 100 * time.Millisecond
	}
	return &Dispatcher{
		opts:     opts,
		sessions: make(map[cluster.NodeID]*session),
		heard:    make(map[cluster.NodeID]struct{}),
		ahead:    make(map[cluster.NodeID]string),
	}, nil
}

// Handler returns the path below which agents are served, and what serves them.
func (d *Dispatcher) Handler(opts ...connect.HandlerOption) (string, http.Handler) {
	return agentv1connect.NewAgentServiceHandler(&service{d}, opts...)
}

// service keeps the calls of agents apart from what the daemon calls.
type service struct{ d *Dispatcher }

// Run passes on what is gathered, until the context ends; then it ends every session, refuses new ones and waits for what they had
// started. A send to an agent that does not read ends with its connection, so the HTTP server is stopped meanwhile, not after. Run returns
// early, with the error, if the engine takes no inputs any more.
func (d *Dispatcher) Run(ctx context.Context) error {
	defer d.close()
	tick := time.NewTicker(d.opts.Gather)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := d.flush(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

// flush tells the engine of which nodes something was heard. What is heard while the engine's queue is full is gathered for the next time.
func (d *Dispatcher) flush(ctx context.Context) error {
	d.mu.Lock()
	nodes := make([]cluster.NodeID, 0, len(d.heard))
	for id := range d.heard {
		nodes = append(nodes, id)
	}
	clear(d.heard)
	d.mu.Unlock()
	if len(nodes) == 0 {
		return nil
	}
	return d.opts.Engine.Send(ctx, engine.AgentsHeard{Nodes: nodes})
}

func (d *Dispatcher) close() {
	d.mu.Lock()
	d.closed = true
	for _, s := range d.sessions {
		s.end(errStopping)
	}
	d.mu.Unlock()
	d.tasks.Wait()
}

// begin registers a session as the newest of its node and ends the one before. Another process with the node's certificate is refused as long as the one before is
// heard: two machines that run one node's tasks would run them twice. Each one that began is given to forget when it has ended.
func (d *Dispatcher) begin(s *session) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errStopping
	}
	if old := d.sessions[s.node]; old != nil {
		if s.process != old.process && d.hears(old) {
			return errTaken
		}
		old.end(errSuperseded)
	}
	s.heard = time.Now()
	d.tasks.Add(1)
	d.next++
	s.number = d.next
	d.sessions[s.node] = s
	return nil
}

// forget drops a session, unless a newer one of the node took its place.
func (d *Dispatcher) forget(s *session) {
	defer d.tasks.Done()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sessions[s.node] == s {
		delete(d.sessions, s.node)
	}
}

// hear notes that something came from a session's agent. A session that is not the node's newest says nothing of it.
func (d *Dispatcher) hear(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sessions[s.node] == s {
		d.heard[s.node] = struct{}{}
		s.heard = time.Now()
	}
}

// hears reports whether the agent of a session is still there. The caller holds the lock.
func (d *Dispatcher) hears(s *session) bool { return time.Since(s.heard) < 2*d.opts.Heartbeat() }

// session returns the newest session of a node, or nil.
func (d *Dispatcher) session(node cluster.NodeID) *session {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sessions[node]
}

// Sessions returns how many agents are connected.
func (d *Dispatcher) Sessions() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.sessions)
}

// Connected reports whether a node's agent has a session with this server.
func (d *Dispatcher) Connected(node cluster.NodeID) bool { return d.session(node) != nil }
