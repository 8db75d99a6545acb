package dispatch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/proto/setpoint/agent/v1/agentv1connect"
	"github.com/setpointd/setpoint/sdk/cluster"
	setpointv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/v1"
)

// served is a dispatcher behind TLS and HTTP/2, with an authority of its own.
type served struct {
	t         *testing.T
	engine    *fakeEngine
	authority *pki.Authority
	token     pki.Token
	url       string
	revoked   bool // all certificates are
}

type identityKey struct{}

func serve(t *testing.T, role pki.Role, records ...any) *served {
	t.Helper()
	authority, err := pki.NewAuthority(clusterID, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s := &served{t: t, engine: newFakeEngine(records...), authority: authority, token: pki.NewToken(authority.Fingerprint())}
	d, err := New(Options{
		Engine: s.engine, Tokens: fakeTokens{token: s.token, role: role}, Signer: authority, Log: hclog.NewNullLogger(),
		Issued: func(cert *x509.Certificate) (pki.Identity, error) {
			if s.revoked {
				return pki.Identity{}, pki.ErrRevoked
			}
			return pki.Authorities{Current: authority}.Issued(cert)
		},
		Identity: func(ctx context.Context) (pki.Identity, error) {
			return pki.PeerIdentity(ctx.Value(identityKey{}).(*tls.ConnectionState))
		},
		Authority: func(ctx context.Context) (pki.Fingerprint, error) {
			return pki.PeerAuthority(ctx.Value(identityKey{}).(*tls.ConnectionState))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.engine.commit = d.Committed
	path, handler := d.Handler()
	mux := http.NewServeMux()
	mux.Handle(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), identityKey{}, r.TLS)))
	}))
	pair, err := authority.Issue(time.Now(), pki.Identity{Role: pki.RoleServer, Name: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(mux)
	server.EnableHTTP2 = true
	server.TLS = pki.ServerTLS(pki.NewHolder(pair))
	server.StartTLS()
	s.url = server.URL
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v", err)
		}
		server.Close()
	})
	return s
}

func (s *served) client(config *tls.Config) agentv1connect.AgentServiceClient {
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	s.t.Cleanup(transport.CloseIdleConnections)
	return agentv1connect.NewAgentServiceClient(&http.Client{Transport: transport}, s.url)
}

// as returns a client with a certificate of the authority.
func (s *served) as(id pki.Identity) agentv1connect.AgentServiceClient {
	s.t.Helper()
	pair, err := s.authority.Issue(time.Now(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.client(pki.ClientTLS(pki.NewHolder(pair), s.authority.Certificate()))
}

// newRequest returns a signing request in DER, and its key in PEM.
func newRequest(t *testing.T) (der, key []byte) {
	t.Helper()
	request, key, err := pki.NewRequest()
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(request)
	return block.Bytes, key
}

func TestJoinThenConverse(t *testing.T) {
	s := serve(t, pki.RoleNode)
	s.engine.do = func(op engine.Op) (any, error) {
		join, ok := op.(engine.JoinNode)
		if !ok || join.Name != "worker" || join.Labels["disk"] != "ssd" || join.Description.OS != "linux" {
			t.Errorf("the engine was asked %+v", op)
		}
		n := readyNode(join.ID)
		n.Spec.Name = join.Name + "-2" // another node bears the name
		s.engine.turn([]any{n}, cluster.AddNode{Node: n})
		return engine.NodeResult{Node: n, Changed: true}, nil
	}
	der, key := newRequest(t)
	answer, err := s.client(pki.JoinTLS(s.token.Fingerprint)).Join(t.Context(), connect.NewRequest(&agentv1.JoinRequest{
		Token: s.token.Text(), CsrDer: der, Labels: map[string]string{"disk": "ssd"},
		Description: &setpointv1.NodeDescription{Hostname: "worker", Os: "linux"},
	}))
	if err != nil {
		t.Fatal(err)
	}
	m := answer.Msg
	pair, err := pki.NewPair(m.GetCertificatePem(), key)
	if err != nil {
		t.Fatal(err)
	}
	want := pki.Identity{ClusterID: clusterID, Role: pki.RoleNode, Name: "worker-2", NodeID: m.GetNodeId()}
	if got := pair.Identity(); got != want || m.GetClusterId() != clusterID || len(m.GetNodeId()) != 11 || m.GetNodeId()[0] != 'n' {
		t.Errorf("joined as %v with %v, want %v", got, m, want)
	}
	if string(m.GetCaPem()) != string(s.authority.CertificatePEM()) {
		t.Error("the answer does not have the authority's certificate")
	}

	client := s.client(pki.ClientTLS(pki.NewHolder(pair), s.authority.Certificate()))
	der, key = newRequest(t)
	renewed, err := client.Renew(t.Context(), connect.NewRequest(&agentv1.RenewRequest{CsrDer: der}))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := pki.NewPair(renewed.Msg.GetCertificatePem(), key); err != nil || again.Identity() != want {
		t.Errorf("renewed as %v, %v; want %v", again, err, want)
	}
	converseOverTLS(t, client)
}

func converseOverTLS(t *testing.T, client agentv1connect.AgentServiceClient) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn := client.Session(ctx)
	if err := conn.Send(&agentv1.FromAgent{Message: &agentv1.FromAgent_Hello{Hello: hello()}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []func(*agentv1.FromServer) bool{
		func(m *agentv1.FromServer) bool { return m.GetWelcome().GetNodeName() == "worker-2" },
		func(m *agentv1.FromServer) bool { return m.GetAssignments().GetFull() },
	} {
		m, err := conn.Receive()
		if err != nil || !want(m) {
			t.Fatalf("received %v, %v", m, err)
		}
	}
	if err := conn.CloseRequest(); err != nil {
		t.Error(err)
	}
	if _, err := conn.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("after hanging up: %v, want the end", err)
	}
	if err := conn.CloseResponse(); err != nil {
		t.Error(err)
	}
}

// A server that stops ends a session whose agent waits.
func TestStoppingEndsSessionsOverTLS(t *testing.T) {
	var conn *connect.BidiStreamForClient[agentv1.FromAgent, agentv1.FromServer]
	t.Run("server", func(t *testing.T) {
		s := serve(t, pki.RoleNode, readyNode("n1"))
		conn = s.as(pki.Identity{Role: pki.RoleNode, Name: "host", NodeID: "n1"}).Session(context.WithoutCancel(t.Context()))
		if err := conn.Send(&agentv1.FromAgent{Message: &agentv1.FromAgent_Hello{Hello: hello()}}); err != nil {
			t.Fatal(err)
		}
		if m, err := conn.Receive(); err != nil || m.GetWelcome() == nil {
			t.Fatalf("received %v, %v", m, err)
		}
	})
	for {
		_, err := conn.Receive()
		if err == nil {
			continue
		}
		if connect.CodeOf(err) != connect.CodeUnavailable || !strings.Contains(err.Error(), errStopping.Error()) {
			t.Errorf("the session ended with %v, want %v", err, errStopping)
		}
		return
	}
}

func TestJoinIsRefused(t *testing.T) {
	der, _ := newRequest(t)
	for name, test := range map[string]struct {
		role   pki.Role
		change func(*agentv1.JoinRequest)
		code   connect.Code
	}{
		"no token":      {pki.RoleNode, func(r *agentv1.JoinRequest) { r.Token = "" }, connect.CodeUnauthenticated},
		"another token": {pki.RoleNode, func(r *agentv1.JoinRequest) { r.Token = pki.NewToken(pki.Fingerprint{}).Text() }, connect.CodeUnauthenticated},
		"not for nodes": {pki.RoleAdmin, func(*agentv1.JoinRequest) {}, connect.CodePermissionDenied},
		"no request":    {pki.RoleNode, func(r *agentv1.JoinRequest) { r.CsrDer = nil }, connect.CodeInvalidArgument},
		"no name":       {pki.RoleNode, func(r *agentv1.JoinRequest) { r.Name = "" }, connect.CodeInvalidArgument},
		"refused":       {pki.RoleNode, func(*agentv1.JoinRequest) {}, connect.CodeFailedPrecondition},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, test.role)
			s.engine.do = func(engine.Op) (any, error) {
				if name != "refused" {
					t.Error("the engine was asked")
				}
				return nil, &engine.OpError{Kind: engine.Refused, Message: "the store is full"}
			}
			req := &agentv1.JoinRequest{Token: s.token.Text(), CsrDer: der, Name: "worker"}
			test.change(req)
			_, err := s.client(pki.JoinTLS(s.token.Fingerprint)).Join(t.Context(), connect.NewRequest(req))
			if connect.CodeOf(err) != test.code {
				t.Errorf("got %v, want code %v", err, test.code)
			}
			if strings.Contains(err.Error(), req.GetToken()) && req.GetToken() != "" {
				t.Error("the error repeats the token")
			}
		})
	}
}

func TestOnlyNodesHaveSessions(t *testing.T) {
	s := serve(t, pki.RoleNode, readyNode("n1"))
	for name, test := range map[string]struct {
		client agentv1connect.AgentServiceClient
		code   connect.Code
	}{
		"no certificate": {s.client(pki.ClientTLS(nil, s.authority.Certificate())), connect.CodeUnauthenticated},
		"admin":          {s.as(pki.Identity{Role: pki.RoleAdmin, Name: "root"}), connect.CodePermissionDenied},
	} {
		t.Run(name, func(t *testing.T) {
			conn := test.client.Session(t.Context())
			_ = conn.Send(&agentv1.FromAgent{Message: &agentv1.FromAgent_Hello{Hello: hello()}})
			if _, err := conn.Receive(); connect.CodeOf(err) != test.code {
				t.Errorf("session: got %v, want code %v", err, test.code)
			}
			if _, err := test.client.Renew(t.Context(), connect.NewRequest(&agentv1.RenewRequest{})); connect.CodeOf(err) != test.code {
				t.Errorf("renew: got %v, want code %v", err, test.code)
			}
		})
	}
	_, err := s.as(pki.Identity{Role: pki.RoleNode, Name: "old", NodeID: "n9"}).Renew(t.Context(), connect.NewRequest(&agentv1.RenewRequest{}))
	if connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("a node without a record renewed with %v, want code %v", err, connect.CodePermissionDenied)
	}
}
