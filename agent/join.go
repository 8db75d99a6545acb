package agent

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/agent/state"
	"github.com/setpointd/setpoint/core/pki"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/proto/setpoint/agent/v1/agentv1connect"
	"github.com/setpointd/setpoint/sdk/cluster"
	"github.com/setpointd/setpoint/sdk/wire"
)

// CertificateFile is the name of the file, in the data directory, with the node's certificate, its key and the cluster's authority.
const CertificateFile = "node.pem"

// callTimeout is how long the server may take to answer a call.
const callTimeout = 15 * time.Second

// enter makes sure that the agent has a certificate: the one that it joined with, or one for its join token.
func (a *Agent) enter(ctx context.Context) error {
	path := filepath.Join(a.cfg.DataDir, CertificateFile)
	pair, err := pki.LoadPair(path)
	switch {
	case err == nil:
		err = a.known(pair)
	case errors.Is(err, fs.ErrNotExist):
		pair, err = a.joinPatiently(ctx, path)
	}
	if err != nil {
		return err
	}
	a.holder.Set(pair)
	return nil
}

// known checks that the certificate of an earlier run, the state file and the token are of one cluster.
func (a *Agent) known(pair *pki.Pair) error {
	have, err := a.file.Identity()
	if err != nil {
		return err
	}
	now := pki.FingerprintOf(pair.Authority()).String()
	// A node whose certificate expired shows it with the token: whether it is of that cluster is for the server to say, whose authority may be another by now.
	if a.cfg.Token != "" && !pair.Expired(a.cfg.Now()) {
		token, err := pki.ParseToken(a.cfg.Token)
		if err != nil {
			return fmt.Errorf("read join token: %w", err)
		}
		// The token may be that with which the node joined, before the cluster's authority was replaced.
		if text := token.Fingerprint.String(); text != have.Authority && text != now {
			return fmt.Errorf("the data directory %s belongs to node %s of cluster %s, and the join token is for another cluster: use an empty directory",
				a.cfg.DataDir, pair.Identity().Name, pair.Identity().ClusterID)
		}
	}
	return a.belong(pair, have, now)
}

// belong checks that the certificate is that of the node in the state file, which a first one is written to, with the authority by which it joined.
func (a *Agent) belong(pair *pki.Pair, have state.Identity, joinedBy string) error {
	id := pair.Identity()
	if id.Role != pki.RoleNode {
		return fmt.Errorf("%s in %s is the certificate of a %s, not of a node", CertificateFile, a.cfg.DataDir, id.Role)
	}
	mine := state.Identity{ClusterID: id.ClusterID, NodeID: cluster.NodeID(id.NodeID), Authority: have.Authority}
	if have == (state.Identity{}) {
		mine.Authority = joinedBy
		return a.file.SetIdentity(mine)
	}
	if have != mine {
		return fmt.Errorf("%s in %s is of node %s in cluster %s, and %s of node %s in cluster %s: they do not belong together",
			CertificateFile, a.cfg.DataDir, id.NodeID, id.ClusterID, state.Name, have.NodeID, have.ClusterID)
	}
	return nil
}

// joinPatiently joins, and waits for a server that does not answer.
func (a *Agent) joinPatiently(ctx context.Context, path string) (*pki.Pair, error) {
	if a.cfg.Token == "" {
		return nil, fmt.Errorf("the data directory %s is of no cluster yet: give a join token", a.cfg.DataDir)
	}
	token, err := pki.ParseToken(a.cfg.Token)
	if err != nil {
		return nil, fmt.Errorf("read join token: %w", err)
	}
	var wait backoff
	for {
		pair, err := a.join(ctx, token)
		if err == nil {
			return pair, a.keep(pair, token, path)
		}
		if !passing(err) || ctx.Err() != nil {
			return nil, fmt.Errorf("join the cluster at %s: %w", a.cfg.Server, err)
		}
		next := wait.next()
		a.cfg.Log.Warn("server does not take the join yet", "server", a.cfg.Server, "error", err, "retry_in", next)
		if !pause(ctx, next) {
			return nil, ctx.Err()
		}
	}
}

// keep writes down what the agent became.
func (a *Agent) keep(pair *pki.Pair, token pki.Token, path string) error {
	have, err := a.file.Identity()
	if err == nil {
		err = a.belong(pair, have, token.Fingerprint.String())
	}
	if err == nil {
		err = pair.Save(path)
	}
	return err
}

// join makes a key and asks for a certificate for it, from a server that shows the authority which the token names.
func (a *Agent) join(ctx context.Context, token pki.Token) (*pki.Pair, error) {
	request, key, err := pki.NewRequest()
	if err != nil {
		return nil, err
	}
	link := a.link(pki.JoinTLS(token.Fingerprint))
	defer link.cut()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	res, err := link.client.Join(ctx, connect.NewRequest(&agentv1.JoinRequest{
		Token: token.Text(), CsrDer: derOf(request), Name: a.cfg.Name, Labels: a.cfg.Labels,
		Description: wire.NodeDescriptionToProto(a.describe(ctx)),
	}))
	if err != nil {
		return nil, err
	}
	pair, err := pki.NewPair(res.Msg.GetCertificatePem(), key)
	if err != nil {
		return nil, fmt.Errorf("the server's answer: %w", err)
	}
	id := pair.Identity()
	// The authority may be one that is replacing the token's: the server says so, and the token's authority vouches for the server.
	if id.Role != pki.RoleNode || id.NodeID != res.Msg.GetNodeId() ||
		id.ClusterID != res.Msg.GetClusterId() {
		return nil, errors.New("the server's answer: the certificate is not this node's, or not of the cluster that the token names")
	}
	if err := pair.InForce(a.cfg.Now()); err != nil {
		return nil, err
	}
	a.cfg.Log.Info("joined", "cluster", id.ClusterID, "node", id.NodeID, "name", id.Name)
	return pair, nil
}

// renew asks for a new certificate, over the connection that is there. The error is errRenewed if it came, and is of another authority than the old one.
func (a *Agent) renew(ctx context.Context, client agentv1connect.AgentServiceClient) error {
	old := a.holder.Pair()
	request, key, err := pki.NewRequest()
	if err != nil {
		return fmt.Errorf("renew certificate: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	res, err := client.Renew(ctx, connect.NewRequest(&agentv1.RenewRequest{CsrDer: derOf(request)}))
	if err != nil {
		return fmt.Errorf("renew certificate: %w", err)
	}
	pair, err := pki.NewPair(res.Msg.GetCertificatePem(), key)
	if err != nil {
		return fmt.Errorf("renew certificate: %w", err)
	}
	if err := a.succeeds(old, pair); err != nil {
		return fmt.Errorf("renew certificate: %w; the one in use is kept", err)
	}
	if err := pair.Save(filepath.Join(a.cfg.DataDir, CertificateFile)); err != nil {
		return fmt.Errorf("renew certificate: %w", err)
	}
	a.holder.Set(pair)
	a.cfg.Log.Info("certificate renewed", "expires", pair.Certificate().NotAfter)
	if !pair.Authority().Equal(old.Authority()) {
		return errRenewed
	}
	return nil
}

// derOf returns the bytes of what pki made, which is one block in PEM.
func derOf(request []byte) []byte {
	block, _ := pem.Decode(request)
	return block.Bytes
}

// passing reports whether an error of a call may be gone when it is made again.
func passing(err error) bool {
	if errors.Is(err, pki.ErrOtherCluster) {
		return false
	}
	switch connect.CodeOf(err) {
	case connect.CodeUnavailable, connect.CodeDeadlineExceeded, connect.CodeAborted, connect.CodeResourceExhausted, connect.CodeInternal,
		connect.CodeUnknown, connect.CodeCanceled:
		var coded *connect.Error
		return errors.As(err, &coded)
	default:
		return false
	}
}
