package dispatch

import (
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

const clusterID = "c1"

var (
	_ Engine = (*engine.Engine)(nil)
	_ Signer = (*pki.Authority)(nil)
)

// fakeEngine commits what a test tells it to, and keeps what it was sent.
type fakeEngine struct {
	commit func(engine.Turn)
	do     func(op engine.Op) (any, error)

	mu      sync.Mutex // guards what follows
	state   *engine.State
	records []any
	inputs  []engine.Input
}

func newFakeEngine(records ...any) *fakeEngine {
	e := &fakeEngine{commit: func(engine.Turn) {}, records: records}
	e.state = engine.Assemble(clusterID, 1, cluster.Time{}, records...)
	return e
}

func (e *fakeEngine) Do(_ context.Context, _ string, op engine.Op) (any, error) { return e.do(op) }

func (e *fakeEngine) Send(_ context.Context, in engine.Input) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.inputs = append(e.inputs, in)
	return nil
}

func (e *fakeEngine) View() *engine.State {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state
}

// turn commits a state made of the given records, reached by the given changes.
func (e *fakeEngine) turn(records []any, changes ...cluster.Change) {
	e.mu.Lock()
	before := e.state
	e.state = engine.Assemble(clusterID, before.Revision+1, cluster.Time{}, records...)
	turn := engine.Turn{Before: before, State: e.state}
	e.mu.Unlock()
	for _, c := range changes {
		turn.Changes = append(turn.Changes, engine.Authored{By: c.Owner(), Change: c})
	}
	e.commit(turn)
}

// taken returns the inputs of one type, and forgets all others.
func taken[T engine.Input](e *fakeEngine) []T {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []T
	for _, in := range e.inputs {
		if in, ok := in.(T); ok {
			out = append(out, in)
		}
	}
	e.inputs = nil
	return out
}

// fakeTokens knows one token.
type fakeTokens struct {
	token pki.Token
	role  pki.Role
}

func (t fakeTokens) Verify(_ context.Context, token pki.Token) (pki.Role, error) {
	if !t.token.Hash().Matches(token) {
		return "", pki.ErrTokenRefused
	}
	return t.role, nil
}

// fakeSigner signs nothing; tests that join use a real authority.
type fakeSigner struct{ fingerprint pki.Fingerprint }

func (fakeSigner) Sign(time.Time, pki.Identity, []byte) ([]byte, error) {
	return nil, io.ErrUnexpectedEOF
}
func (fakeSigner) CertificatePEM() []byte         { return nil }
func (s fakeSigner) Fingerprint() pki.Fingerprint { return s.fingerprint }

func newDispatcher(t *testing.T, e *fakeEngine) *Dispatcher {
	t.Helper()
	d, err := New(Options{
		Engine: e, Tokens: fakeTokens{}, Signer: fakeSigner{}, Log: hclog.NewNullLogger(), Authority: nobodysAuthority, Issued: pki.Authorities{}.Issued,
		Identity: func(context.Context) (pki.Identity, error) { return pki.Identity{}, pki.ErrNoCertificate },
	})
	if err != nil {
		t.Fatal(err)
	}
	e.commit = d.Committed
	return d
}

func nobodysAuthority(context.Context) (pki.Fingerprint, error) {
	return pki.Fingerprint{}, pki.ErrNoCertificate
}

// agent is the other end of a session.
type agent struct {
	t      *testing.T
	up     chan *agentv1.FromAgent
	down   chan *agentv1.FromServer
	gone   chan struct{} // closed when the handler returned, which ends a read as it does over HTTP/2
	result error
}

// dial begins a session of a node with a dispatcher and greets it.
func dial(t *testing.T, d *Dispatcher, node cluster.NodeID, hello *agentv1.Hello) *agent {
	t.Helper()
	return dialWith(t, d, node, pki.Fingerprint{}, hello)
}

// dialWith does so with a certificate of an authority.
func dialWith(t *testing.T, d *Dispatcher, node cluster.NodeID, authority pki.Fingerprint, hello *agentv1.Hello) *agent {
	t.Helper()
	a := &agent{t: t, up: make(chan *agentv1.FromAgent), down: make(chan *agentv1.FromServer), gone: make(chan struct{})}
	go func() {
		a.result = d.converse(t.Context(), node, authority, a)
		close(a.gone)
	}()
	a.send(&agentv1.FromAgent{Message: &agentv1.FromAgent_Hello{Hello: hello}})
	return a
}

func (a *agent) Send(m *agentv1.FromServer) error {
	select {
	case a.down <- m:
		return nil
	case <-a.gone:
		return io.ErrClosedPipe
	}
}

func (a *agent) Receive() (*agentv1.FromAgent, error) {
	select {
	case m, ok := <-a.up:
		if !ok {
			return nil, io.EOF
		}
		return m, nil
	case <-a.gone:
		return nil, io.ErrClosedPipe
	}
}

func (a *agent) send(m *agentv1.FromAgent) {
	a.t.Helper()
	select {
	case a.up <- m:
	case <-a.gone:
		a.t.Fatalf("the session has ended: %v", a.result)
	}
}

func (a *agent) report(r *agentv1.Report) {
	a.t.Helper()
	a.send(&agentv1.FromAgent{Message: &agentv1.FromAgent_Report{Report: r}})
}

// next returns the next message.
func (a *agent) next() *agentv1.FromServer {
	a.t.Helper()
	select {
	case m := <-a.down:
		return m
	case <-a.gone:
		a.t.Fatalf("the session has ended: %v", a.result)
	case <-time.After(time.Minute):
		a.t.Fatal("no message in a minute")
	}
	return nil
}

// assignments returns the next message, which is one of assignments with the given number.
func (a *agent) assignments(number uint64) *agentv1.Assignments {
	a.t.Helper()
	m := a.next()
	if m.GetAssignments().GetNumber() != number {
		a.t.Fatalf("got %v, want assignments %d", m, number)
	}
	return m.GetAssignments()
}

// welcome takes the messages that begin a session and returns the full set.
func (a *agent) welcome() *agentv1.Assignments {
	a.t.Helper()
	if m := a.next(); m.GetWelcome() == nil {
		a.t.Fatalf("got %v, want Welcome", m)
	}
	full := a.assignments(1)
	if !full.GetFull() {
		a.t.Fatalf("got %v, want a full set", full)
	}
	return full
}

// hangUp ends the session from the agent's side and returns its result.
func (a *agent) hangUp() error {
	close(a.up)
	<-a.gone
	return a.result
}

func readyNode(id cluster.NodeID) *cluster.Node {
	return &cluster.Node{
		ID: id, Spec: cluster.NodeSpec{Name: "host-" + string(id), Availability: cluster.Active},
		Status: cluster.NodeStatus{State: cluster.NodeReady},
	}
}

func webJob() *cluster.Job {
	spec := cluster.JobSpec{Name: "web", Task: cluster.TaskSpec{Driver: "process", Command: []string{"/srv/web"}}}
	return &cluster.Job{Name: "web", CreatedRev: 1, Control: cluster.JobControl{
		Spec: spec, Version: 1, SpecVersion: 1, Versions: []cluster.JobVersion{{Version: 1, SpecVersion: 1, Spec: spec}},
	}}
}

func placedTask(id cluster.TaskID, node cluster.NodeID) *cluster.Task {
	job, slot, rev, err := id.Parts()
	if err != nil {
		panic(err)
	}
	return &cluster.Task{
		ID: id, Job: job, Slot: slot, CreatedRev: rev, JobVersion: 1, SpecVersion: 1,
		Desired:   cluster.Desired{State: cluster.DesiredRunning, Grace: -1},
		Placement: cluster.Placement{Node: node, Ports: []cluster.PortGrant{{Name: "http", Number: 8080}}},
	}
}

// with returns a copy of a record, changed.
func with[T any](r *T, change func(*T)) *T {
	c := *r
	change(&c)
	return &c
}
