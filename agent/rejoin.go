package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/pki"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
)

// expired adds to the error of a session what to do, if the agent's certificate expired.
func (a *Agent) expired(err error) error {
	pair := a.holder.Pair()
	if !pair.Expired(a.cfg.Now()) {
		return err
	}
	return connect.NewError(connect.CodeUnauthenticated, fmt.Errorf("%w: the agent's certificate expired on %s; start it again with a join token and this data "+
		"directory, and it is the same node: setpoint agent --join TOKEN@%s --data-dir %s", err, pair.Certificate().NotAfter, a.cfg.Server, a.cfg.DataDir))
}

// rejoin gets a certificate in the place of one that expired while the agent or its server was away, for a join token and with the old key: the node stays the one
// that it was, and what it runs goes on. Without a token it does nothing. It returns a *LeftError if the cluster does not want the node any more.
func (a *Agent) rejoin(ctx context.Context) error {
	old := a.holder.Pair()
	if a.cfg.Token == "" || !old.Expired(a.cfg.Now()) {
		return nil
	}
	pair, err := a.askAgain(ctx, old)
	if err != nil {
		var left *LeftError
		if errors.As(err, &left) {
			return err
		}
		return fmt.Errorf("join again as node %s, whose certificate expired on %s: %w", old.Identity().NodeID, old.Certificate().NotAfter, err)
	}
	if err := pair.Save(filepath.Join(a.cfg.DataDir, CertificateFile)); err != nil {
		return err
	}
	a.holder.Set(pair)
	a.cfg.Log.Info("joined again as the same node", "node", pair.Identity().NodeID, "expires", pair.Certificate().NotAfter)
	return nil
}

// askAgain makes a key and asks for a certificate for it, from a server that shows the authority which the token names.
func (a *Agent) askAgain(ctx context.Context, old *pki.Pair) (*pki.Pair, error) {
	token, err := pki.ParseToken(a.cfg.Token)
	if err != nil {
		return nil, fmt.Errorf("read join token: %w", err)
	}
	request, key, err := pki.NewRequest()
	if err != nil {
		return nil, err
	}
	proof, err := old.Prove(derOf(request))
	if err != nil {
		return nil, err
	}
	link := a.link(pki.JoinTLS(token.Fingerprint))
	defer link.cut()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	res, err := link.client.Rejoin(ctx, connect.NewRequest(&agentv1.RejoinRequest{
		Token: token.Text(), CsrDer: derOf(request), CertificateDer: old.Certificate().Raw, Proof: proof, Node: old.Identity().NodeID,
		SeenRevision: uint64(a.set.Revision()),
	}))
	if err != nil {
		return nil, err
	}
	if reason := res.Msg.GetLeave(); reason != "" {
		return nil, &LeftError{Reason: reason}
	}
	pair, err := pki.NewPair(res.Msg.GetCertificatePem(), key)
	if err != nil {
		return nil, fmt.Errorf("the server's answer: %w", err)
	}
	return pair, a.succeeds(old, pair)
}

// succeeds returns an error if a certificate is not one that can take the place of another.
func (a *Agent) succeeds(old, next *pki.Pair) error {
	have, got := old.Identity(), next.Identity()
	have.Name = got.Name // an operator may have renamed the node
	if got != have {
		return fmt.Errorf("the server answered with the certificate of %s", got)
	}
	return next.InForce(a.cfg.Now())
}
