package api_test

import (
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

func TestTokens(t *testing.T) {
	s := serve(t, nil)
	c, ctx := s.as(pki.RoleAdmin), t.Context()
	made, err := c.CreateToken(ctx, connect.NewRequest(&apiv1.CreateTokenRequest{Lifetime: durationpb.New(time.Hour)}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pki.ParseToken(made.Msg.GetText()); err != nil {
		t.Error(err)
	}
	if token := made.Msg.GetToken(); token.GetRole() != "node" || token.GetExpires().AsTime().Sub(token.GetCreated().AsTime()) != time.Hour || len(token.GetId()) != 12 {
		t.Errorf("the token is %v", token)
	}
	for _, role := range []string{"server", "king"} {
		if _, err := c.CreateToken(ctx, connect.NewRequest(&apiv1.CreateTokenRequest{Role: role})); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("a token for the role %s gave %v", role, err)
		}
	}
	id := made.Msg.GetToken().GetId()
	if list, err := c.ListTokens(ctx, connect.NewRequest(&apiv1.ListTokensRequest{})); err != nil || len(list.Msg.GetTokens()) != 1 || list.Msg.GetTokens()[0].GetId() != id {
		t.Errorf("the list is %v, %v", list, err)
	}
	if _, err := c.RevokeToken(ctx, connect.NewRequest(&apiv1.RevokeTokenRequest{Id: id})); err != nil {
		t.Error(err)
	}
	if _, err := c.RevokeToken(ctx, connect.NewRequest(&apiv1.RevokeTokenRequest{Id: id})); !client.IsNotFound(err) {
		t.Errorf("revoked again: %v", err)
	}
}

// tokenFor has an administrator make a token.
func (s *server) tokenFor(role string) pki.Token {
	s.t.Helper()
	made, err := s.as(pki.RoleAdmin).CreateToken(s.t.Context(), connect.NewRequest(&apiv1.CreateTokenRequest{Role: role}))
	if err != nil {
		s.t.Fatal(err)
	}
	if got := made.Msg.GetToken(); role != "node" && got.GetExpires().AsTime().Sub(got.GetCreated().AsTime()) != time.Hour {
		s.t.Errorf("a token of the role %s serves from %v to %v", role, got.GetCreated(), got.GetExpires())
	}
	token, err := pki.ParseToken(made.Msg.GetText())
	if err != nil {
		s.t.Fatal(err)
	}
	return token
}

func TestLogin(t *testing.T) {
	s := serve(t, nil)
	for _, role := range []pki.Role{pki.RoleReader, pki.RoleOperator, pki.RoleAdmin} {
		token := s.tokenFor(string(role))
		pair, err := client.Login(t.Context(), s.addr, token, "ann@desk")
		if err != nil {
			t.Fatalf("log in as %s: %v", role, err)
		}
		if id := pair.Identity(); id.Role != role || id.Name != "ann@desk" || id.ClusterID != "c1" {
			t.Errorf("the certificate of a %s is of %v", role, id)
		}
		if _, err := client.Login(t.Context(), s.addr, token, "ann@desk"); connect.CodeOf(err) != connect.CodeUnauthenticated {
			t.Errorf("a token that was used gave %v", err)
		}
		renewed, err := s.as(role).Renew(t.Context())
		if err != nil {
			t.Fatalf("renew as %s: %v", role, err)
		}
		if renewed.Identity().Role != role || renewed.Certificate().SerialNumber.Cmp(pair.Certificate().SerialNumber) == 0 {
			t.Errorf("the new certificate of a %s is %v", role, renewed.Identity())
		}
	}
}

func TestLoginRefusals(t *testing.T) {
	s := serve(t, nil)
	if _, err := client.Login(t.Context(), s.addr, s.tokenFor("node"), "ann"); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("a machine's token gave %v", err)
	}
	kept := s.tokenFor("reader")
	if _, err := client.Login(t.Context(), s.addr, kept, "not a name"); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("a bad name gave %v", err)
	}
	if _, err := client.Login(t.Context(), s.addr, kept, "ann"); err != nil {
		t.Errorf("a token of which a refused login made no use gave %v", err)
	}
	if _, err := client.Login(t.Context(), s.addr, pki.NewToken(s.authority.Fingerprint()), "ann"); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("a token that nobody made gave %v", err)
	}
	if _, err := client.Login(t.Context(), s.addr, pki.NewToken(pki.Fingerprint{1}), "ann"); err == nil {
		t.Error("a server of another cluster than the token's was believed")
	}
	if _, err := s.as(pki.RoleNode).Renew(t.Context()); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("a node that renews as people do gave %v", err)
	}
}
