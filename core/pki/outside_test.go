package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// root is an authority outside, which knows nothing of clusters.
type root struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newRoot(t *testing.T, now time.Time) root {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Example root"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(1000 * time.Hour),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return root{cert, key}
}

// sign makes an authority of a request, changed as whoever signs may, and returns its certificate and the root's in PEM.
func (r root) sign(t *testing.T, now time.Time, request []byte, change func(*x509.Certificate)) []byte {
	t.Helper()
	block, _ := pem.Decode(request)
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: csr.Subject, URIs: csr.URIs, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(500 * time.Hour),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, r.cert, csr.PublicKey, r.key)
	if err != nil {
		t.Fatal(err)
	}
	return append(encodeCert(der), encodeCert(r.cert.Raw)...)
}

// outsideFiles writes certificate and key to files.
func outsideFiles(t *testing.T, certificate, key []byte) (string, string) {
	t.Helper()
	dir := t.TempDir()
	paths := [2]string{filepath.Join(dir, "authority.pem"), filepath.Join(dir, "authority-key.pem")}
	for i, text := range [][]byte{certificate, key} {
		if err := os.WriteFile(paths[i], text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return paths[0], paths[1]
}

func request(t *testing.T, clusterID string) (request, key []byte) {
	t.Helper()
	request, key, err := NewAuthorityRequest(clusterID)
	if err != nil {
		t.Fatal(err)
	}
	return request, key
}

// An authority that another one signed does all that one does which the server made, and whoever trusts the root alone takes its server's certificate.
func TestAnAuthorityFromOutsideServes(t *testing.T) {
	now := time.Now()
	r := newRoot(t, now)
	csr, key := request(t, "c1")
	certificate, keyFile := outsideFiles(t, r.sign(t, now, csr, nil), key)
	outside, err := LoadOutside(certificate, keyFile, "", now)
	if err != nil || outside.ClusterID() != "c1" || len(outside.Chain) != 1 {
		t.Fatalf("got %+v, %v", outside, err)
	}
	dir := filepath.Join(t.TempDir(), "ca")
	got, err := Adopt(dir, outside)
	if err != nil || got.Retiring != nil || got.Current.Fingerprint() != outside.Fingerprint() {
		t.Fatalf("adopted as %+v, %v", got, err)
	}
	again, err := LoadOrCreateAuthorities(dir, "c1", now)
	if err != nil || again.Current.Fingerprint() != outside.Fingerprint() {
		t.Fatalf("read again it is %+v, %v", again, err)
	}
	server := issue(t, again.Current, now, testServer).WithChain(outside.Chain)
	listening := ServerTLS(NewHolder(server))
	node := issue(t, again.Current, now, testNode)
	for name, config := range map[string]func() (serverErr, clientErr error){
		"a node": func() (error, error) {
			_, s, c := handshake(t, listening, ClientTLS(NewHolder(node), node.Authority()))
			return s, c
		},
		"a machine that joins": func() (error, error) {
			_, s, c := handshake(t, listening, JoinTLS(outside.Fingerprint()))
			return s, c
		},
	} {
		if serverErr, clientErr := config(); serverErr != nil || clientErr != nil {
			t.Errorf("%s: server %v, client %v", name, serverErr, clientErr)
		}
	}
	between := x509.NewCertPool()
	between.AddCert(outside.Certificate())
	if _, err := server.Certificate().Verify(x509.VerifyOptions{DNSName: ServerName, Roots: pool(r.cert), Intermediates: between}); err != nil {
		t.Errorf("who trusts the root: %v", err)
	}
	if shown := len(server.tls.Certificate); shown != 3 {
		t.Errorf("the server shows %d certificates, want its own, the authority's and the root's", shown)
	}
}

// An authority from outside replaces the one that is there as any other does: both serve, and no third one comes in between.
func TestAnAuthorityFromOutsideReplaces(t *testing.T) {
	now := time.Now()
	dir := t.TempDir()
	old, err := LoadOrCreateAuthority(dir, "c1", now)
	if err != nil {
		t.Fatal(err)
	}
	r := newRoot(t, now)
	load := func() *Outside {
		csr, key := request(t, "c1")
		certificate, keyFile := outsideFiles(t, r.sign(t, now, csr, nil), key)
		out, err := LoadOutside(certificate, keyFile, "c1", now)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	first, second := load(), load()
	for range 2 { // the second time it is there already
		got, err := Adopt(dir, first)
		if err != nil || got.Current.Fingerprint() != first.Fingerprint() || got.Retiring == nil || got.Retiring.Fingerprint() != old.Fingerprint() {
			t.Fatalf("adopted as %+v, %v", got, err)
		}
	}
	if _, err := Adopt(dir, second); !errors.Is(err, ErrRotating) {
		t.Errorf("a third one: %v", err)
	}
	if err := Retire(dir); err != nil {
		t.Fatal(err)
	}
	if got, err := Adopt(dir, second); err != nil || got.Current.Fingerprint() != second.Fingerprint() || got.Retiring.Fingerprint() != first.Fingerprint() {
		t.Errorf("the next one is adopted as %+v, %v", got, err)
	}
}

func TestWhatWouldNotServeIsRefused(t *testing.T) {
	now := time.Now()
	r := newRoot(t, now)
	_, otherKey := request(t, "c1")
	for what, test := range map[string]struct {
		change func(*x509.Certificate)
		key    []byte // nil: the right one
		mode   os.FileMode
		want   string
	}{
		"no authority": {change: func(c *x509.Certificate) {
			c.IsCA, c.MaxPathLenZero, c.KeyUsage = false, false, x509.KeyUsageDigitalSignature
		}, want: "not an authority's"},
		"names no cluster": {change: func(c *x509.Certificate) { c.URIs = nil }, want: "setpoint://CLUSTER/ca"},
		"another cluster":  {change: func(c *x509.Certificate) { c.URIs = append(c.URIs[:0:0], authorityURI("c2")) }, want: "for cluster c2, and this is c1"},
		"expired":          {change: func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Minute) }, want: "the clock here shows"},
		"may not sign":     {change: func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageCRLSign }, want: "does not let it sign"},
		"for clients only": {change: func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }, want: "of a server that it signs would not be taken"},
		"for other names only": {change: func(c *x509.Certificate) {
			c.PermittedDNSDomainsCritical, c.PermittedDNSDomains = true, []string{"example.com"}
		}, want: "of a server that it signs would not be taken"},
		"another key":   {key: otherKey, want: "not that of the certificate"},
		"no key":        {key: []byte("nothing"), want: "has no key"},
		"a key for all": {mode: 0o644, want: "chmod 600"},
	} {
		t.Run(what, func(t *testing.T) {
			csr, key := request(t, "c1")
			if test.key != nil {
				key = test.key
			}
			certificate, keyFile := outsideFiles(t, r.sign(t, now, csr, test.change), key)
			if test.mode != 0 {
				if err := os.Chmod(keyFile, test.mode); err != nil {
					t.Fatal(err)
				}
			}
			_, err := LoadOutside(certificate, keyFile, "c1", now)
			var file *FileError
			if !errors.As(err, &file) || !strings.Contains(err.Error(), test.want) || file.Hint == "" {
				t.Errorf("got %v, want a hint and %q", err, test.want)
			}
		})
	}
}
