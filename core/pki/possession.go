package pki

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
)

// ErrNotIssued is returned for a certificate that no authority of the cluster issued, or one that was replaced since.
var ErrNotIssued = errors.New("the certificate was not issued by an authority that the cluster trusts now")

// possessionLabel keeps what is signed here apart from whatever else the key signs.
const possessionLabel = "setpoint: possession of a certificate's key\n"

// Prove signs a signing request, in DER, with the key of the pair's certificate, which may have expired: so who asks for the new certificate shows that he holds the old one.
func (p *Pair) Prove(request []byte) ([]byte, error) {
	key, ok := p.tls.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("prove possession: the key of %s cannot sign", p.identity.Name)
	}
	message, hash := possessionMessage(request), crypto.Hash(0)
	if _, pure := key.Public().(ed25519.PublicKey); !pure {
		digest := sha256.Sum256(message)
		message, hash = digest[:], crypto.SHA256
	}
	proof, err := key.Sign(rand.Reader, message, hash)
	if err != nil {
		return nil, fmt.Errorf("prove possession: %w", err)
	}
	return proof, nil
}

// CheckProof returns nil if Prove made the proof, for this request, with the key of the certificate.
func CheckProof(cert *x509.Certificate, request, proof []byte) error {
	algorithm := x509.ECDSAWithSHA256
	if cert.PublicKeyAlgorithm == x509.Ed25519 {
		algorithm = x509.PureEd25519
	}
	if err := cert.CheckSignature(algorithm, possessionMessage(request), proof); err != nil {
		return fmt.Errorf("check possession of the key of %q: %w", cert.Subject.CommonName, err)
	}
	return nil
}

func possessionMessage(request []byte) []byte { return slices.Concat([]byte(possessionLabel), request) }

// Issued returns who a certificate was issued to, by one of the authorities, whether or not its time has ended. The error is ErrNotIssued if none of them did.
func (a Authorities) Issued(cert *x509.Certificate) (Identity, error) {
	for _, authority := range a.All() {
		if cert.CheckSignatureFrom(authority.cert) != nil {
			continue
		}
		id, err := IdentityOf(cert)
		if err == nil && id.ClusterID != authority.clusterID {
			err = ErrNotIssued
		}
		return id, err
	}
	return Identity{}, ErrNotIssued
}
