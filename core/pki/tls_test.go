package pki

import (
	"crypto/tls"
	"errors"
	"testing"
	"time"
)

func TestMutualTLS(t *testing.T) {
	now := time.Now()
	a, foreign := newTestAuthority(t, "c1", now), newTestAuthority(t, "c1", now)
	old := now.Add(-Validity - time.Hour)
	server := NewHolder(issue(t, a, now, testServer))
	for name, tc := range map[string]struct {
		server    *Holder
		client    *Pair
		trusts    *Authority
		want      Identity
		serverErr string
		clientErr string
	}{
		"node":                   {server: server, client: issue(t, a, now, testNode), want: Identity{"c1", RoleNode, "n1", "n-7f3a"}},
		"admin":                  {server: server, client: issue(t, a, now, testAdmin), want: Identity{"c1", RoleAdmin, "anna@site", ""}},
		"no client certificate":  {server: server},
		"client of another CA":   {server: server, client: issue(t, foreign, now, testAdmin), serverErr: "unknown authority", clientErr: "unknown certificate authority"},
		"client expired":         {server: server, client: issue(t, a, old, testAdmin), serverErr: "certificate has expired", clientErr: "expired certificate"},
		"client's clock ahead":   {server: server, client: issue(t, a, now.Add(30*time.Minute), testAdmin), want: Identity{"c1", RoleAdmin, "anna@site", ""}},
		"server of another CA":   {server: NewHolder(issue(t, foreign, now, testServer)), clientErr: "unknown authority", serverErr: "bad certificate"},
		"server expired":         {server: NewHolder(issue(t, a, old, testServer)), clientErr: "certificate has expired", serverErr: "bad certificate"},
		"a node poses as server": {server: NewHolder(issue(t, a, now, testNode)), clientErr: "not valid for any names", serverErr: "bad certificate"},
		"server has none yet":    {server: new(Holder), clientErr: "internal error", serverErr: "no certificate yet"},
	} {
		t.Run(name, func(t *testing.T) {
			var holder *Holder
			if tc.client != nil {
				holder = NewHolder(tc.client)
			}
			seen, serverErr, clientErr := handshake(t, ServerTLS(tc.server), ClientTLS(holder, a.Certificate()))
			wantError(t, serverErr, tc.serverErr)
			wantError(t, clientErr, tc.clientErr)
			if tc.serverErr != "" {
				return
			}
			got, err := PeerIdentity(&seen)
			if tc.want == (Identity{}) {
				if !errors.Is(err, ErrNoCertificate) {
					t.Fatalf("identity %v, error %v, want ErrNoCertificate", got, err)
				}
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("identity %v, error %v, want %v", got, err, tc.want)
			}
		})
	}
}

func TestRenewedPairIsUsed(t *testing.T) {
	now := time.Now()
	a := newTestAuthority(t, "c1", now)
	server, client := NewHolder(issue(t, a, now, testServer)), NewHolder(issue(t, a, now, testNode))
	serverTLS, clientTLS := ServerTLS(server), ClientTLS(client, a.Certificate())
	first, _, err := handshake(t, serverTLS, clientTLS)
	if err != nil {
		t.Fatal(err)
	}
	renewed := issue(t, a, now, testNode)
	client.Set(renewed)
	second, _, err := handshake(t, serverTLS, clientTLS)
	if err != nil {
		t.Fatal(err)
	}
	if first.PeerCertificates[0].Equal(second.PeerCertificates[0]) || !second.PeerCertificates[0].Equal(renewed.Certificate()) {
		t.Error("the second connection does not show the renewed certificate")
	}
}

func TestJoinTLS(t *testing.T) {
	now := time.Now()
	a, foreign := newTestAuthority(t, "c1", now), newTestAuthority(t, "c1", now)
	// Whoever holds a leaf may show the true authority's certificate after it.
	posing := issue(t, foreign, now, testServer)
	posing.tls.Certificate[1] = a.Certificate().Raw
	for name, tc := range map[string]struct {
		server *Pair
		want   string
	}{
		"the cluster's server":            {issue(t, a, now, testServer), ""},
		"another cluster's server":        {issue(t, foreign, now, testServer), "does not belong to the cluster of the join token"},
		"foreign, with the true CA shown": {posing, "verify the server's certificate"},
		"a node poses as server":          {issue(t, a, now, testNode), "verify the server's certificate"},
		"expired":                         {issue(t, a, now.Add(-Validity-time.Hour), testServer), "certificate has expired"},
	} {
		t.Run(name, func(t *testing.T) {
			config := JoinTLS(a.Fingerprint())
			seen, _, err := handshake(t, ServerTLS(NewHolder(tc.server)), config)
			wantError(t, err, tc.want)
			if _, err := PeerIdentity(&seen); !errors.Is(err, ErrNoCertificate) {
				t.Errorf("a machine that joins has an identity: %v", err)
			}
		})
	}
}

func TestAuthorityOf(t *testing.T) {
	now := time.Now()
	a := newTestAuthority(t, "c1", now)
	pair := issue(t, a, now, testServer)
	conn := &tls.ConnectionState{}
	_, err := AuthorityOf(conn, a.Fingerprint())
	wantError(t, err, "showed no certificate")
	conn.PeerCertificates = append(conn.PeerCertificates, pair.Certificate())
	_, err = AuthorityOf(conn, a.Fingerprint())
	wantError(t, err, "does not belong to the cluster")
	conn.PeerCertificates = append(conn.PeerCertificates, pair.Authority())
	got, err := AuthorityOf(conn, a.Fingerprint())
	if err != nil || !got.Equal(a.Certificate()) {
		t.Errorf("authority %v, error %v", got, err)
	}
}

func TestServerHosts(t *testing.T) {
	now := time.Now()
	a := newTestAuthority(t, "c1", now)
	cert := issue(t, a, now, testServer, "localhost", "127.0.0.1", "::1", "", "s1.example").Certificate()
	for _, host := range []string{ServerName, "localhost", "127.0.0.1", "::1", "s1.example"} {
		if err := cert.VerifyHostname(host); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if cert.VerifyHostname("s2.example") == nil {
		t.Error("the certificate serves a host that was not named")
	}
}

func TestPagesAskForNoCertificate(t *testing.T) {
	authority, err := NewAuthority("c1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(time.Now(), Identity{Role: RoleServer, Name: "s1"}, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	config := PageTLS(NewHolder(pair), nil)
	if config.GetConfigForClient == nil {
		t.Fatal("what limits handshakes needs GetConfigForClient")
	}
	shown, err := config.GetConfigForClient(&tls.ClientHelloInfo{})
	if err != nil || shown.ClientAuth != tls.NoClientCert || shown.MinVersion != tls.VersionTLS13 {
		t.Errorf("it is %+v, %v", shown, err)
	}
	cert, err := shown.GetCertificate(&tls.ClientHelloInfo{})
	if err != nil || !cert.Leaf.Equal(pair.Certificate()) {
		t.Errorf("it shows %v, %v", cert, err)
	}
}
