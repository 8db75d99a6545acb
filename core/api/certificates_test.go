package api_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// register is a register as a server has it.
type register struct{ *pki.Register }

func (r register) Revoke(v pki.Revocation) ([]pki.Issued, error) {
	if v.Name != "" {
		return r.RevokeName(v)
	}
	return r.RevokeSerial(v)
}

func serveRegister(t *testing.T) (*server, register) {
	t.Helper()
	r, err := pki.OpenRegister(filepath.Join(t.TempDir(), "certificates.jsonl"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, func(o *api.Options) { o.Certificates = register{r} }), register{r}
}

// known returns a client whose certificate is registered.
func (s *server) known(r register, role pki.Role) (*client.Client, string) {
	s.t.Helper()
	c := s.as(role)
	if err := r.Add(c.Pair().Certificate(), time.Now()); err != nil {
		s.t.Fatal(err)
	}
	return c, pki.Serial(c.Pair().Certificate())
}

func TestARevokedCertificateServesNoMore(t *testing.T) {
	s, r := serveRegister(t)
	ctx := t.Context()
	operator, serial := s.known(r, pki.RoleOperator)
	other, _ := s.known(r, pki.RoleReader)
	admin, own := s.known(r, pki.RoleAdmin)
	follow, err := operator.WatchEvents(ctx, connect.NewRequest(&apiv1.WatchEventsRequest{Follow: true}))
	if err != nil || !follow.Receive() {
		t.Fatalf("watch: %v, %v", err, follow.Err())
	}
	defer follow.Close()

	res, err := admin.RevokeCertificate(ctx, connect.NewRequest(&apiv1.RevokeCertificateRequest{Serial: serial, Reason: "lost"}))
	if err != nil || len(res.Msg.GetCertificates()) != 1 || res.Msg.GetCertificates()[0].GetRole() != "operator" {
		t.Fatalf("revoked %v, %v", res, err)
	}
	for follow.Receive() { // what was on its way
	}
	if err := follow.Err(); connect.CodeOf(err) != connect.CodeUnauthenticated || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("the watch ended with %v", err)
	}
	_, err = operator.ListJobs(ctx, connect.NewRequest(&apiv1.ListJobsRequest{}))
	if connect.CodeOf(err) != connect.CodeUnauthenticated || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("a call with it: %v", err)
	}
	if _, err := operator.RenewLogin(ctx, connect.NewRequest(&apiv1.RenewLoginRequest{})); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("a renewal with it: %v", err)
	}
	if _, err := other.ListJobs(ctx, connect.NewRequest(&apiv1.ListJobsRequest{})); err != nil {
		t.Errorf("another certificate of the same name: %v", err)
	}
	list, err := admin.ListCertificates(ctx, connect.NewRequest(&apiv1.ListCertificatesRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list.Msg.GetCertificates() {
		if revoked := c.GetRevoked() != nil; revoked != (c.GetSerial() == serial) || revoked && (c.GetRevokedBy() != "someone" || c.GetReason() != "lost") {
			t.Errorf("listed: %v", c)
		}
	}

	// All of a name: the administrator of this test has it too.
	if _, err := admin.RevokeCertificate(ctx, connect.NewRequest(&apiv1.RevokeCertificateRequest{Name: "someone"})); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*client.Client{other, admin} {
		if _, err := c.ListJobs(ctx, connect.NewRequest(&apiv1.ListJobsRequest{})); connect.CodeOf(err) != connect.CodeUnauthenticated {
			t.Errorf("after all of the name were revoked: %v", err)
		}
	}
	if _, err := r.Revoke(pki.Revocation{Serial: own}); !errors.Is(err, pki.ErrNothingToRevoke) {
		t.Errorf("revoked again: %v", err)
	}
}

// The dashboard learns by which certificate somebody is known, and of each revocation.
func TestTheDashboardHearsOfRevocations(t *testing.T) {
	r, err := pki.OpenRegister(filepath.Join(t.TempDir(), "certificates.jsonl"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeDashboard{}
	s := serve(t, func(o *api.Options) { o.Certificates, o.Dashboard = register{r}, f })
	reader, serial := s.known(register{r}, pki.RoleReader)
	if _, err := reader.OpenDashboard(t.Context(), connect.NewRequest(&apiv1.OpenDashboardRequest{})); err != nil || f.serial != serial {
		t.Errorf("opened with %q, %v, want %q", f.serial, err, serial)
	}
	if _, err := s.as(pki.RoleAdmin).RevokeCertificate(t.Context(), connect.NewRequest(&apiv1.RevokeCertificateRequest{Serial: serial})); err != nil || f.swept != 1 {
		t.Errorf("revoked: %v; it was told %d times", err, f.swept)
	}
}

func TestWhatCannotBeRevoked(t *testing.T) {
	s, r := serveRegister(t)
	admin, _ := s.known(r, pki.RoleAdmin)
	_, node := s.known(r, pki.RoleNode)
	for _, c := range []struct {
		req  *apiv1.RevokeCertificateRequest
		code connect.Code
	}{
		{&apiv1.RevokeCertificateRequest{}, connect.CodeInvalidArgument},
		{&apiv1.RevokeCertificateRequest{Serial: "x", Name: "y"}, connect.CodeInvalidArgument},
		{&apiv1.RevokeCertificateRequest{Serial: "x"}, connect.CodeNotFound},
		{&apiv1.RevokeCertificateRequest{Serial: node}, connect.CodeFailedPrecondition},
	} {
		if _, err := admin.RevokeCertificate(t.Context(), connect.NewRequest(c.req)); connect.CodeOf(err) != c.code {
			t.Errorf("%v: %v, want %v", c.req, err, c.code)
		}
	}
	if _, err := s.as(pki.RoleOperator).RevokeCertificate(t.Context(), connect.NewRequest(&apiv1.RevokeCertificateRequest{Name: "y"})); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("an operator revoked: %v", err)
	}
}

func TestNobodyLogsInAsSomebodyElse(t *testing.T) {
	s, r := serveRegister(t)
	admin, _ := s.known(r, pki.RoleAdmin) // "someone"
	token := s.tokenFor("reader")
	for _, name := range []string{"someone", "core", "server"} {
		_, err := client.Login(t.Context(), s.addr, token, name)
		if connect.CodeOf(err) != connect.CodeInvalidArgument || len(client.Detail(err).GetProblems()) != 1 || client.Detail(err).GetProblems()[0].GetPath() != "name" {
			t.Errorf("log in as %s: %v", name, err)
		}
	}
	if _, err := client.Login(t.Context(), s.addr, token, "ann"); err != nil {
		t.Errorf("the token of which refused logins made no use: %v", err)
	}

	// Who makes a token may say for whom, also for who is there already; and what its bearer says does not count.
	made, err := admin.CreateToken(t.Context(), connect.NewRequest(&apiv1.CreateTokenRequest{Role: "operator", Name: "someone"}))
	if err != nil || made.Msg.GetToken().GetName() != "someone" {
		t.Fatalf("%v, %v", made, err)
	}
	named, err := pki.ParseToken(made.Msg.GetText())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := client.Login(t.Context(), s.addr, named, "eve")
	if err != nil || pair.Identity().Name != "someone" || pair.Identity().Role != pki.RoleOperator {
		t.Errorf("%v, %v", pair, err)
	}

	// A name is free again once its certificates were revoked.
	again := s.tokenFor("reader")
	if _, err := admin.RevokeCertificate(t.Context(), connect.NewRequest(&apiv1.RevokeCertificateRequest{Name: "someone"})); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Login(t.Context(), s.addr, again, "someone"); err != nil {
		t.Errorf("a name that nobody has any more: %v", err)
	}
}

func TestNamesOfTokens(t *testing.T) {
	s := serve(t, nil)
	for _, req := range []*apiv1.CreateTokenRequest{{Name: "n1"}, {Role: "node", Name: "n1"}, {Role: "reader", Name: "no name"}} {
		if _, err := s.as(pki.RoleAdmin).CreateToken(t.Context(), connect.NewRequest(req)); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%v: %v", req, err)
		}
	}
}
