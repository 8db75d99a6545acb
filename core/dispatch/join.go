package dispatch

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
	"github.com/setpointd/setpoint/sdk/wire"
)

// Join gives a machine its node id and certificate, for a join token.
func (v *service) Join(ctx context.Context, req *connect.Request[agentv1.JoinRequest]) (*connect.Response[agentv1.JoinResponse], error) {
	out, err := v.d.join(ctx, req.Msg)
	if err != nil {
		return nil, asConnect(err)
	}
	return connect.NewResponse(out), nil
}

func (d *Dispatcher) join(ctx context.Context, m *agentv1.JoinRequest) (*agentv1.JoinResponse, error) {
	by, err := d.bearer(ctx, m.GetToken())
	if err != nil {
		return nil, err
	}
	request, err := signingRequest(m.GetCsrDer())
	if err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	name := m.GetName()
	if name == "" {
		name = m.GetDescription().GetHostname()
	}
	id := pki.Identity{ClusterID: d.opts.Engine.View().ClusterID, Role: pki.RoleNode, Name: name, NodeID: newNodeID()}
	if err := id.Validate(); err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("join as %q: %w", name, err))
	}
	result, err := d.opts.Engine.Do(ctx, by, engine.JoinNode{
		ID: cluster.NodeID(id.NodeID), Name: name, Labels: m.GetLabels(),
		Description: wire.NodeDescriptionFromProto(m.GetDescription()),
	})
	if err != nil {
		return nil, err
	}
	joined, ok := result.(engine.NodeResult)
	if !ok {
		return nil, fmt.Errorf("join as %q: the engine answered %T", name, result)
	}
	id.Name = joined.Node.Spec.Name
	certificate, err := d.opts.Signer.Sign(time.Now(), id, request)
	if err != nil {
		return nil, fmt.Errorf("join as %q: %w", name, err)
	}
	d.opts.Log.Info("node joined", "node", id.NodeID, "name", id.Name)
	return &agentv1.JoinResponse{
		ClusterId: id.ClusterID, NodeId: id.NodeID, CertificatePem: certificate, CaPem: d.opts.Signer.CertificatePEM(),
	}, nil
}

// bearer returns for whom the engine records the join.
func (d *Dispatcher) bearer(ctx context.Context, text string) (by string, err error) {
	token, err := pki.ParseToken(text)
	if err != nil {
		return "", connect.NewError(connect.CodeUnauthenticated, err)
	}
	role, err := d.opts.Tokens.Verify(ctx, token)
	if err != nil {
		return "", err
	}
	if role != pki.RoleNode {
		return "", connect.NewError(connect.CodePermissionDenied, fmt.Errorf("the token is for the role %s, not for nodes", role))
	}
	return "join token", nil
}

// Renew gives the node that calls a new certificate.
func (v *service) Renew(ctx context.Context, req *connect.Request[agentv1.RenewRequest]) (*connect.Response[agentv1.RenewResponse], error) {
	out, err := v.d.renew(ctx, req.Msg)
	if err != nil {
		return nil, asConnect(err)
	}
	return connect.NewResponse(out), nil
}

func (d *Dispatcher) renew(ctx context.Context, m *agentv1.RenewRequest) (*agentv1.RenewResponse, error) {
	id, err := d.opts.Identity(ctx)
	if err != nil {
		return nil, err
	}
	if err := id.Require(pki.RoleNode); err != nil {
		return nil, connect.NewError(connect.CodePermissionDenied, err)
	}
	n := d.opts.Engine.View().Node(cluster.NodeID(id.NodeID))
	if n == nil || n.Spec.Decommissioned {
		return nil, connect.NewError(connect.CodePermissionDenied, fmt.Errorf("node %s (%s) does not belong to the cluster any more", id.Name, id.NodeID))
	}
	request, err := signingRequest(m.GetCsrDer())
	if err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	id.Name = n.Spec.Name
	certificate, err := d.opts.Signer.Sign(time.Now(), id, request)
	if err != nil {
		return nil, fmt.Errorf("renew the certificate of %s: %w", id.Name, err)
	}
	d.opts.Log.Info("certificate renewed", "node", id.NodeID, "name", id.Name)
	return &agentv1.RenewResponse{CertificatePem: certificate, CaPem: d.opts.Signer.CertificatePEM()}, nil
}

// signingRequest checks that a request is signed with the key that it is for, and returns it in PEM.
func signingRequest(der []byte) ([]byte, error) {
	csr, err := x509.ParseCertificateRequest(der)
	if err == nil {
		err = csr.CheckSignature()
	}
	if err != nil {
		return nil, fmt.Errorf("read signing request: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr.Raw}), nil
}

// newNodeID returns a random id, n and ten characters of base32: two of a thousand nodes are the same once in two billion clusters.
func newNodeID() string {
	return "n" + strings.ToLower(rand.Text()[:10])
}
