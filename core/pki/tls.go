package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// protocols are what both sides speak, in the order in which they prefer it.
var protocols = []string{"h2", "http/1.1"}

// AgentProtocol is among the protocols that agents offer. Nobody speaks it: a server sees by it, before it has computed anything, that an agent connects.
const AgentProtocol = "setpoint-agent"

// ServerTLS returns the configuration of a server's listener. It shows the pair whose authority a client asks for by name, or the oldest to one that names none,
// and trusts the authorities of all its pairs, as they are when a client connects. A client's certificate is verified if it shows one; who must show one is decided
// call by call with PeerIdentity, since a machine that joins has none yet.
func ServerTLS(holder *Holder) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: protocols,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			return holder.serving(hello.ServerName)
		},
	}
}

// PageTLS returns the configuration of a listener for browsers. It asks for no certificate: a browser would ask its user which, and has none. What it shows is what
// certificate returns; if that is nil, the pair of the newest authority.
func PageTLS(holder *Holder, certificate func() (*tls.Certificate, error)) *tls.Config {
	if certificate == nil {
		certificate = holder.certificate
	}
	shown := &tls.Config{
		MinVersion:     tls.VersionTLS13,
		NextProtos:     protocols,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate() },
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		NextProtos:         protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return shown, nil },
	}
}

// serverConfig is what a server says with one pair to those who trust its authority.
func serverConfig(pair *Pair, trusted *x509.CertPool) *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		NextProtos:   protocols,
		ClientAuth:   tls.VerifyClientCertIfGiven,
		ClientCAs:    trusted,
		Certificates: []tls.Certificate{pair.tls},
	}
}

// askFor is the name by which a client asks for a server whose certificate it can verify. It is no name of the certificate.
func askFor(authority Fingerprint) string { return authority.String() + ".setpoint.internal" }

// ClientTLS returns the configuration of a client that shows the holder's certificate and talks to servers of its cluster only: the peer
// must be named a server by the authority, whatever address was dialled. A nil holder shows none.
func ClientTLS(holder *Holder, authority *x509.Certificate) *tls.Config {
	config := trusting(FingerprintOf(authority), func(*tls.ConnectionState) (*x509.Certificate, error) { return authority, nil })
	if holder != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return holder.certificate()
		}
	}
	return config
}

// JoinTLS returns the configuration for the one call with which a machine joins, when it knows nothing of the cluster but the fingerprint
// in its token. The server must show a certificate chain that ends in an authority of that fingerprint and names it a server. The
// authority is in the connection's PeerCertificates; AuthorityOf finds it there.
func JoinTLS(fingerprint Fingerprint) *tls.Config {
	return trusting(fingerprint, func(conn *tls.ConnectionState) (*x509.Certificate, error) { return AuthorityOf(conn, fingerprint) })
}

// trusting returns the configuration of a client that talks to what an authority names a server.
func trusting(fingerprint Fingerprint, authority func(*tls.ConnectionState) (*x509.Certificate, error)) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: protocols,
		ServerName: askFor(fingerprint),
		// The usual verification wants the name that was asked for, and has no root to begin from where a machine joins: VerifyConnection does all of it.
		InsecureSkipVerify: true,
		VerifyConnection: func(conn tls.ConnectionState) error {
			ca, err := authority(&conn)
			if err != nil {
				return err
			}
			if len(conn.PeerCertificates) == 0 {
				return errNoServerCertificate
			}
			_, err = conn.PeerCertificates[0].Verify(x509.VerifyOptions{
				DNSName:   ServerName,
				Roots:     pool(ca),
				KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			})
			if _, foreign := errors.AsType[x509.UnknownAuthorityError](err); foreign {
				return fmt.Errorf("verify the server's certificate: it is of another cluster, or of one whose authority was replaced: %w", err)
			}
			if err != nil {
				return fmt.Errorf("verify the server's certificate: %w", err)
			}
			return nil
		},
	}
}

// ErrOtherCluster is returned when a machine that joins is shown no certificate of the authority that its token names. Asking again changes nothing.
var ErrOtherCluster = errors.New("the server does not belong to the cluster of the join token")

var errNoServerCertificate = errors.New("the server showed no certificate")

// AuthorityOf returns the authority of that fingerprint from the certificates that a server showed.
func AuthorityOf(conn *tls.ConnectionState, fingerprint Fingerprint) (*x509.Certificate, error) {
	if len(conn.PeerCertificates) == 0 {
		return nil, errNoServerCertificate
	}
	for _, cert := range conn.PeerCertificates[1:] {
		if cert.IsCA && FingerprintOf(cert) == fingerprint {
			return cert, nil
		}
	}
	return nil, fmt.Errorf("%w: none of its certificates has the fingerprint %s", ErrOtherCluster, fingerprint)
}

// PeerAuthority returns the fingerprint of the authority that the certificate at the other end of a connection was verified with. Without a verified certificate the
// error is ErrNoCertificate.
func PeerAuthority(conn *tls.ConnectionState) (Fingerprint, error) {
	if conn == nil || len(conn.VerifiedChains) == 0 || len(conn.VerifiedChains[0]) == 0 {
		return Fingerprint{}, ErrNoCertificate
	}
	chain := conn.VerifiedChains[0]
	return FingerprintOf(chain[len(chain)-1]), nil
}

func pool(authorities ...*x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	for _, a := range authorities {
		p.AddCert(a)
	}
	return p
}
