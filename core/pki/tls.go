package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// ServerTLS returns the configuration of a server's listener. A client's certificate is verified if it shows one; who must show one is
// decided call by call with PeerIdentity, since a machine that joins has none yet.
func ServerTLS(holder *Holder, authority *x509.Certificate) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{"h2", "http/1.1"},
		ClientAuth: tls.VerifyClientCertIfGiven,
		ClientCAs:  pool(authority),
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return holder.certificate()
		},
	}
}

// ClientTLS returns the configuration of a client that shows the holder's certificate and talks to servers of its cluster only: the peer
// must be named a server by the authority, whatever address was dialled. A nil holder shows none.
func ClientTLS(holder *Holder, authority *x509.Certificate) *tls.Config {
	config := &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{"h2", "http/1.1"},
		ServerName: ServerName,
		RootCAs:    pool(authority),
	}
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
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{"h2", "http/1.1"},
		ServerName: ServerName,
		// The usual verification has no root to begin from, so VerifyConnection does all of it.
		InsecureSkipVerify: true,
		VerifyConnection: func(conn tls.ConnectionState) error {
			ca, err := AuthorityOf(&conn, fingerprint)
			if err != nil {
				return err
			}
			_, err = conn.PeerCertificates[0].Verify(x509.VerifyOptions{
				DNSName:   ServerName,
				Roots:     pool(ca),
				KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			})
			if err != nil {
				return fmt.Errorf("verify the server's certificate: %w", err)
			}
			return nil
		},
	}
}

// AuthorityOf returns the authority of that fingerprint from the certificates that a server showed.
func AuthorityOf(conn *tls.ConnectionState, fingerprint Fingerprint) (*x509.Certificate, error) {
	if len(conn.PeerCertificates) == 0 {
		return nil, errors.New("the server showed no certificate")
	}
	for _, cert := range conn.PeerCertificates[1:] {
		if cert.IsCA && FingerprintOf(cert) == fingerprint {
			return cert, nil
		}
	}
	return nil, fmt.Errorf("the server does not belong to the cluster of the join token: none of its certificates has the fingerprint %s", fingerprint)
}

func pool(authority *x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(authority)
	return p
}
