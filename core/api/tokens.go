package api

import (
	"context"
	"fmt"
	"slices"
	"time"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Tokens keeps the tokens with which machines join and people log in.
type Tokens interface {
	Create(ctx context.Context, role pki.Role, name string, lifetime time.Duration) (pki.Token, pki.StoredToken, error)
	List(ctx context.Context) ([]pki.StoredToken, error)
	Revoke(ctx context.Context, hash pki.TokenHash) error
	// Find returns what is kept of a token: pki.ErrTokenRefused or pki.ErrTokenExpired if it does not serve.
	Find(ctx context.Context, token pki.Token) (pki.StoredToken, error)
}

// Signer issues certificates; *pki.Authority is one.
type Signer interface {
	Sign(now time.Time, id pki.Identity, request []byte) ([]byte, error)
}

// serverName is for whom the server itself asks the engine for something.
const serverName = "server"

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
	if problem := namedToken(role, req.Msg.GetName()); problem != nil {
		return nil, invalid("the request", *problem)
	}
	token, stored, err := v.opts.Tokens.Create(ctx, role, req.Msg.GetName(), lifetime)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&apiv1.CreateTokenResponse{Token: tokenView(stored), Text: token.Text()}), nil
}

// namedToken returns what is wrong with the name of a token; nil if nothing is.
func namedToken(role pki.Role, name string) *cluster.Problem {
	if name == "" {
		return nil
	}
	if role == pki.RoleNode {
		return &cluster.Problem{Path: "name", Summary: "A token for nodes has no name", Detail: "Each machine that joins says its own: setpoint agent --name."}
	}
	if err := (pki.Identity{ClusterID: "any", Role: role, Name: name}).Validate(); err != nil {
		return &cluster.Problem{Path: "name", Summary: "Not a name", Detail: err.Error()}
	}
	return nil
}

// logsIn reports whether a role is one of those that people have.
func logsIn(r pki.Role) bool { return r.Allows(pki.RoleReader) }

// Login gives the bearer of a token a certificate, and uses the token up.
func (v *service) Login(ctx context.Context, req *connect.Request[apiv1.LoginRequest]) (*connect.Response[apiv1.LoginResponse], error) {
	token, err := pki.ParseToken(req.Msg.GetToken())
	if err != nil {
		return nil, connect.NewError(connect.CodeUnauthenticated, err)
	}
	v.logins.Lock()
	defer v.logins.Unlock()
	stored, err := v.opts.Tokens.Find(ctx, token)
	if err != nil {
		return nil, connect.NewError(connect.CodeUnauthenticated, err)
	}
	role := stored.Role
	if !logsIn(role) {
		return nil, invalid("the request", cluster.Problem{
			Path: "token", Summary: "Not a token to log in with", Detail: "Its bearer joins as a " + string(role) + ": give it to setpoint agent --join.",
		})
	}
	if stored.Name != "" {
		req.Msg.Name = stored.Name // in the audit log as well
	} else if problem := v.taken(req.Msg.GetName()); problem != nil {
		return nil, invalid("the request", *problem)
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

// taken returns why nobody may log in under a name of his own choice: what is done under it would be taken for somebody else's.
func (v *service) taken(name string) *cluster.Problem {
	const other = "Log in under another one, --name; or an administrator makes a token for it: setpoint token create --role ROLE --name NAME."
	if name == cluster.SourceCore || name == serverName {
		return &cluster.Problem{Path: "name", Summary: fmt.Sprintf("%q is what the server calls itself", name), Detail: "Log in under another one, --name."}
	}
	if v.opts.Certificates == nil {
		return nil
	}
	for _, c := range v.opts.Certificates.List() {
		if c.Name == name && c.Revoked == nil && v.opts.Now().Before(c.Expires) {
			return &cluster.Problem{Path: "name", Summary: fmt.Sprintf("Somebody has the name %s already", name), Detail: other}
		}
	}
	return nil
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
	return &apiv1.Token{Id: tokenID(t), Role: string(t.Role), Name: t.Name, Created: wallTimestamp(t.Created), Expires: wallTimestamp(t.Expires)}
}

// tokenID returns the beginning of what is stored of a token: enough to name it, of no use to join with.
func tokenID(t pki.StoredToken) string {
	text, _ := t.Hash.MarshalText()
	return string(text[:12])
}
