package pki

import (
	"crypto/tls"
	"time"
)

// Credential is by what somebody is known: what his verified certificate says, and by whom it was issued. It is a value.
type Credential struct {
	Identity  Identity
	Authority Fingerprint // that the certificate was verified with
	Serial    string      // of the certificate
	Expires   time.Time   // when it does
}

// PeerCredential returns by what who is at the other end of a connection is known. Without a verified certificate the error is ErrNoCertificate.
func PeerCredential(conn *tls.ConnectionState) (Credential, error) {
	id, err := PeerIdentity(conn)
	if err != nil {
		return Credential{}, err
	}
	authority, err := PeerAuthority(conn)
	if err != nil {
		return Credential{}, err
	}
	cert := conn.VerifiedChains[0][0]
	return Credential{Identity: id, Authority: authority, Serial: Serial(cert), Expires: cert.NotAfter}, nil
}

// Credential returns by what the holder of the pair is known.
func (p *Pair) Credential() Credential {
	return Credential{Identity: p.identity, Authority: FingerprintOf(p.ca), Serial: Serial(p.leaf), Expires: p.leaf.NotAfter}
}
