package pki

import (
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// While an authority is replaced, those who know the old one and those who know the new one each find a server that they trust, and are taken.
func TestRotationServesBoth(t *testing.T) {
	now := time.Now()
	dir := t.TempDir()
	old, err := LoadOrCreateAuthority(dir, "c1", now)
	if err != nil {
		t.Fatal(err)
	}
	server := NewHolder(issue(t, old, now, testServer))
	listening := ServerTLS(server)
	before := issue(t, old, now, testNode)
	both, err := Rotate(dir, now)
	if err != nil {
		t.Fatal(err)
	}
	if !both.Retiring.Certificate().Equal(old.Certificate()) || both.Current.ClusterID() != "c1" || both.Current.Fingerprint() == old.Fingerprint() {
		t.Fatalf("after %s there is %s, replacing %s", old.Fingerprint(), both.Current.Fingerprint(), both.Retiring.Fingerprint())
	}
	after := issue(t, both.Current, now, testNode)
	try := func(name string, config *tls.Config, want *Authority) {
		t.Helper()
		seen, serverErr, clientErr := handshake(t, listening, config)
		if serverErr != nil || clientErr != nil {
			t.Fatalf("%s: server %v, client %v", name, serverErr, clientErr)
		}
		if got, err := PeerAuthority(&seen); want != nil && (err != nil || got != want.Fingerprint()) {
			t.Errorf("%s: known by %s, %v", name, got, err)
		}
	}
	server.Set(issue(t, both.Current, now, testServer), issue(t, old, now, testServer))
	try("a node of the old authority", ClientTLS(NewHolder(before), before.Authority()), old)
	try("a node of the new authority", ClientTLS(NewHolder(after), after.Authority()), both.Current)
	try("a token of before", JoinTLS(old.Fingerprint()), nil)
	try("a token of after", JoinTLS(both.Current.Fingerprint()), nil)

	server.Set(issue(t, both.Current, now, testServer))
	try("a node of the new authority", ClientTLS(NewHolder(after), after.Authority()), both.Current)
	if _, _, err := handshake(t, listening, ClientTLS(NewHolder(before), before.Authority())); err == nil {
		t.Error("a node of the retired authority trusts the server")
	}
	if _, serverErr, _ := handshake(t, listening, ClientTLS(NewHolder(before), after.Authority())); serverErr == nil {
		t.Error("the server trusts a node of the retired authority")
	}
}

func TestRotationSurvivesACrash(t *testing.T) {
	now := time.Now()
	dir := t.TempDir()
	first, err := LoadOrCreateAuthority(dir, "c1", now)
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	load := func() Authorities {
		t.Helper()
		a, err := LoadOrCreateAuthorities(dir, "c1", now)
		if err != nil {
			t.Fatal(err)
		}
		ca, err := LoadCertificate(filepath.Join(dir, CertificateFile))
		if err != nil || !ca.Equal(a.Current.Certificate()) {
			t.Fatalf("what is published is not the authority: %v", err)
		}
		return a
	}
	// After the first write.
	if err := first.save(filepath.Join(dir, RetiringFile)); err != nil {
		t.Fatal(err)
	}
	if a := load(); a.Retiring != nil || a.Current.Fingerprint() != first.Fingerprint() {
		t.Errorf("a rotation that had not begun is one: %+v", a)
	}
	if _, err := os.Stat(filepath.Join(dir, RetiringFile)); err == nil {
		t.Error("it leaves a file")
	}
	// After the second, before the third.
	public := read(CertificateFile)
	made, err := Rotate(dir, now)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, CertificateFile), public, 0o644); err != nil {
		t.Fatal(err)
	}
	if a := load(); a.Retiring == nil || a.Current.Fingerprint() != made.Current.Fingerprint() {
		t.Errorf("the rotation is lost: %+v", a)
	}
	if _, err := Rotate(dir, now); !errors.Is(err, ErrRotating) {
		t.Errorf("another rotation: %v", err)
	}
	if err := Retire(dir); err != nil {
		t.Fatal(err)
	}
	if a := load(); a.Retiring != nil || a.Current.Fingerprint() != made.Current.Fingerprint() {
		t.Errorf("it does not end: %+v", a)
	}
	if err := Retire(dir); !errors.Is(err, ErrNotRotating) {
		t.Errorf("another end: %v", err)
	}
	var names []string
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{CertificateFile, AuthorityFile}; !slices.Equal(names, want) {
		t.Errorf("files %v, want %v", names, want)
	}
}
