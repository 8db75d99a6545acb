package pki

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// RetiringFile has the authority that another one is replacing, and its key. Mode 0600.
const RetiringFile = "retiring.key"

// Errors of replacing an authority.
var (
	ErrRotating    = errors.New("the authority is being replaced already")
	ErrNotRotating = errors.New("the authority is not being replaced")
	ErrOutside     = errors.New("the authority comes from outside: the configuration names its files")
)

// Authorities are the authorities of a cluster: the one that issues, and the one that it replaces, if some may still trust that alone. It is a value.
type Authorities struct {
	Current  *Authority
	Retiring *Authority // nil: there is only one
}

// All returns those that there are, the newest first.
func (a Authorities) All() []*Authority {
	if a.Retiring == nil {
		return []*Authority{a.Current}
	}
	return []*Authority{a.Current, a.Retiring}
}

// LoadOrCreateAuthorities is LoadOrCreateAuthority for both. What a crash left of a rotation that had not begun is removed.
func LoadOrCreateAuthorities(dir, clusterID string, now time.Time) (Authorities, error) {
	retiring, err := loadAuthority(filepath.Join(dir, RetiringFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Authorities{}, err
	}
	if retiring != nil {
		if err := republish(dir, retiring); err != nil {
			return Authorities{}, err
		}
	}
	current, err := LoadOrCreateAuthority(dir, clusterID, now)
	if err != nil {
		return Authorities{}, err
	}
	if retiring != nil && retiring.cert.Equal(current.cert) {
		return Authorities{Current: current}, removeDurably(filepath.Join(dir, RetiringFile))
	}
	return Authorities{Current: current, Retiring: retiring}, nil
}

// republish removes the public certificate if it is that of the retiring authority, to have it written again.
func republish(dir string, retiring *Authority) error {
	path := filepath.Join(dir, CertificateFile)
	cert, err := LoadCertificate(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if cert.Equal(retiring.cert) {
		return removeDurably(path)
	}
	return nil
}

// Rotate makes a new authority for the cluster in the place of the one in a directory, which retires: certificates of both serve until Retire. The error is
// ErrRotating while another one retires.
func Rotate(dir string, now time.Time) (Authorities, error) {
	old, err := LoadAuthority(dir)
	if err != nil {
		return Authorities{}, err
	}
	next, err := NewAuthority(old.clusterID, now)
	if err != nil {
		return Authorities{}, err
	}
	return replace(dir, old, next)
}

// replace has another authority be the one in a directory, and the old one retire.
func replace(dir string, old, next *Authority) (Authorities, error) {
	path := filepath.Join(dir, RetiringFile)
	if _, err := os.Stat(path); err == nil {
		return Authorities{}, ErrRotating
	}
	// A crash in between leaves either the old one twice, which is no rotation, or both.
	for _, file := range []struct {
		path      string
		authority *Authority
	}{{path, old}, {filepath.Join(dir, AuthorityFile), next}} {
		if err := file.authority.save(file.path); err != nil {
			return Authorities{}, fmt.Errorf("replace the authority: %w", err)
		}
	}
	if err := writeAtomic(filepath.Join(dir, CertificateFile), next.CertificatePEM(), 0o644); err != nil {
		return Authorities{}, fmt.Errorf("publish the authority's certificate: %w", err)
	}
	return Authorities{Current: next, Retiring: old}, nil
}

// Retire ends a rotation: what the old authority issued serves no more. Its key is removed. The error is ErrNotRotating if there is none.
func Retire(dir string) error {
	err := removeDurably(filepath.Join(dir, RetiringFile))
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNotRotating
	}
	if err != nil {
		return fmt.Errorf("retire the authority: %w", err)
	}
	return nil
}

func removeDurably(path string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// save writes certificate and key as one file, so that a crash leaves both or neither.
func (a *Authority) save(path string) error {
	keyPEM, err := encodeKey(a.key)
	if err != nil {
		return err
	}
	return writeAtomic(path, append(a.CertificatePEM(), keyPEM...), 0o600)
}
