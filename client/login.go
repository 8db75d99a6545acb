package client

import (
	"context"
	"fmt"
	"net/http"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/proto/setpoint/api/v1/apiv1connect"
)

// Login makes a key and gets a certificate for it, of the role of a token, from the server at addr: the first one that shows the authority which the token
// names. The token is used up by that. name is under whom the server's log says what is done with the certificate.
func Login(ctx context.Context, addr string, token pki.Token, name string) (*pki.Pair, error) {
	addr, err := parseAddr(addr)
	if err != nil {
		return nil, err
	}
	request, key, err := pki.NewRequest()
	if err != nil {
		return nil, err
	}
	transport := newTransport(pki.JoinTLS(token.Fingerprint), nil)
	defer transport.CloseIdleConnections()
	service := apiv1connect.NewApiServiceClient(&http.Client{Transport: transport}, addr)
	res, err := service.Login(ctx, connect.NewRequest(&apiv1.LoginRequest{Token: token.Text(), Name: name, CsrPem: request}))
	if err != nil {
		return nil, err
	}
	pair, err := pki.NewPair(res.Msg.GetCertificatePem(), key)
	if err != nil {
		return nil, fmt.Errorf("the server's answer: %w", err)
	}
	return pair, nil
}

// Renew makes a key and gets a certificate for it that says what the client's own says.
func (c *Client) Renew(ctx context.Context) (*pki.Pair, error) {
	request, key, err := pki.NewRequest()
	if err != nil {
		return nil, err
	}
	res, err := c.RenewLogin(ctx, connect.NewRequest(&apiv1.RenewLoginRequest{CsrPem: request}))
	if err != nil {
		return nil, err
	}
	pair, err := pki.NewPair(res.Msg.GetCertificatePem(), key)
	if err != nil {
		return nil, fmt.Errorf("the server's answer: %w", err)
	}
	if pair.Identity() != c.pair.Identity() {
		return nil, fmt.Errorf("the server's answer: the certificate is that of %s, not of %s", pair.Identity(), c.pair.Identity())
	}
	return pair, nil
}
