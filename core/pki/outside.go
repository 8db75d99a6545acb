package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// minRSABits is the length of an RSA key below which no authority from outside is taken.
const minRSABits = 2048

// Outside is an authority that somebody else's authority signed.
type Outside struct {
	*Authority
	Chain []*x509.Certificate // what leads from it to a root that others trust; may be empty. Nobody in the cluster reads it
}

// NewAuthorityRequest makes a key for a cluster's authority and a request for its certificate, both in PEM, for an authority outside to sign. The request asks for
// an intermediate authority that names the cluster.
func NewAuthorityRequest(clusterID string) (request, key []byte, err error) {
	if !validCluster(clusterID) {
		return nil, nil, fmt.Errorf("request an authority: cluster id %q is not 1 to 63 lower-case letters, digits and inner dashes", clusterID)
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("request an authority: %w", err)
	}
	constraints, err := asn1.Marshal(struct {
		IsCA bool `asn1:"optional"`
		Path int
	}{true, 0})
	if err != nil {
		return nil, nil, fmt.Errorf("request an authority: %w", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:         authorityName(clusterID),
		URIs:            []*url.URL{authorityURI(clusterID)},
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: constraints}}, // basic constraints, RFC 5280, 4.2.1.9
	}, private)
	if err != nil {
		return nil, nil, fmt.Errorf("request an authority: %w", err)
	}
	key, err = encodeKey(private)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), key, err
}

// LoadOutside reads an authority from two files in PEM: its certificate, followed by those that lead to its root, and its key, which only its owner may read. An
// authority that would not serve the cluster is a *FileError that says why: of another cluster or of none, one whose time has not come or has passed, or one
// that may not sign what it would have to. An empty clusterID stands for the one that the certificate names.
func LoadOutside(certificate, key, clusterID string, now time.Time) (*Outside, error) {
	const op = "load the authority from outside"
	secret, err := readSecret(op, key)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(certificate)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	wrong := func(path string, err error, hint string) error {
		return &FileError{Op: op, Path: path, Err: err, Hint: hint}
	}
	certs, _, err := decode(text)
	if err == nil && len(certs) == 0 {
		err = errors.New("it has no certificate")
	}
	if err != nil {
		return nil, wrong(certificate, err, "PEM is read: the authority's certificate first, then those that lead to its root")
	}
	signer, err := anyKey(secret)
	if err != nil {
		return nil, wrong(key, err, "PEM is read: PKCS #8, PKCS #1 or SEC 1, not encrypted")
	}
	a, err := newAuthority(certs[0], signer)
	if err != nil {
		return nil, wrong(certificate, err, "`setpoint ca request` makes a key and a request that names the cluster; whoever signs it keeps its subject alternative name and has it be an authority")
	}
	if clusterID != "" && a.clusterID != clusterID {
		return nil, wrong(certificate, fmt.Errorf("it is for cluster %s, and this is %s", a.clusterID, clusterID), "`setpoint ca request` names the right one")
	}
	if err := a.serves(now); err != nil {
		return nil, wrong(certificate, err, "have another one signed, from what `setpoint ca request` makes")
	}
	return &Outside{Authority: a, Chain: certs[1:]}, nil
}

// anyKey parses a key in any of the forms that other programs write.
func anyKey(text []byte) (crypto.Signer, error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		var key any
		var err error
		switch block.Type {
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		case "EC PARAMETERS", "CERTIFICATE":
			continue
		default:
			return nil, fmt.Errorf("it has a PEM block %s", block.Type)
		}
		if err != nil {
			return nil, err
		}
		signer, ok := key.(crypto.Signer)
		if !ok {
			return nil, fmt.Errorf("a key of type %T cannot sign", key)
		}
		if weak, is := key.(*rsa.PrivateKey); is && weak.N.BitLen() < minRSABits {
			return nil, fmt.Errorf("the RSA key has %d bits, fewer than %d", weak.N.BitLen(), minRSABits)
		}
		return signer, nil
	}
	return nil, errors.New("it has no key")
}

// serves tries what the authority will have to do, as those who trust it will look at it.
func (a *Authority) serves(now time.Time) error {
	if now.Before(a.cert.NotBefore) || now.After(a.cert.NotAfter) {
		return fmt.Errorf("it is valid from %s to %s, and the clock here shows %s", stamp(a.cert.NotBefore), stamp(a.cert.NotAfter), stamp(now))
	}
	if a.cert.KeyUsage != 0 && a.cert.KeyUsage&x509.KeyUsageCertSign == 0 {
		return errors.New("its key usage does not let it sign certificates")
	}
	for _, id := range []Identity{{Role: RoleServer, Name: "trial"}, {Role: RoleNode, Name: "trial", NodeID: "trial"}} {
		pair, err := a.Issue(now, id)
		if err != nil {
			return err
		}
		look := x509.VerifyOptions{Roots: pool(a.cert), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
		if id.Role == RoleServer {
			look.DNSName, look.KeyUsages = ServerName, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		}
		if _, err := pair.leaf.Verify(look); err != nil {
			return fmt.Errorf("the certificate of a %s that it signs would not be taken: %w", id.Role, err)
		}
	}
	return nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Adopt has an authority from outside be that of the cluster whose authorities a directory keeps. A directory without one has it from then on; otherwise it
// replaces the one that is there, as Rotate does, unless it is that one. The error is ErrRotating while another one retires.
func Adopt(dir string, outside *Outside) (Authorities, error) {
	old, err := LoadAuthority(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return Authorities{}, fmt.Errorf("adopt the authority from outside: %w", err)
		}
		if err := outside.save(filepath.Join(dir, AuthorityFile)); err != nil {
			return Authorities{}, fmt.Errorf("adopt the authority from outside: %w", err)
		}
		return Authorities{Current: outside.Authority}, publish(dir, outside.Authority)
	case err != nil:
		return Authorities{}, err
	case old.cert.Equal(outside.cert):
		return LoadOrCreateAuthorities(dir, outside.clusterID, time.Time{})
	}
	return replace(dir, old, outside.Authority)
}

// WithChain returns the pair as it is shown to those who trust none of the cluster's authorities but what signed one.
func (p *Pair) WithChain(chain []*x509.Certificate) *Pair {
	if len(chain) == 0 {
		return p
	}
	out := *p
	out.tls.Certificate = slices.Clone(p.tls.Certificate)
	for _, c := range chain {
		out.tls.Certificate = append(out.tls.Certificate, c.Raw)
	}
	return &out
}
