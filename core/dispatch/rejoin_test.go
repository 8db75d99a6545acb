package dispatch

import (
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/pki"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// expired returns what node n1 got when it joined so long ago that it serves no more. The authority is as old.
func (s *served) expired(t *testing.T) *pki.Pair {
	t.Helper()
	pair, err := s.authority.Issue(time.Now().Add(-2*pki.Validity), pki.Identity{Role: pki.RoleNode, Name: "old-name", NodeID: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	if !pair.Expired(time.Now()) {
		t.Fatal("the certificate has not expired")
	}
	return pair
}

// rejoining returns a request of the holder of a pair, and the key that it made.
func (s *served) rejoining(t *testing.T, pair *pki.Pair) (req *agentv1.RejoinRequest, key []byte) {
	t.Helper()
	der, key := newRequest(t)
	req = &agentv1.RejoinRequest{Token: s.token.Text(), CsrDer: der, SeenRevision: 1}
	prove(t, req, pair)
	return req, key
}

// prove makes a request that of the holder of a pair.
func prove(t *testing.T, req *agentv1.RejoinRequest, pair *pki.Pair) {
	t.Helper()
	proof, err := pair.Prove(req.GetCsrDer())
	if err != nil {
		t.Fatal(err)
	}
	req.CertificateDer, req.Proof, req.Node = pair.Certificate().Raw, proof, pair.Identity().NodeID
}

func (s *served) rejoin(t *testing.T, req *agentv1.RejoinRequest) (*agentv1.RejoinResponse, error) {
	t.Helper()
	res, err := s.client(pki.JoinTLS(s.token.Fingerprint)).Rejoin(t.Context(), connect.NewRequest(req))
	if err != nil {
		return nil, err
	}
	return res.Msg, nil
}

// A node whose certificate expired is the same node with a new one, under the name that it has now.
func TestRejoin(t *testing.T) {
	s := serve(t, pki.RoleNode, readyNode("n1"))
	old := s.expired(t)
	if _, err := s.client(pki.ClientTLS(pki.NewHolder(old), s.authority.Certificate())).Renew(t.Context(), connect.NewRequest(&agentv1.RenewRequest{})); err == nil {
		t.Fatal("the expired certificate serves")
	}
	req, key := s.rejoining(t, old)
	res, err := s.rejoin(t, req)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := pki.NewPair(res.GetCertificatePem(), key)
	if err != nil {
		t.Fatal(err)
	}
	want := pki.Identity{ClusterID: clusterID, Role: pki.RoleNode, Name: "host-n1", NodeID: "n1"}
	if got := pair.Identity(); got != want || pair.InForce(time.Now()) != nil {
		t.Errorf("came back as %v, want %v", got, want)
	}
	conn := s.client(pki.ClientTLS(pki.NewHolder(pair), s.authority.Certificate())).Session(t.Context())
	if err := conn.Send(&agentv1.FromAgent{Message: &agentv1.FromAgent_Hello{Hello: hello()}}); err != nil {
		t.Fatal(err)
	}
	if m, err := conn.Receive(); err != nil || m.GetWelcome().GetNodeName() != "host-n1" {
		t.Errorf("received %v, %v", m, err)
	}
	// Another copy of the old directory gets nothing while that agent is there.
	req, _ = s.rejoining(t, old)
	if _, err := s.rejoin(t, req); connect.CodeOf(err) != connect.CodeAborted {
		t.Errorf("a copy of the directory: %v, want code %v", err, connect.CodeAborted)
	}
}

func TestRejoinIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		role   pki.Role
		change func(*served, *agentv1.RejoinRequest)
		code   connect.Code
	}{
		"no token":       {pki.RoleNode, func(_ *served, r *agentv1.RejoinRequest) { r.Token = "" }, connect.CodeUnauthenticated},
		"another token":  {pki.RoleNode, func(_ *served, r *agentv1.RejoinRequest) { r.Token = pki.NewToken(pki.Fingerprint{}).Text() }, connect.CodeUnauthenticated},
		"not for nodes":  {pki.RoleAdmin, func(*served, *agentv1.RejoinRequest) {}, connect.CodePermissionDenied},
		"no request":     {pki.RoleNode, func(_ *served, r *agentv1.RejoinRequest) { r.CsrDer = nil }, connect.CodeInvalidArgument},
		"no certificate": {pki.RoleNode, func(_ *served, r *agentv1.RejoinRequest) { r.CertificateDer = nil }, connect.CodeInvalidArgument},
		"no proof":       {pki.RoleNode, func(_ *served, r *agentv1.RejoinRequest) { r.Proof = nil }, connect.CodeUnauthenticated},
		"another's name": {pki.RoleNode, func(_ *served, r *agentv1.RejoinRequest) { r.Node = "n2" }, connect.CodeInvalidArgument},
		"revoked":        {pki.RoleNode, func(s *served, _ *agentv1.RejoinRequest) { s.revoked = true }, connect.CodeUnauthenticated},
		"proof of another request": {pki.RoleNode, func(_ *served, r *agentv1.RejoinRequest) {
			r.CsrDer, _ = newRequest(t) // somebody else's key
		}, connect.CodeUnauthenticated},
		"another authority": {pki.RoleNode, func(s *served, r *agentv1.RejoinRequest) {
			stranger, err := pki.NewAuthority(clusterID, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			s.authority = stranger
			prove(t, r, s.expired(t))
		}, connect.CodeUnauthenticated},
		"an operator's": {pki.RoleNode, func(s *served, r *agentv1.RejoinRequest) {
			pair, err := s.authority.Issue(time.Now().Add(-2*pki.Validity), pki.Identity{Role: pki.RoleOperator, Name: "ann"})
			if err != nil {
				t.Fatal(err)
			}
			prove(t, r, pair)
		}, connect.CodePermissionDenied},
		"restored from an older copy": {pki.RoleNode, func(s *served, r *agentv1.RejoinRequest) {
			s.engine.turn(nil) // the node is not in it
			r.SeenRevision = 1000
		}, connect.CodeFailedPrecondition},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, test.role, readyNode("n1"))
			req, _ := s.rejoining(t, s.expired(t))
			test.change(s, req)
			res, err := s.rejoin(t, req)
			if connect.CodeOf(err) != test.code {
				t.Errorf("got %v, %v, want code %v", res, err, test.code)
			}
		})
	}
}

// The agent of a node that was given up learns that it is to stop what it runs, and gets nothing.
func TestRejoinOfAnUnwantedNode(t *testing.T) {
	for name, test := range map[string]struct {
		records []any
		want    string
	}{
		"decommissioned": {[]any{with(readyNode("n1"), func(n *cluster.Node) { n.Spec.Decommissioned = true })}, "node host-n1 was decommissioned"},
		"removed":        {nil, "the node was removed from the cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, pki.RoleNode, test.records...)
			req, _ := s.rejoining(t, s.expired(t))
			res, err := s.rejoin(t, req)
			if err != nil || res.GetLeave() != test.want || len(res.GetCertificatePem()) > 0 {
				t.Errorf("got %v, %v, want %q and no certificate", res, err, test.want)
			}
		})
	}
}
