package client_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/core/pki"
)

func TestAddresses(t *testing.T) {
	authority, err := pki.NewAuthority("c1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(time.Now(), pki.Identity{Role: pki.RoleAdmin, Name: "root"})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "admin.pem")
	if err := pair.Save(path); err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]string{
		"127.0.0.1:7070": "https://127.0.0.1:7070", "https://host:1": "https://host:1", "https://host:1/": "https://host:1", "[::1]:7070": "https://[::1]:7070",
		"": "", "host": "", "http://host:1": "", "https://host": "", "https://a@host:1": "", "https://host:1/api": "",
	} {
		c, err := client.New(client.Options{Addr: addr, Pair: path})
		switch {
		case want == "" && err == nil:
			t.Errorf("%q is taken as %s, want it refused", addr, c.Addr())
		case want != "" && (err != nil || c.Addr() != want):
			t.Errorf("%q gave %v, want %s", addr, err, want)
		}
	}
}

func TestMissingCredential(t *testing.T) {
	_, err := client.New(client.Options{Addr: "host:1", Pair: filepath.Join(t.TempDir(), "admin.pem")})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want %v", err, fs.ErrNotExist)
	}
}

func TestErrorsOfOthersHaveNoDetail(t *testing.T) {
	err := errors.New("no route to host")
	if client.Detail(err) != nil || client.IsNotFound(err) || client.IsCompacted(err) {
		t.Errorf("%v is taken for a server's refusal", err)
	}
}
