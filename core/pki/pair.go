package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"sync/atomic"
	"time"
)

// Pair is a certificate with its key and the authority that signed it. It is not changed once made.
type Pair struct {
	identity Identity
	leaf     *x509.Certificate
	ca       *x509.Certificate
	certPEM  []byte // leaf, then authority
	keyPEM   []byte
	tls      tls.Certificate
}

// NewPair puts together what Sign returned and the key that the request was made with, both in PEM. It refuses a key that is not the
// certificate's, a certificate that the authority beside it did not sign, and one that names no identity. Expiry is not looked at.
func NewPair(certPEM, keyPEM []byte) (*Pair, error) {
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("read certificate and key: %w", err)
	}
	if len(cert.Certificate) != 2 {
		return nil, fmt.Errorf("read certificate and key: found %d certificates, not the holder's and the authority's", len(cert.Certificate))
	}
	ca, err := x509.ParseCertificate(cert.Certificate[1])
	if err != nil {
		return nil, fmt.Errorf("read the authority's certificate: %w", err)
	}
	clusterID, err := clusterOf(ca)
	if err != nil {
		return nil, err
	}
	if err := cert.Leaf.CheckSignatureFrom(ca); err != nil {
		return nil, fmt.Errorf("certificate %q is not signed by the authority beside it: %w", cert.Leaf.Subject.CommonName, err)
	}
	id, err := IdentityOf(cert.Leaf)
	if err != nil {
		return nil, err
	}
	if id.ClusterID != clusterID {
		return nil, fmt.Errorf("certificate %q is for cluster %s, its authority for %s", id.Name, id.ClusterID, clusterID)
	}
	return &Pair{identity: id, leaf: cert.Leaf, ca: ca, certPEM: certPEM, keyPEM: keyPEM, tls: cert}, nil
}

// Identity returns who the holder is.
func (p *Pair) Identity() Identity { return p.identity }

// Certificate returns the holder's certificate. The caller does not change it.
func (p *Pair) Certificate() *x509.Certificate { return p.leaf }

// Authority returns the certificate of the authority that signed it. The caller does not change it.
func (p *Pair) Authority() *x509.Certificate { return p.ca }

// CertificatePEM returns the holder's and the authority's certificate in PEM.
func (p *Pair) CertificatePEM() []byte { return bytes.Clone(p.certPEM) }

// RenewAt returns when the certificate should be renewed: a third of what it was issued for before its end, which leaves 30 days of 90 to do it in. One that
// ends with its authority is never due: there is no later end.
func (p *Pair) RenewAt() time.Time {
	if !p.leaf.NotAfter.Before(p.ca.NotAfter) {
		return p.leaf.NotAfter
	}
	return p.leaf.NotAfter.Add(-Validity / 3)
}

// Expired reports whether the certificate's time has ended.
func (p *Pair) Expired(now time.Time) bool { return now.After(p.leaf.NotAfter) }

// InForce returns an error with both times if the certificate is not valid at a time: then the clock of who asks or of who issued it is wrong.
func (p *Pair) InForce(now time.Time) error {
	if now.Before(p.leaf.NotBefore) || now.After(p.leaf.NotAfter) {
		return fmt.Errorf("the certificate is valid from %s to %s, and the clock here shows %s: it or the server's is wrong",
			p.leaf.NotBefore.UTC().Format(time.RFC3339), p.leaf.NotAfter.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return nil
}

// NewRequest makes an ECDSA P-256 key and a signing request for it, both in PEM. The key never leaves the machine that calls this.
func NewRequest() (request, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make key: %w", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, private)
	if err != nil {
		return nil, nil, fmt.Errorf("make signing request: %w", err)
	}
	key, err = encodeKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("make signing request: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), key, nil
}

// Holder is the place where those who open connections find the pair in use, so that a renewed one serves from the next connection on. A server has one pair for each
// authority by which clients may know it. It is safe for use by several goroutines.
type Holder struct {
	held atomic.Pointer[held]
}

// held is what a holder holds. It does not change.
type held struct {
	pairs   []*Pair                // the newest authority's first
	servers map[string]*tls.Config // of a server, by the name that clients of an authority ask for
}

// NewHolder returns a holder of a pair, or of none.
func NewHolder(pair *Pair) *Holder {
	h := new(Holder)
	if pair != nil {
		h.Set(pair)
	}
	return h
}

// Set replaces what is held. The pairs of a server are given with that of the newest authority first, and each is of another authority.
func (h *Holder) Set(pairs ...*Pair) {
	next := &held{pairs: pairs, servers: map[string]*tls.Config{}}
	var authorities []*x509.Certificate
	for _, p := range pairs {
		authorities = append(authorities, p.ca)
	}
	trusted := pool(authorities...)
	for _, p := range pairs {
		next.servers[askFor(FingerprintOf(p.ca))] = serverConfig(p, trusted)
	}
	h.held.Store(next)
}

// Pair returns the pair in use, or nil if there is none yet.
func (h *Holder) Pair() *Pair {
	if held := h.held.Load(); held != nil {
		return held.pairs[0]
	}
	return nil
}

// Pairs returns all pairs in use, the newest authority's first.
func (h *Holder) Pairs() []*Pair {
	if held := h.held.Load(); held != nil {
		return held.pairs
	}
	return nil
}

// serving returns what a server says to a client that asks for it by a name.
func (h *Holder) serving(name string) (*tls.Config, error) {
	held := h.held.Load()
	if held == nil {
		return nil, errNoPair
	}
	if config := held.servers[name]; config != nil {
		return config, nil
	}
	oldest := held.pairs[len(held.pairs)-1]
	return held.servers[askFor(FingerprintOf(oldest.ca))], nil
}

var errNoPair = errors.New("no certificate yet")

func (h *Holder) certificate() (*tls.Certificate, error) {
	pair := h.Pair()
	if pair == nil {
		return nil, errNoPair
	}
	return &pair.tls, nil
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// randomBytes returns n bytes from the system's source, which crypto/rand promises never to fail.
func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

// serial returns a random positive serial number of 127 bits.
func serial() *big.Int {
	b := randomBytes(16)
	b[0] &= 0x7f
	b[15] |= 1
	return new(big.Int).SetBytes(b)
}
