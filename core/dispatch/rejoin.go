package dispatch

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/pki"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Rejoin gives a node whose certificate expired another one, for a join token and the proof that it holds the key of the old one.
func (v *service) Rejoin(ctx context.Context, req *connect.Request[agentv1.RejoinRequest]) (*connect.Response[agentv1.RejoinResponse], error) {
	out, err := v.d.rejoin(ctx, req.Msg)
	if err != nil {
		return nil, asConnect(err)
	}
	return connect.NewResponse(out), nil
}

func (d *Dispatcher) rejoin(ctx context.Context, m *agentv1.RejoinRequest) (*agentv1.RejoinResponse, error) {
	if _, err := d.bearer(ctx, m.GetToken()); err != nil {
		return nil, err
	}
	request, err := signingRequest(m.GetCsrDer())
	if err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	id, err := d.possessor(m)
	if err != nil {
		return nil, err
	}
	state := d.opts.Engine.View()
	record := state.Node(cluster.NodeID(id.NodeID))
	reason, err := admit(state, record, m.GetSeenRevision())
	switch {
	case err != nil:
		return nil, err
	case reason != "":
		d.opts.Log.Warn("agent of an unwanted node turned away", "node", id.NodeID, "reason", reason)
		return &agentv1.RejoinResponse{Leave: reason}, nil
	case d.served(record.ID):
		return nil, errTaken
	}
	id.Name = record.Spec.Name
	certificate, err := d.opts.Signer.Sign(time.Now(), id, request)
	if err != nil {
		return nil, fmt.Errorf("rejoin as %s: %w", id.Name, err)
	}
	d.opts.Log.Info("node joined again", "node", id.NodeID, "name", id.Name)
	return &agentv1.RejoinResponse{CertificatePem: certificate, CaPem: d.opts.Signer.CertificatePEM()}, nil
}

// possessor returns which node asks: the one that the old certificate was issued to, with whose key the request was signed.
func (d *Dispatcher) possessor(m *agentv1.RejoinRequest) (pki.Identity, error) {
	cert, err := x509.ParseCertificate(m.GetCertificateDer())
	if err != nil {
		return pki.Identity{}, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("read the old certificate: %w", err))
	}
	id, err := d.opts.Issued(cert)
	switch {
	case errors.Is(err, pki.ErrNotIssued):
		return pki.Identity{}, fmt.Errorf("%w; with a join token and an empty data directory the machine joins as a new node", err)
	case err != nil:
		return pki.Identity{}, err
	}
	if err := id.Require(pki.RoleNode); err != nil {
		return pki.Identity{}, connect.NewError(connect.CodePermissionDenied, err)
	}
	if id.NodeID != m.GetNode() {
		return pki.Identity{}, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("the certificate is of node %s, not of %s", id.NodeID, m.GetNode()))
	}
	if err := pki.CheckProof(cert, m.GetCsrDer(), m.GetProof()); err != nil {
		return pki.Identity{}, connect.NewError(connect.CodeUnauthenticated, err)
	}
	return id, nil
}

// served reports whether an agent of the node is connected and heard: then who shows an expired certificate of it has a copy of its directory.
func (d *Dispatcher) served(node cluster.NodeID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.sessions[node]
	return s != nil && d.hears(s)
}
