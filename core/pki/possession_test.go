package pki

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"testing"
	"time"
)

// What was signed with a certificate's key for one request proves possession for that request, by that certificate, and for nothing else.
func TestPossession(t *testing.T) {
	a, err := NewAuthority("c1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	node := Identity{Role: RoleNode, Name: "worker", NodeID: "n1"}
	ecdsaPair, err := a.Issue(time.Now(), node)
	if err != nil {
		t.Fatal(err)
	}
	for name, pair := range map[string]*Pair{"ecdsa": ecdsaPair, "ed25519": ed25519Pair(t, a, node)} {
		t.Run(name, func(t *testing.T) {
			request := []byte("a signing request")
			proof, err := pair.Prove(request)
			if err != nil {
				t.Fatal(err)
			}
			if err := CheckProof(pair.Certificate(), request, proof); err != nil {
				t.Errorf("the holder is refused: %v", err)
			}
			other, err := a.Issue(time.Now(), node)
			if err != nil {
				t.Fatal(err)
			}
			if CheckProof(other.Certificate(), request, proof) == nil {
				t.Error("the proof serves for another certificate of the same node")
			}
			if CheckProof(pair.Certificate(), []byte("another request"), proof) == nil {
				t.Error("the proof serves for another request")
			}
			if CheckProof(pair.Certificate(), request, nil) == nil {
				t.Error("no proof serves")
			}
		})
	}
}

func ed25519Pair(t *testing.T, a *Authority, id Identity) *Pair {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	chain, err := a.Sign(time.Now(), id, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	if err != nil {
		t.Fatal(err)
	}
	text, err := encodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := NewPair(chain, text)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func TestIssuedByTheCluster(t *testing.T) {
	long := time.Now().Add(-2 * Validity)
	current, err := NewAuthority("c1", long)
	if err != nil {
		t.Fatal(err)
	}
	retiring, err := NewAuthority("c1", long)
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := NewAuthority("c1", long) // another cluster may bear the same id
	if err != nil {
		t.Fatal(err)
	}
	node := Identity{ClusterID: "c1", Role: RoleNode, Name: "worker", NodeID: "n1"}
	for name, test := range map[string]struct {
		by   *Authority
		want error
	}{"current": {current, nil}, "retiring": {retiring, nil}, "stranger": {stranger, ErrNotIssued}} {
		pair, err := test.by.Issue(long, node)
		if err != nil {
			t.Fatal(err)
		}
		if !pair.Expired(time.Now()) {
			t.Fatal("the certificate has not expired")
		}
		got, err := Authorities{Current: current, Retiring: retiring}.Issued(pair.Certificate())
		if !errors.Is(err, test.want) || err == nil && got != node {
			t.Errorf("%s: %v, %v, want %v", name, got, err, test.want)
		}
	}
}
