package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/pki"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/proto/setpoint/agent/v1/agentv1connect"
	"github.com/setpointd/setpoint/sdk/cluster"
	setpointv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/v1"
	"github.com/setpointd/setpoint/sdk/wire"
)

const (
	clusterID = "c1"
	nodeID    = "n1"
	// deadline is how long a test waits for what must happen.
	deadline = 30 * time.Second
)

// server plays the server's side of the protocol, over TLS and HTTP/2; what it says is scripted by the test.
type server struct {
	t         *testing.T
	authority *pki.Authority
	token     pki.Token
	address   string
	sessions  chan *talk // each one that began

	mu      sync.Mutex // guards what follows
	joins   []*agentv1.JoinRequest
	joinErr error
	rejoins []*agentv1.RejoinRequest
	leave   string // what who joins again is told
	renewed int
	ahead   time.Duration // of the clock by which certificates are issued
	cluster string        // that the welcome names
	beat    time.Duration // that the welcome names
	later   time.Duration // that answers to heartbeats name; 0: none
	mute    bool          // heartbeats are not answered
}

// talk is one session as the server has it.
type talk struct {
	t      *testing.T
	stream *connect.BidiStream[agentv1.FromAgent, agentv1.FromServer]
	hello  *agentv1.Hello
	server *server
	end    chan error // what the handler returns

	mu       sync.Mutex // guards what follows, and sending
	changed  chan struct{}
	reports  []*agentv1.Report
	status   map[string]*agentv1.TaskStatus
	history  map[string][]cluster.ObservedState
	strays   []string
	descs    []*agentv1.Description
	logs     map[uint64][]*agentv1.Logs
	execs    map[uint64][]*agentv1.ExecOutput
	beats    int
	number   uint64
	closed   error // why nothing comes any more
	over     bool  // the handler returns: nothing can be sent any more
	complete bool
}

func newServer(t *testing.T) *server {
	t.Helper()
	authority, err := pki.NewAuthority(clusterID, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s := &server{
		t: t, authority: authority, token: pki.NewToken(authority.Fingerprint()), sessions: make(chan *talk, 16), cluster: clusterID,
		beat: 200 * time.Millisecond,
	}
	s.address = s.listen("127.0.0.1:0")
	return s
}

type connKey struct{}

// listen serves at an address until the test ends, and returns it.
func (s *server) listen(address string) string {
	path, handler := agentv1connect.NewAgentServiceHandler(s)
	mux := http.NewServeMux()
	mux.Handle(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), connKey{}, r.TLS)))
	}))
	pair, err := s.authority.Issue(time.Now(), pki.Identity{Role: pki.RoleServer, Name: "s1"})
	if err != nil {
		s.t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(mux)
	if err := web.Listener.Close(); err != nil {
		s.t.Fatal(err)
	}
	if web.Listener, err = net.Listen("tcp", address); err != nil {
		s.t.Fatal(err)
	}
	web.EnableHTTP2 = true
	web.TLS = pki.ServerTLS(pki.NewHolder(pair))
	web.StartTLS()
	s.t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return strings.TrimPrefix(web.URL, "https://")
}

func (s *server) set(change func(*server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *server) get() (cluster string, beat time.Duration, mute bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cluster, s.beat, s.mute
}

// period is what answers to heartbeats name.
func (s *server) period() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.later
}

func (s *server) sign(name string, csr []byte) (*connect.Error, []byte) {
	s.mu.Lock()
	ahead := s.ahead
	s.mu.Unlock()
	request := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr})
	certificate, err := s.authority.Sign(time.Now().Add(ahead), pki.Identity{Role: pki.RoleNode, Name: name, NodeID: nodeID}, request)
	if err != nil {
		return connect.NewError(connect.CodeInvalidArgument, err), nil
	}
	return nil, certificate
}

func (s *server) Join(_ context.Context, req *connect.Request[agentv1.JoinRequest]) (*connect.Response[agentv1.JoinResponse], error) {
	s.mu.Lock()
	s.joins = append(s.joins, req.Msg)
	refusal := s.joinErr
	s.mu.Unlock()
	if refusal != nil {
		return nil, refusal
	}
	if token, err := pki.ParseToken(req.Msg.GetToken()); err != nil || !s.token.Hash().Matches(token) {
		return nil, connect.NewError(connect.CodeUnauthenticated, pki.ErrTokenRefused)
	}
	problem, certificate := s.sign(req.Msg.GetName(), req.Msg.GetCsrDer())
	if problem != nil {
		return nil, problem
	}
	return connect.NewResponse(&agentv1.JoinResponse{
		ClusterId: clusterID, NodeId: nodeID, CertificatePem: certificate, CaPem: s.authority.CertificatePEM(),
	}), nil
}

func (s *server) Rejoin(_ context.Context, req *connect.Request[agentv1.RejoinRequest]) (*connect.Response[agentv1.RejoinResponse], error) {
	s.mu.Lock()
	s.rejoins = append(s.rejoins, req.Msg)
	leave := s.leave
	s.mu.Unlock()
	m := req.Msg
	cert, err := x509.ParseCertificate(m.GetCertificateDer())
	if err == nil {
		_, err = pki.Authorities{Current: s.authority}.Issued(cert)
	}
	if err == nil {
		err = pki.CheckProof(cert, m.GetCsrDer(), m.GetProof())
	}
	token, tokenErr := pki.ParseToken(m.GetToken())
	if err != nil || tokenErr != nil || !s.token.Hash().Matches(token) {
		return nil, connect.NewError(connect.CodeUnauthenticated, errors.Join(err, tokenErr, pki.ErrTokenRefused))
	}
	if leave != "" {
		return connect.NewResponse(&agentv1.RejoinResponse{Leave: leave}), nil
	}
	problem, certificate := s.sign("renamed", m.GetCsrDer())
	if problem != nil {
		return nil, problem
	}
	return connect.NewResponse(&agentv1.RejoinResponse{CertificatePem: certificate, CaPem: s.authority.CertificatePEM()}), nil
}

func (s *server) Renew(ctx context.Context, req *connect.Request[agentv1.RenewRequest]) (*connect.Response[agentv1.RenewResponse], error) {
	id, err := pki.PeerIdentity(ctx.Value(connKey{}).(*tls.ConnectionState))
	if err != nil {
		return nil, connect.NewError(connect.CodeUnauthenticated, err)
	}
	problem, certificate := s.sign(id.Name, req.Msg.GetCsrDer())
	if problem != nil {
		return nil, problem
	}
	s.set(func(s *server) { s.renewed++ })
	return connect.NewResponse(&agentv1.RenewResponse{CertificatePem: certificate, CaPem: s.authority.CertificatePEM()}), nil
}

func (s *server) Session(ctx context.Context, stream *connect.BidiStream[agentv1.FromAgent, agentv1.FromServer]) error {
	if _, err := pki.PeerIdentity(ctx.Value(connKey{}).(*tls.ConnectionState)); err != nil {
		return connect.NewError(connect.CodeUnauthenticated, err)
	}
	m, err := stream.Receive()
	if err != nil {
		return err
	}
	c := &talk{
		t: s.t, stream: stream, hello: m.GetHello(), server: s, end: make(chan error, 1), changed: make(chan struct{}),
		status: make(map[string]*agentv1.TaskStatus), history: make(map[string][]cluster.ObservedState), logs: make(map[uint64][]*agentv1.Logs), execs: make(map[uint64][]*agentv1.ExecOutput),
	}
	if c.hello == nil {
		return connect.NewError(connect.CodeInvalidArgument, errors.New("no hello"))
	}
	name, beat, _ := s.get()
	c.send(&agentv1.FromServer{Message: &agentv1.FromServer_Welcome{Welcome: &agentv1.Welcome{
		ClusterId: name, NodeName: "worker", HeartbeatNs: int64(beat),
	}}})
	s.sessions <- c
	received := make(chan struct{})
	go func() { // ends when the handler has returned, which ends a read that waits
		defer close(received)
		for c.receive() {
		}
	}()
	defer func() {
		c.mu.Lock()
		c.over = true
		c.mu.Unlock()
	}()
	select {
	case err := <-c.end:
		return err
	case <-received:
		return nil
	}
}

func (c *talk) send(m *agentv1.FromServer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	_ = c.stream.Send(m) // if the agent is gone, the test finds out by what does not come
}

func (c *talk) receive() bool {
	m, err := c.stream.Receive()
	c.mu.Lock()
	defer func() {
		close(c.changed)
		c.changed = make(chan struct{})
		c.mu.Unlock()
	}()
	if err != nil {
		c.closed = err
		return false
	}
	switch m := m.GetMessage().(type) {
	case *agentv1.FromAgent_Report:
		c.take(m.Report)
		if c.over {
			return false
		}
		_ = c.stream.Send(&agentv1.FromServer{Message: &agentv1.FromServer_Ack{Ack: &agentv1.ReportAck{Number: m.Report.GetNumber()}}})
	case *agentv1.FromAgent_Heartbeat:
		c.beats++
		if _, _, mute := c.server.get(); !mute && !c.over {
			beat := &agentv1.Heartbeat{PeriodNs: int64(c.server.period())}
			_ = c.stream.Send(&agentv1.FromServer{Message: &agentv1.FromServer_Heartbeat{Heartbeat: beat}})
		}
	case *agentv1.FromAgent_Description:
		c.descs = append(c.descs, m.Description)
	case *agentv1.FromAgent_Logs:
		c.logs[m.Logs.GetRequest()] = append(c.logs[m.Logs.GetRequest()], m.Logs)
	case *agentv1.FromAgent_Exec:
		c.execs[m.Exec.GetRequest()] = append(c.execs[m.Exec.GetRequest()], m.Exec)
	default:
		c.t.Errorf("the agent said %T", m)
	}
	return true
}

func (c *talk) take(r *agentv1.Report) {
	if want := uint64(len(c.reports) + 1); r.GetNumber() != want {
		c.t.Errorf("report %d came as the %dth", r.GetNumber(), want)
	}
	if r.GetFull() == c.complete {
		c.t.Errorf("report %d: full is %v after the full report was complete: %v", r.GetNumber(), r.GetFull(), c.complete)
	}
	if len(r.GetTasks()) > maxReport {
		c.t.Errorf("report %d tells of %d tasks", r.GetNumber(), len(r.GetTasks()))
	}
	c.complete = c.complete || r.GetFull() && !r.GetMore()
	c.reports = append(c.reports, r)
	c.strays = r.GetStrays()
	for _, s := range r.GetTasks() {
		have := c.history[s.GetTask()]
		now := cluster.ObservedState(s.GetState())
		if len(have) > 0 && now < have[len(have)-1] {
			c.t.Errorf("task %s went back from %s to %s", s.GetTask(), have[len(have)-1], now)
		}
		c.history[s.GetTask()] = append(have, now)
		c.status[s.GetTask()] = s
	}
}

// await waits until a condition holds; what describes it for the failure.
func (c *talk) await(what string, holds func() bool) {
	c.t.Helper()
	timeout := time.After(deadline)
	for {
		c.mu.Lock()
		ok, changed, closed := holds(), c.changed, c.closed
		c.mu.Unlock()
		if ok {
			return
		}
		if closed != nil {
			c.t.Fatalf("%s: the session ended: %v; statuses: %v", what, closed, c.status)
		}
		select {
		case <-changed:
		case <-timeout:
			c.t.Fatalf("%s: did not happen; statuses: %v strays: %v", what, c.status, c.strays)
		}
	}
}

// state waits until a task is observed in a state, and returns its status.
func (c *talk) state(task string, want cluster.ObservedState) *agentv1.TaskStatus {
	c.t.Helper()
	c.await(task+" "+want.String(), func() bool { return cluster.ObservedState(c.status[task].GetState()) == want })
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status[task]
}

// complete waits for the full report and returns the tasks that it names.
func (c *talk) fullReport() map[string]*agentv1.TaskStatus {
	c.t.Helper()
	c.await("full report", func() bool { return c.complete })
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[string]*agentv1.TaskStatus)
	for _, r := range c.reports {
		for _, s := range r.GetTasks() {
			if r.GetFull() {
				out[s.GetTask()] = s
			}
		}
	}
	return out
}

// ended waits until the agent or the network ended the session.
func (c *talk) ended() {
	c.t.Helper()
	timeout := time.After(deadline)
	for {
		c.mu.Lock()
		changed, closed := c.changed, c.closed
		c.mu.Unlock()
		if closed != nil {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			c.t.Fatal("the session goes on")
		}
	}
}

func (c *talk) assignments(m *agentv1.Assignments) {
	c.mu.Lock()
	c.number++
	m.Number = c.number
	c.mu.Unlock()
	c.send(&agentv1.FromServer{Message: &agentv1.FromServer_Assignments{Assignments: m}})
}

func (c *talk) full(revision uint64, upsert ...*agentv1.Assignment) {
	c.assignments(&agentv1.Assignments{Full: true, Revision: revision, Upsert: upsert})
}

func (c *talk) change(revision uint64, upsert ...*agentv1.Assignment) {
	c.assignments(&agentv1.Assignments{Revision: revision, Upsert: upsert})
}

func (c *talk) remove(revision uint64, tasks ...string) {
	c.assignments(&agentv1.Assignments{Revision: revision, Remove: tasks})
}

// session waits for the next session.
func (s *server) session() *talk {
	s.t.Helper()
	select {
	case c := <-s.sessions:
		return c
	case <-time.After(deadline):
		s.t.Fatal("no session began")
		return nil
	}
}

// wanted is an assignment of a task of the sim driver that should run.
func wanted(task string, settings map[string]string) *agentv1.Assignment {
	job, slot, _, err := cluster.TaskID(task).Parts()
	if err != nil {
		panic(err)
	}
	return &agentv1.Assignment{
		Task: task, Job: job, Slot: string(slot), Desired: uint32(cluster.DesiredRunning), GraceNs: -1, Start: true,
		Spec: specOf(cluster.TaskSpec{Driver: "sim", Config: settings, Stop: cluster.StopSpec{Signal: "TERM", Grace: 10 * time.Second}}),
	}
}

func specOf(s cluster.TaskSpec) *setpointv1.TaskSpec { return wire.TaskSpecToProto(&s) }

// unwanted is an assignment to stop a task.
func unwanted(task string, grace time.Duration, observed cluster.ObservedState) *agentv1.Assignment {
	job, slot, _, err := cluster.TaskID(task).Parts()
	if err != nil {
		panic(err)
	}
	return &agentv1.Assignment{
		Task: task, Job: job, Slot: string(slot), Desired: uint32(cluster.DesiredShutdown), GraceNs: int64(grace), Observed: uint32(observed),
	}
}
