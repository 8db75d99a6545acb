package pki

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestLoadOrCreateAuthority(t *testing.T) {
	now := time.Now()
	dir := filepath.Join(t.TempDir(), "data", "pki")
	first, err := LoadOrCreateAuthority(dir, "", now)
	if err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]fs.FileMode{AuthorityFile: 0o600, CertificateFile: 0o644} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: mode %v, %v, want %v", name, info.Mode(), err, mode)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("files left behind: %v, %v", entries, err)
	}
	second, err := LoadOrCreateAuthority(dir, first.ClusterID(), now.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if second.Fingerprint() != first.Fingerprint() || second.ClusterID() != first.ClusterID() {
		t.Error("another authority is loaded than was created")
	}
	if ca, err := LoadCertificate(filepath.Join(dir, CertificateFile)); err != nil || FingerprintOf(ca) != first.Fingerprint() {
		t.Errorf("public certificate: %v", err)
	}
	// What the first signed is good for the second.
	if err := issue(t, first, now, testNode).Certificate().CheckSignatureFrom(second.Certificate()); err != nil {
		t.Error(err)
	}
}

func TestLoadOrCreateAuthorityRefuses(t *testing.T) {
	now := time.Now()
	other := newTestAuthority(t, "c2", now)
	read := func(path string) []byte {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	write := func(path string, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		spoil     func(key, cert string) error
		clusterID string
		want      string
	}{
		"untouched":       {spoil: func(_, _ string) error { return nil }},
		"public one gone": {spoil: func(_, cert string) error { return os.Remove(cert) }},
		"key gone":        {spoil: func(key, _ string) error { return os.Remove(key) }, want: "it is there, but ca.key is not (restore the key from a backup"},
		"group may read":  {spoil: func(key, _ string) error { return os.Chmod(key, 0o640) }, want: "its mode is 0640 (chmod 600 "},
		"world may write": {spoil: func(key, _ string) error { return os.Chmod(key, 0o602) }, want: "its mode is 0602 (chmod 600 "},
		"empty":           {spoil: func(key, _ string) error { return os.Truncate(key, 0) }, want: "it does not have one certificate and one key"},
		"cut short":       {spoil: func(key, _ string) error { return os.Truncate(key, 700) }, want: "it does not have one certificate and one key"},
		"not PEM inside": {spoil: func(key, _ string) error {
			write(key, []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
			return nil
		}, want: "restore it from a backup"},
		"another's certificate": {spoil: func(key, _ string) error {
			_, keyPEM := split(read(key))
			write(key, slices.Concat(other.CertificatePEM(), keyPEM))
			return nil
		}, want: "the key is not that of the certificate"},
		"another's public one": {spoil: func(_, cert string) error {
			write(cert, other.CertificatePEM())
			return nil
		}, want: "it is not the certificate of ca.key"},
		"another cluster": {spoil: func(_, _ string) error { return nil }, clusterID: "c9", want: "it is that of cluster c1, not of c9"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if _, err := LoadOrCreateAuthority(dir, "c1", now); err != nil {
				t.Fatal(err)
			}
			if err := tc.spoil(filepath.Join(dir, AuthorityFile), filepath.Join(dir, CertificateFile)); err != nil {
				t.Fatal(err)
			}
			_, err := LoadOrCreateAuthority(dir, tc.clusterID, now)
			wantError(t, err, tc.want)
			var fileErr *FileError
			if tc.want != "" && (!errors.As(err, &fileErr) || !strings.HasPrefix(fileErr.Path, dir)) {
				t.Errorf("the error names no file: %v", err)
			}
		})
	}
}

func TestLoadAuthorityMissing(t *testing.T) {
	if _, err := LoadAuthority(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

func TestPairFile(t *testing.T) {
	now := time.Now()
	a := newTestAuthority(t, "c1", now)
	path := filepath.Join(t.TempDir(), "node.pem")
	if _, err := LoadPair(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	pair := issue(t, a, now, testNode)
	if err := pair.Save(path); err != nil {
		t.Fatal(err)
	}
	got, err := LoadPair(path)
	if err != nil || got.Identity() != pair.Identity() || !got.Certificate().Equal(pair.Certificate()) {
		t.Errorf("loaded %v, %v", got, err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadPair(path); !errors.Is(err, ErrOpenKey) {
		t.Errorf("readable by all: %v", err)
	}
	if err := os.WriteFile(path, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = LoadPair(path)
	wantError(t, err, "remove it to have it issued again")
}

func TestLoadOrIssue(t *testing.T) {
	now := time.Now()
	a, other := newTestAuthority(t, "c1", now), newTestAuthority(t, "c1", now)
	path := filepath.Join(t.TempDir(), "new", "server.pem")
	first, err := a.LoadOrIssue(path, now, testServer, "localhost")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name  string
		a     *Authority
		at    time.Time
		id    Identity
		hosts []string
		same  bool
	}{
		{"again", a, now, testServer, []string{"localhost"}, true},
		{"fewer hosts", a, now, testServer, nil, true},
		{"just before renewal", a, first.RenewAt().Add(-time.Second), testServer, nil, true},
		{"due", a, first.RenewAt(), testServer, nil, false},
		{"another host", a, now, testServer, []string{"10.0.0.1"}, false},
		{"another name", a, now, Identity{Role: RoleServer, Name: "s2"}, nil, false},
		{"another role", a, now, Identity{Role: RoleAdmin, Name: "s1"}, nil, false},
		{"another authority", other, now, testServer, nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := first.Save(path); err != nil {
				t.Fatal(err)
			}
			got, err := tc.a.LoadOrIssue(path, tc.at, tc.id, tc.hosts...)
			if err != nil {
				t.Fatal(err)
			}
			if same := got.Certificate().Equal(first.Certificate()); same != tc.same {
				t.Errorf("kept: %v, want %v", same, tc.same)
			}
			saved, err := LoadPair(path)
			if err != nil || !saved.Certificate().Equal(got.Certificate()) {
				t.Errorf("what is saved is not what is returned: %v", err)
			}
		})
	}
	if err := os.WriteFile(path, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = a.LoadOrIssue(path, now, testServer)
	wantError(t, err, "server.pem")
}

func TestSaveCertificate(t *testing.T) {
	now := time.Now()
	a := newTestAuthority(t, "c1", now)
	path := filepath.Join(t.TempDir(), "ca.crt")
	if err := SaveCertificate(path, a.Certificate()); err != nil {
		t.Fatal(err)
	}
	got, err := LoadCertificate(path)
	if err != nil || !got.Equal(a.Certificate()) {
		t.Errorf("loaded %v, %v", got, err)
	}
	if err := os.WriteFile(path, issue(t, a, now, testNode).CertificatePEM(), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = LoadCertificate(path)
	wantError(t, err, "found 2 certificates")
	_, err = LoadCertificate(path + ".none")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
}

// TestWriteAtomicKeepsOld holds that a write that cannot be done leaves the old file and nothing else.
func TestWriteAtomicKeepsOld(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "d")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writeAtomic(path, []byte("x"), 0o600); err == nil {
		t.Fatal("a directory was replaced by a file")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
