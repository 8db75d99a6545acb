package runner

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

const certificateLife = 10 * 365 * 24 * time.Hour // longer than a process lives

// identity is the key with which the host shows one plugin process who it is. go-plugin can make one itself, but only on the
// curve P-521, which several TLS libraries of other languages do not know; so this one is on P-256.
type identity struct {
	config      *tls.Config // for the connection to that process; go-plugin adds the plugin's certificate as its only root
	certificate string      // PEM, for the plugin
}

func newIdentity() (identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return identity{}, fmt.Errorf("make a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return identity{}, fmt.Errorf("make a serial number: %w", err)
	}
	const name = "localhost" // both sides of go-plugin's mutual TLS expect it
	now := time.Now()
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		DNSNames:              []string{name},
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		SerialNumber:          serial,
		NotBefore:             now.Add(-time.Minute),
		NotAfter:              now.Add(certificateLife),
		IsCA:                  true, // it is its own root
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return identity{}, fmt.Errorf("make a certificate: %w", err)
	}
	return identity{
		config: &tls.Config{
			Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
			ServerName:   name,
			MinVersion:   tls.VersionTLS12,
		},
		certificate: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
	}, nil
}
