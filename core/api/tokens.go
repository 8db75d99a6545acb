package api

import (
	"context"
	"slices"
	"time"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Tokens keeps the tokens with which machines join and people log in.
type Tokens interface {
	Create(ctx context.Context, role pki.Role, lifetime time.Duration) (pki.Token, pki.StoredToken, error)
	List(ctx context.Context) ([]pki.StoredToken, error)
	Revoke(ctx context.Context, hash pki.TokenHash) error
	// Verify returns what the bearer of a token becomes: pki.ErrTokenRefused or pki.ErrTokenExpired if nothing.
	Verify(ctx context.Context, token pki.Token) (pki.Role, error)
}

// Signer issues certificates; *pki.Authority is one.
type Signer interface {
	Sign(now time.Time, id pki.Identity, request []byte) ([]byte, error)
}

// loginLifetime is how long a token serves with which somebody may log in, unless its maker says otherwise. It is used up by the first login.
const loginLifetime = time.Hour

// CreateToken makes a token.
func (v *service) CreateToken(ctx context.Context, req *connect.Request[apiv1.CreateTokenRequest]) (*connect.Response[apiv1.CreateTokenResponse], error) {
	lifetime, err := positive("lifetime", req.Msg.GetLifetime())
	if err != nil {
		return nil, err
	}
	role := pki.RoleNode
	if wanted := pki.Role(req.Msg.GetRole()); wanted != "" {
		role = wanted
	}
	switch {
	case role == pki.RoleNode:
	case !logsIn(role):
		words := []string{string(pki.RoleNode), string(pki.RoleReader), string(pki.RoleOperator), string(pki.RoleAdmin)}
		return nil, invalid("the request", unknownWord("role", req.Msg.GetRole(), words...))
	case lifetime == 0:
		lifetime = loginLifetime
	}
	token, stored, err := v.opts.Tokens.Create(ctx, role, lifetime)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&apiv1.CreateTokenResponse{Token: tokenView(stored), Text: token.Text()}), nil
}

// logsIn reports whether a role is one of those that people have.
func logsIn(r pki.Role) bool { return r.Allows(pki.RoleReader) }

// Login gives the bearer of a token a certificate, and uses the token up.
func (v *service) Login(ctx context.Context, req *connect.Request[apiv1.LoginRequest]) (*connect.Response[apiv1.LoginResponse], error) {
	token, err := pki.ParseToken(req.Msg.GetToken())
	if err != nil {
		return nil, connect.NewError(connect.CodeUnauthenticated, err)
	}
	role, err := v.opts.Tokens.Verify(ctx, token)
	if err != nil {
		return nil, connect.NewError(connect.CodeUnauthenticated, err)
	}
	if !logsIn(role) {
		return nil, invalid("the request", cluster.Problem{
			Path: "token", Summary: "Not a token to log in with", Detail: "Its bearer joins as a " + string(role) + ": give it to setpoint agent --join.",
		})
	}
	id := pki.Identity{ClusterID: v.view().ClusterID, Role: role, Name: req.Msg.GetName()}
	certificate, err := v.sign(id, req.Msg.GetCsrPem())
	if err != nil {
		return nil, err
	}
	// Of two who come with one token only the first finds it: what is signed is given to nobody else.
	if err := v.opts.Tokens.Revoke(ctx, token.Hash()); err != nil {
		return nil, connect.NewError(connect.CodeUnauthenticated, pki.ErrTokenRefused)
	}
	v.opts.Log.Info("credential issued", "caller", id.Name, "role", string(id.Role))
	return connect.NewResponse(&apiv1.LoginResponse{CertificatePem: certificate}), nil
}

// RenewLogin gives the caller a new certificate that says the same.
func (v *service) RenewLogin(ctx context.Context, req *connect.Request[apiv1.RenewLoginRequest]) (*connect.Response[apiv1.RenewLoginResponse], error) {
	id, err := IdentityFrom(ctx)
	if err != nil {
		return nil, connect.NewError(connect.CodeUnauthenticated, err)
	}
	certificate, err := v.sign(id, req.Msg.GetCsrPem())
	if err != nil {
		return nil, err
	}
	if err := v.stillServes(ctx); err != nil { // or else a renewal could outrun the revocation of all that somebody has
		return nil, err
	}
	v.opts.Log.Info("credential renewed", "caller", id.Name, "role", string(id.Role))
	return connect.NewResponse(&apiv1.RenewLoginResponse{CertificatePem: certificate}), nil
}

// sign issues a certificate for the key of a request.
func (v *service) sign(id pki.Identity, request []byte) ([]byte, error) {
	if err := id.Validate(); err != nil {
		return nil, invalid("the request", cluster.Problem{Path: "name", Summary: "Not a name", Detail: err.Error()})
	}
	certificate, err := v.opts.Signer.Sign(v.opts.Now(), id, request)
	if err != nil {
		return nil, invalid("the request", cluster.Problem{Path: "csr_pem", Summary: "Not signed", Detail: err.Error()})
	}
	return certificate, nil
}

// ListTokens returns the tokens that were made and not revoked or used up, oldest first.
func (v *service) ListTokens(ctx context.Context, req *connect.Request[apiv1.ListTokensRequest]) (*connect.Response[apiv1.ListTokensResponse], error) {
	p, err := newPage(req.Msg.GetPageSize(), req.Msg.GetPageToken())
	if err != nil {
		return nil, err
	}
	stored, err := v.opts.Tokens.List(ctx)
	if err != nil {
		return nil, err
	}
	var rows []row[*apiv1.Token]
	for _, t := range stored {
		rows = append(rows, row[*apiv1.Token]{momentOrder(t.Created) + tokenID(t), tokenView(t)})
	}
	out := &apiv1.ListTokensResponse{}
	out.Tokens, out.NextPageToken = cut(p, rows)
	return connect.NewResponse(out), nil
}

// RevokeToken makes a token useless. Machines that joined with it stay.
func (v *service) RevokeToken(ctx context.Context, req *connect.Request[apiv1.RevokeTokenRequest]) (*connect.Response[apiv1.RevokeTokenResponse], error) {
	stored, err := v.opts.Tokens.List(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(stored, func(t pki.StoredToken) bool { return tokenID(t) == req.Msg.GetId() })
	if i < 0 {
		return nil, notFound("token", req.Msg.GetId(), "token ls lists those that there are")
	}
	if err := v.opts.Tokens.Revoke(ctx, stored[i].Hash); err != nil {
		return nil, err
	}
	return connect.NewResponse(&apiv1.RevokeTokenResponse{}), nil
}

func tokenView(t pki.StoredToken) *apiv1.Token {
	return &apiv1.Token{Id: tokenID(t), Role: string(t.Role), Created: wallTimestamp(t.Created), Expires: wallTimestamp(t.Expires)}
}

// tokenID returns the beginning of what is stored of a token: enough to name it, of no use to join with.
func tokenID(t pki.StoredToken) string {
	text, _ := t.Hash.MarshalText()
	return string(text[:12])
}
