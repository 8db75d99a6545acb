package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base32"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"
)

// Validity of what is issued. The authority begins an hour before it is made, so that a clock that is a little behind accepts it, and every certificate begins
// with the authority: one that is issued while a clock is ahead serves when that is put right.
const (
	Validity   = 90 * 24 * time.Hour
	CAValidity = 10 * 365 * 24 * time.Hour
	Backdate   = time.Hour
)

// ServerName is in every server's certificate, and clients ask for it, whatever address they dial. So a server may be reached by an
// address that was not known when its certificate was issued; what counts is that the cluster's authority named it a server.
const ServerName = "server.setpoint.internal"

// maxRequestBytes limits a signing request; one with a P-384 key has about 500 bytes.
const maxRequestBytes = 16 << 10

// caPath stands in the authority's own URI, setpoint://CLUSTER/ca, in the place of an identity.
const caPath = "/ca"

// Authority signs certificates for one cluster. It is safe for use by several goroutines.
type Authority struct {
	clusterID string
	cert      *x509.Certificate
	key       crypto.Signer
}

// NewAuthority makes an authority with a fresh ECDSA P-256 key. An empty clusterID is replaced by a random one.
func NewAuthority(clusterID string, now time.Time) (*Authority, error) {
	if clusterID == "" {
		clusterID = randomClusterID()
	}
	if !validCluster(clusterID) {
		return nil, fmt.Errorf("create authority: cluster id %q is not 1 to 63 lower-case letters, digits and inner dashes", clusterID)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("create authority: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               authorityName(clusterID),
		URIs:                  []*url.URL{authorityURI(clusterID)},
		NotBefore:             now.Add(-Backdate),
		NotAfter:              now.Add(CAValidity),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("create authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("create authority: %w", err)
	}
	return newAuthority(cert, key)
}

func authorityName(clusterID string) pkix.Name {
	return pkix.Name{CommonName: "Setpoint CA " + clusterID, Organization: []string{"Setpoint"}}
}

func authorityURI(clusterID string) *url.URL {
	return &url.URL{Scheme: scheme, Host: clusterID, Path: caPath}
}

// newAuthority checks that certificate and key are a cluster's authority and belong together.
func newAuthority(cert *x509.Certificate, key crypto.Signer) (*Authority, error) {
	clusterID, err := clusterOf(cert)
	if err != nil {
		return nil, err
	}
	if !samePublicKey(cert.PublicKey, key.Public()) {
		return nil, errors.New("the key is not that of the certificate")
	}
	return &Authority{clusterID: clusterID, cert: cert, key: key}, nil
}

// ClusterID returns the id of the cluster whose authority this is.
func (a *Authority) ClusterID() string { return a.clusterID }

// Certificate returns the authority's own certificate, which is what clients and nodes trust. The caller does not change it.
func (a *Authority) Certificate() *x509.Certificate { return a.cert }

// CertificatePEM returns the authority's certificate in PEM.
func (a *Authority) CertificatePEM() []byte { return encodeCert(a.cert.Raw) }

// Fingerprint returns the SHA-256 of the authority's certificate, by which a join token names it.
func (a *Authority) Fingerprint() Fingerprint { return FingerprintOf(a.cert) }

// Issue makes a key and a certificate for a holder in this cluster, valid from now for Validity, though never longer than the authority.
// The identity's cluster is set by the authority. Hosts, DNS names or IP addresses, are for RoleServer only; ServerName is always added.
func (a *Authority) Issue(now time.Time, id Identity, hosts ...string) (*Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("issue certificate for %s: %w", id.Name, err)
	}
	chain, err := a.sign(now, id, key.Public(), hosts)
	if err != nil {
		return nil, fmt.Errorf("issue certificate for %s: %w", id.Name, err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return nil, fmt.Errorf("issue certificate for %s: %w", id.Name, err)
	}
	return NewPair(chain, keyPEM)
}

// Sign issues a certificate for the key in a signing request, in PEM, whose holder has shown that it has the key. The request's own
// subject, names and extensions are not read; the certificate says id. What comes back is the certificate and the authority's, in PEM.
func (a *Authority) Sign(now time.Time, id Identity, request []byte) ([]byte, error) {
	csr, err := parseRequest(request)
	if err != nil {
		return nil, fmt.Errorf("sign certificate for %s: %w", id.Name, err)
	}
	chain, err := a.sign(now, id, csr.PublicKey, nil)
	if err != nil {
		return nil, fmt.Errorf("sign certificate for %s: %w", id.Name, err)
	}
	return chain, nil
}

func (a *Authority) sign(now time.Time, id Identity, public crypto.PublicKey, hosts []string) ([]byte, error) {
	id.ClusterID = a.clusterID
	if err := id.Validate(); err != nil {
		return nil, err
	}
	if now.After(a.cert.NotAfter) {
		return nil, fmt.Errorf("the authority's certificate expired at %s", a.cert.NotAfter.Format(time.RFC3339))
	}
	template := &x509.Certificate{
		SerialNumber: serial(),
		Subject:      pkix.Name{CommonName: id.Name, Organization: []string{"Setpoint"}, OrganizationalUnit: []string{string(id.Role)}},
		URIs:         []*url.URL{id.uri()},
		NotBefore:    a.cert.NotBefore,
		NotAfter:     now.Add(Validity),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if early := now.Add(-Backdate); early.Before(template.NotBefore) {
		template.NotBefore = early
	}
	if template.NotAfter.After(a.cert.NotAfter) {
		template.NotAfter = a.cert.NotAfter
	}
	if id.Role == RoleServer {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		addHosts(template, hosts)
	} else if len(hosts) > 0 {
		return nil, fmt.Errorf("hosts %s are given with the role %s; only a server has hosts", strings.Join(hosts, ", "), id.Role)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
	if err != nil {
		return nil, err
	}
	return append(encodeCert(der), a.CertificatePEM()...), nil
}

func addHosts(template *x509.Certificate, hosts []string) {
	template.DNSNames = []string{ServerName}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else if host != "" && host != ServerName {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
}

func parseRequest(request []byte) (*x509.CertificateRequest, error) {
	if len(request) > maxRequestBytes {
		return nil, fmt.Errorf("the signing request has %d bytes, at most %d are taken", len(request), maxRequestBytes)
	}
	block, _ := pem.Decode(request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("the signing request is not a PEM block CERTIFICATE REQUEST")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse signing request: %w", err)
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, fmt.Errorf("the signing request is not signed by its own key: %w", err)
	}
	switch key := csr.PublicKey.(type) {
	case *ecdsa.PublicKey:
		if key.Curve.Params().BitSize < 256 {
			return nil, fmt.Errorf("the request's key is on the curve %s, weaker than P-256", key.Curve.Params().Name)
		}
	case ed25519.PublicKey:
	default:
		return nil, fmt.Errorf("the request's key is %s; ECDSA and Ed25519 are taken", csr.PublicKeyAlgorithm)
	}
	return csr, nil
}

// clusterOf returns the id of the cluster whose authority the certificate is.
func clusterOf(cert *x509.Certificate) (string, error) {
	if !cert.IsCA {
		return "", fmt.Errorf("certificate %q is not an authority's", cert.Subject.CommonName)
	}
	if len(cert.URIs) != 1 || cert.URIs[0].Scheme != scheme || cert.URIs[0].Path != caPath || !validCluster(cert.URIs[0].Host) {
		return "", fmt.Errorf("certificate %q names no cluster: its one URI is to be %s://CLUSTER%s", cert.Subject.CommonName, scheme, caPath)
	}
	return cert.URIs[0].Host, nil
}

func samePublicKey(a, b crypto.PublicKey) bool {
	comparable, ok := a.(interface{ Equal(x crypto.PublicKey) bool })
	return ok && comparable.Equal(b)
}

// Fingerprint is the SHA-256 of a certificate's DER form.
type Fingerprint [sha256.Size]byte

// FingerprintOf returns a certificate's fingerprint.
func FingerprintOf(cert *x509.Certificate) Fingerprint { return sha256.Sum256(cert.Raw) }

// String returns the fingerprint in lower-case base32 without padding, as it stands in a join token.
func (f Fingerprint) String() string { return encode32(f[:]) }

// lower is RFC 4648 base32 in lower case, which survives being read aloud and copied from a terminal.
var lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

func encode32(b []byte) string { return lower.EncodeToString(b) }

func randomClusterID() string {
	return encode32(randomBytes(10))
}
