package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	testAdmin  = Identity{Role: RoleAdmin, Name: "anna@site"}
	testNode   = Identity{Role: RoleNode, Name: "n1", NodeID: "n-7f3a"}
	testServer = Identity{Role: RoleServer, Name: "s1"}
)

func newTestAuthority(t *testing.T, clusterID string, now time.Time) *Authority {
	t.Helper()
	a, err := NewAuthority(clusterID, now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func issue(t *testing.T, a *Authority, now time.Time, id Identity, hosts ...string) *Pair {
	t.Helper()
	pair, err := a.Issue(now, id, hosts...)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// wantError fails unless err is nil for an empty text, or contains it.
func wantError(t *testing.T, err error, text string) {
	t.Helper()
	switch {
	case text == "" && err != nil:
		t.Fatalf("error: %v", err)
	case text != "" && err == nil:
		t.Fatalf("no error, want one with %q", text)
	case text != "" && !strings.Contains(err.Error(), text):
		t.Fatalf("error %q, want one with %q", err, text)
	}
}

func TestIssuedCertificate(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	a := newTestAuthority(t, "c1", now)
	pair := issue(t, a, now, testNode)
	cert := pair.Certificate()

	if want := (Identity{ClusterID: "c1", Role: RoleNode, Name: "n1", NodeID: "n-7f3a"}); pair.Identity() != want {
		t.Errorf("identity %+v, want %+v", pair.Identity(), want)
	}
	if got := cert.URIs[0].String(); got != "setpoint://c1/node/n1/n-7f3a" {
		t.Errorf("uri %s", got)
	}
	if got := cert.Subject.OrganizationalUnit; !slices.Equal(got, []string{"node"}) {
		t.Errorf("organizational unit %v", got)
	}
	if want := now.Add(-time.Hour); !cert.NotBefore.Equal(want) {
		t.Errorf("not before %s, want %s", cert.NotBefore, want)
	}
	if want := now.Add(90 * 24 * time.Hour); !cert.NotAfter.Equal(want) {
		t.Errorf("not after %s, want %s", cert.NotAfter, want)
	}
	// 30 of 90 days before the end.
	if want := now.Add(60 * 24 * time.Hour); !pair.RenewAt().Equal(want) {
		t.Errorf("renew at %s, want %s", pair.RenewAt(), want)
	}
	late := issue(t, a, now.Add(2*365*24*time.Hour), testNode) // by a clock that is ahead
	if err := late.InForce(now); err != nil {
		t.Error(err)
	}
	last := issue(t, a, now.Add(CAValidity-time.Hour), testNode)
	if !last.RenewAt().Equal(last.Certificate().NotAfter) {
		t.Errorf("what ends with its authority is to be renewed at %s", last.RenewAt())
	}
	if !slices.Equal(cert.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}) {
		t.Errorf("a node's certificate serves for %v", cert.ExtKeyUsage)
	}
	if pair.Expired(now.Add(Validity)) || !pair.Expired(now.Add(Validity+time.Second)) {
		t.Error("expiry is not at the end of the validity")
	}
}

func TestIssueNeverOutlivesAuthority(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	a := newTestAuthority(t, "c1", now)
	late := now.Add(CAValidity - 24*time.Hour)
	if pair := issue(t, a, late, testAdmin); !pair.Certificate().NotAfter.Equal(a.Certificate().NotAfter) {
		t.Errorf("not after %s, the authority's is %s", pair.Certificate().NotAfter, a.Certificate().NotAfter)
	}
	_, err := a.Issue(now.Add(CAValidity+time.Hour), testAdmin)
	wantError(t, err, "the authority's certificate expired at 2036-02-27")
}

func TestIssueRefuses(t *testing.T) {
	now := time.Now()
	a := newTestAuthority(t, "c1", now)
	for name, tc := range map[string]struct {
		id    Identity
		hosts []string
		want  string
	}{
		"unknown role":             {Identity{Role: "root", Name: "x"}, nil, `role "root" is not one of`},
		"no role":                  {Identity{Name: "x"}, nil, `role "" is not one of`},
		"no name":                  {Identity{Role: RoleAdmin}, nil, `name ""`},
		"name with a slash":        {Identity{Role: RoleAdmin, Name: "a/b"}, nil, `name "a/b"`},
		"name of 129 letters":      {Identity{Role: RoleAdmin, Name: strings.Repeat("a", 129)}, nil, "is not 1 to 128 letters"},
		"node without id":          {Identity{Role: RoleNode, Name: "n1"}, nil, `node id ""`},
		"admin with a node id":     {Identity{Role: RoleAdmin, Name: "x", NodeID: "n"}, nil, "a node id is given with the role admin"},
		"admin with hosts":         {testAdmin, []string{"localhost"}, "only a server has hosts"},
		"all problems, not one":    {Identity{Role: "root", Name: "/"}, nil, `name "/"`},
		"node id that breaks path": {Identity{Role: RoleNode, Name: "n1", NodeID: "../admin"}, nil, `node id "../admin"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := a.Issue(now, tc.id, tc.hosts...)
			wantError(t, err, tc.want)
		})
	}
}

func TestClusterID(t *testing.T) {
	now := time.Now()
	a, b := newTestAuthority(t, "", now), newTestAuthority(t, "", now)
	if a.ClusterID() == b.ClusterID() || len(a.ClusterID()) != 16 {
		t.Errorf("random cluster ids %q and %q", a.ClusterID(), b.ClusterID())
	}
	for _, id := range []string{"Upper", "-a", "a-", "a.b", "a/b", strings.Repeat("a", 64)} {
		if _, err := NewAuthority(id, now); err == nil {
			t.Errorf("cluster id %q is taken", id)
		}
	}
	longest := strings.Repeat("a", 63)
	c, err := NewAuthority(longest, now)
	if err != nil || c.ClusterID() != longest {
		t.Errorf("cluster id of 63 letters: %v", err)
	}
	if _, err := c.Issue(now, Identity{Role: RoleAdmin, Name: strings.Repeat("a", 128)}); err != nil {
		t.Errorf("name of 128 letters: %v", err)
	}
}

func TestRoles(t *testing.T) {
	for _, tc := range []struct {
		role   Role
		allows []Role
	}{
		{RoleAdmin, []Role{RoleAdmin, RoleOperator, RoleReader}},
		{RoleOperator, []Role{RoleOperator, RoleReader}},
		{RoleReader, []Role{RoleReader}},
		{RoleNode, []Role{RoleNode}},
		{RoleServer, []Role{RoleServer}},
		{"", nil},
		{"root", nil},
	} {
		for _, need := range []Role{RoleAdmin, RoleOperator, RoleReader, RoleNode, RoleServer, "", "root"} {
			if got, want := tc.role.Allows(need), slices.Contains(tc.allows, need); got != want {
				t.Errorf("%q allows %q: %v, want %v", tc.role, need, got, want)
			}
		}
	}
	err := Identity{Role: RoleReader, Name: "bo"}.Require(RoleOperator)
	var roleErr *RoleError
	if !errors.As(err, &roleErr) || roleErr.Need != RoleOperator {
		t.Fatalf("error %v", err)
	}
	wantError(t, err, "bo has the role reader; this needs operator")
	wantError(t, Identity{Role: RoleAdmin}.Require(RoleReader), "")
}

func TestIdentityOf(t *testing.T) {
	for name, tc := range map[string]struct {
		uris []string
		want Identity
		err  string
	}{
		"admin":             {uris: []string{"setpoint://c1/admin/anna@site"}, want: Identity{ClusterID: "c1", Role: RoleAdmin, Name: "anna@site"}},
		"node":              {uris: []string{"setpoint://c1/node/n1/id1"}, want: Identity{ClusterID: "c1", Role: RoleNode, Name: "n1", NodeID: "id1"}},
		"another URI":       {uris: []string{"spiffe://x/y", "setpoint://c1/reader/bo"}, want: Identity{ClusterID: "c1", Role: RoleReader, Name: "bo"}},
		"none":              {err: "carries 0 setpoint:// identities"},
		"two":               {uris: []string{"setpoint://c1/reader/bo", "setpoint://c1/admin/bo"}, err: "carries 2 setpoint:// identities"},
		"the authority":     {uris: []string{"setpoint://c1/ca"}, err: "not of the form"},
		"unknown role":      {uris: []string{"setpoint://c1/root/bo"}, err: `role "root"`},
		"node without id":   {uris: []string{"setpoint://c1/node/n1"}, err: `node id ""`},
		"admin with id":     {uris: []string{"setpoint://c1/admin/bo/id1"}, err: "a node id is given"},
		"too long":          {uris: []string{"setpoint://c1/node/n1/id1/x"}, err: "not of the form"},
		"query":             {uris: []string{"setpoint://c1/admin/bo?x=1"}, err: "has parts"},
		"port":              {uris: []string{"setpoint://c1:8/admin/bo"}, err: "cluster id"},
		"user":              {uris: []string{"setpoint://x@c1/admin/bo"}, err: "has parts"},
		"escaped separator": {uris: []string{"setpoint://c1/admin/a%2Fb"}, err: "a node id is given"},
	} {
		t.Run(name, func(t *testing.T) {
			cert := &x509.Certificate{}
			for _, text := range tc.uris {
				u, err := url.Parse(text)
				if err != nil {
					t.Fatal(err)
				}
				cert.URIs = append(cert.URIs, u)
			}
			got, err := IdentityOf(cert)
			wantError(t, err, tc.err)
			if got != tc.want {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
		})
	}
}

// TestSignIgnoresSubject is the promise that a machine cannot ask to be somebody else.
func TestSignIgnoresSubject(t *testing.T) {
	now := time.Now()
	a := newTestAuthority(t, "c1", now)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	claimed := &url.URL{Scheme: "setpoint", Host: "c1", Path: "/admin/mallory"}
	request := makeRequest(t, &x509.CertificateRequest{
		Subject:     pkix.Name{CommonName: "mallory", OrganizationalUnit: []string{"admin"}},
		DNSNames:    []string{ServerName},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		URIs:        []*url.URL{claimed},
	}, key)
	chain, err := a.Sign(now, testNode, request)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := NewPair(chain, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	cert := pair.Certificate()
	if got := pair.Identity().String(); got != "setpoint://c1/node/n1/n-7f3a" {
		t.Errorf("identity %s", got)
	}
	if cert.Subject.CommonName != "n1" || !slices.Equal(cert.Subject.OrganizationalUnit, []string{"node"}) {
		t.Errorf("subject %s", cert.Subject)
	}
	if len(cert.DNSNames)+len(cert.IPAddresses) != 0 || len(cert.URIs) != 1 {
		t.Errorf("names taken from the request: %v %v %v", cert.DNSNames, cert.IPAddresses, cert.URIs)
	}
}

func TestSignRefuses(t *testing.T) {
	now := time.Now()
	a := newTestAuthority(t, "c1", now)
	good, keyPEM, err := NewRequest()
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	weak, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(good)
	block.Bytes[len(block.Bytes)-1] ^= 1
	forged := pem.EncodeToMemory(block)
	for name, tc := range map[string]struct {
		request []byte
		want    string
	}{
		"good":                {good, ""},
		"empty":               {nil, "not a PEM block"},
		"a key instead":       {keyPEM, "not a PEM block"},
		"the signature wrong": {forged, "not signed by its own key"},
		"RSA":                 {makeRequest(t, &x509.CertificateRequest{}, rsaKey), "ECDSA and Ed25519 are taken"},
		"P-224":               {makeRequest(t, &x509.CertificateRequest{}, weak), "weaker than P-256"},
		"too long":            {make([]byte, maxRequestBytes+1), "at most 16384 are taken"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := a.Sign(now, testNode, tc.request)
			wantError(t, err, tc.want)
		})
	}
}

func TestNewPairRefuses(t *testing.T) {
	now := time.Now()
	a, other := newTestAuthority(t, "c1", now), newTestAuthority(t, "c1", now)
	pair, second := issue(t, a, now, testAdmin), issue(t, a, now, testAdmin)
	leaf, _ := pem.Decode(pair.certPEM)
	leafPEM := pem.EncodeToMemory(leaf)
	for name, tc := range map[string]struct {
		cert, key []byte
		want      string
	}{
		"good":              {pair.certPEM, pair.keyPEM, ""},
		"another's key":     {pair.certPEM, second.keyPEM, "private key does not match"},
		"no authority":      {leafPEM, pair.keyPEM, "found 1 certificates"},
		"another authority": {slices.Concat(leafPEM, other.CertificatePEM()), pair.keyPEM, "is not signed by the authority beside it"},
		"a leaf as one":     {slices.Concat(leafPEM, leafPEM), pair.keyPEM, "is not an authority's"},
		"nothing":           {nil, nil, "read certificate and key"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewPair(tc.cert, tc.key)
			wantError(t, err, tc.want)
		})
	}
}

func makeRequest(t *testing.T, template *x509.CertificateRequest, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// handshake connects a client to a server and returns what each saw.
func handshake(t *testing.T, server, client *tls.Config) (seen tls.ConnectionState, serverErr, clientErr error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	done := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			done <- err
			return
		}
		defer conn.Close()
		s := tls.Server(conn, server)
		err = s.HandshakeContext(t.Context())
		seen = s.ConnectionState()
		if err == nil {
			_, err = s.Write([]byte("x"))
		}
		done <- err
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := tls.Client(conn, client)
	clientErr = c.HandshakeContext(t.Context())
	if clientErr == nil {
		// A server's refusal of the client's certificate arrives only with the first read.
		_, clientErr = c.Read(make([]byte, 1))
	}
	conn.Close()
	return seen, <-done, clientErr
}
