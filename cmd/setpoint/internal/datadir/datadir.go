// Package datadir knows the files of a server's data directory: what `server` and `dev` write there, and where other commands find the address and the
// credential with which they reach it.
//
// Owner: the server owns the directory; commands only read it. It imports the standard library only.
package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Dir is a server's data directory.
type Dir string

// Authority is the directory of the cluster's certificate authority.
func (d Dir) Authority() string { return d.file("ca") }

// ServerPair is the file of the server's certificate and key.
func (d Dir) ServerPair() string { return d.file("server.pem") }

// RetiringPair is the file of the server's certificate by the authority that is being replaced.
func (d Dir) RetiringPair() string { return d.file("server-retiring.pem") }

// AdminPair is the file of the credential with which commands reach the server as an administrator.
func (d Dir) AdminPair() string { return d.file("admin.pem") }

// LoginPair is the file of the credential that somebody logged in with.
func (d Dir) LoginPair() string { return d.file("login.pem") }

// Credential is the file of the credential with which commands reach the server: that of whoever logged in here, or else the administrator's.
func (d Dir) Credential() string {
	if _, err := os.Stat(d.LoginPair()); err == nil {
		return d.LoginPair()
	}
	return d.AdminPair()
}

// AddressFile is the file that says where the server listens.
func (d Dir) AddressFile() string { return d.file("address") }

// Store is the file of the cluster's state.
func (d Dir) Store() string { return d.file("state.db") }

// Tokens is the file of the join tokens' hashes.
func (d Dir) Tokens() string { return d.file("tokens.json") }

// Certificates is the file of the certificates that were issued and revoked.
func (d Dir) Certificates() string { return d.file("certificates.jsonl") }

// AuditLog is the newest file of the audit log; older ones have a number behind it.
func (d Dir) AuditLog() string { return d.file("audit.log") }

// Secrets is the directory of the sealed secrets.
func (d Dir) Secrets() string { return d.file("secrets") }

// SecretsKey is the file of the key that seals them.
func (d Dir) SecretsKey() string { return d.file("secrets.key") }

// PluginSockets is the directory of the sockets over which the server talks to plugins.
func (d Dir) PluginSockets() string { return d.file("plugins") }

// Attachments is the directory of the files that ask the server to use a plugin that somebody else has started.
func (d Dir) Attachments() string { return d.file("attach") }

// Nodes is the directory of the agents that `dev` starts, a directory for each.
func (d Dir) Nodes() string { return d.file("agents") }

func (d Dir) file(name string) string { return filepath.Join(string(d), name) }

// WriteAddress says where the server listens, as a URL.
func (d Dir) WriteAddress(url string) error {
	if err := WriteFile(d.AddressFile(), []byte(url+"\n"), 0o644); err != nil {
		return fmt.Errorf("write the server's address: %w", err)
	}
	return nil
}

// ReadAddress returns where the server listens, or listened last. Without a file the error is fs.ErrNotExist.
func (d Dir) ReadAddress() (string, error) {
	text, err := os.ReadFile(d.AddressFile())
	if err != nil {
		return "", err
	}
	url := strings.TrimSpace(string(text))
	if url == "" {
		return "", fmt.Errorf("read %s: it is empty: %w", d.AddressFile(), fs.ErrNotExist)
	}
	return url, nil
}

// WriteFile replaces a file in one step: a reader, or a crash, finds the old content or the new one. The file is written beside the old one first.
func WriteFile(path string, data []byte, mode fs.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
