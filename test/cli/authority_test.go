package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdSign has an authority of its own sign the request for another one, and writes both certificates to a file, as somebody does who runs a company's.
//
//	sign REQUEST FILE
func cmdSign(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: sign REQUEST FILE")
	}
	block, _ := pem.Decode([]byte(ts.ReadFile(args[0])))
	if block == nil {
		ts.Fatalf("%s is no request", args[0])
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	ts.Check(err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ts.Check(err)
	authority := func(name pkix.Name) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: name, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(1000 * time.Hour),
			KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
		}
	}
	root := authority(pkix.Name{CommonName: "Example root"})
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, key.Public(), key)
	ts.Check(err)
	signed := authority(csr.Subject)
	signed.URIs, signed.MaxPathLenZero = csr.URIs, true
	der, err := x509.CreateCertificate(rand.Reader, signed, root, csr.PublicKey, key)
	ts.Check(err)
	var out []byte
	for _, cert := range [][]byte{der, rootDER} {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})...)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), out, 0o600))
}
