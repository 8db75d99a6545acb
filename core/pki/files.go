package pki

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// File names of an authority's directory.
const (
	// AuthorityFile has the authority's certificate and its key. Mode 0600.
	AuthorityFile = "ca.key"
	// CertificateFile has the authority's certificate alone, for those who trust it. Mode 0644.
	CertificateFile = "ca.crt"
)

// FileError is a problem with a file that a person has to see to.
type FileError struct {
	Op   string // what was attempted, such as "load authority"
	Path string
	Err  error  // what is wrong
	Hint string // what to do, or empty
}

func (e *FileError) Error() string {
	text := fmt.Sprintf("%s: %s: %v", e.Op, e.Path, e.Err)
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// Unwrap returns what is wrong.
func (e *FileError) Unwrap() error { return e.Err }

// ErrOpenKey is what is wrong with a key file that others than its owner may read or write.
var ErrOpenKey = errors.New("the key can be read or written by others than its owner")

// LoadOrCreateAuthority returns the authority kept in dir, and makes one, with the directory, if there is none yet. An empty clusterID
// stands for the one that is there, or for a random one. A certificate without its key, a key that others may read, files that do not
// belong together, and another cluster's authority are *FileError; nothing is changed then.
func LoadOrCreateAuthority(dir, clusterID string, now time.Time) (*Authority, error) {
	path := filepath.Join(dir, AuthorityFile)
	a, err := LoadAuthority(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return createAuthority(dir, clusterID, now)
	}
	if err != nil {
		return nil, err
	}
	if clusterID != "" && clusterID != a.clusterID {
		return nil, &FileError{
			Op: "load authority", Path: path, Err: fmt.Errorf("it is that of cluster %s, not of %s", a.clusterID, clusterID),
			Hint: "use another data directory",
		}
	}
	return a, publish(dir, a)
}

// LoadAuthority returns the authority kept in dir. If there is none the error is fs.ErrNotExist.
func LoadAuthority(dir string) (*Authority, error) {
	return loadAuthority(filepath.Join(dir, AuthorityFile))
}

func loadAuthority(path string) (*Authority, error) {
	const op = "load authority"
	data, err := readSecret(op, path)
	if err != nil {
		return nil, err
	}
	certs, key, err := decode(data)
	if err != nil {
		return nil, &FileError{Op: op, Path: path, Err: err, Hint: "restore it from a backup"}
	}
	if len(certs) != 1 || key == nil {
		err := errors.New("it does not have one certificate and one key")
		return nil, &FileError{Op: op, Path: path, Err: err, Hint: "restore it from a backup"}
	}
	a, err := newAuthority(certs[0], key)
	if err != nil {
		return nil, &FileError{Op: op, Path: path, Err: err, Hint: "restore it from a backup"}
	}
	return a, nil
}

func createAuthority(dir, clusterID string, now time.Time) (*Authority, error) {
	public := filepath.Join(dir, CertificateFile)
	if _, err := os.Stat(public); err == nil {
		return nil, &FileError{
			Op: "create authority", Path: public, Err: fmt.Errorf("it is there, but %s is not", AuthorityFile),
			Hint: "restore the key from a backup; or remove the certificate, and every machine has to join again",
		}
	}
	a, err := NewAuthority(clusterID, now)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create authority: %w", err)
	}
	if err := a.save(filepath.Join(dir, AuthorityFile)); err != nil {
		return nil, fmt.Errorf("create authority: %w", err)
	}
	return a, publish(dir, a)
}

// publish keeps a copy of the authority's certificate for others to read.
func publish(dir string, a *Authority) error {
	path := filepath.Join(dir, CertificateFile)
	have, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := writeAtomic(path, a.CertificatePEM(), 0o644); err != nil {
			return fmt.Errorf("publish the authority's certificate: %w", err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("publish the authority's certificate: %w", err)
	case !bytes.Equal(have, a.CertificatePEM()):
		return &FileError{
			Op: "load authority", Path: path, Err: fmt.Errorf("it is not the certificate of %s", AuthorityFile),
			Hint: "remove it to have it written again, if the key is the right one",
		}
	}
	return nil
}

// LoadCertificate reads an authority's certificate from a file in PEM, for those who trust it.
func LoadCertificate(path string) (*x509.Certificate, error) {
	const op = "load the authority's certificate"
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	certs, _, err := decode(data)
	if err == nil && len(certs) != 1 {
		err = fmt.Errorf("found %d certificates, not 1", len(certs))
	}
	if err == nil {
		_, err = clusterOf(certs[0])
	}
	if err != nil {
		return nil, &FileError{Op: op, Path: path, Err: err}
	}
	return certs[0], nil
}

// SaveCertificate writes an authority's certificate to a file in PEM, mode 0644.
func SaveCertificate(path string, ca *x509.Certificate) error {
	if err := writeAtomic(path, encodeCert(ca.Raw), 0o644); err != nil {
		return fmt.Errorf("save the authority's certificate: %w", err)
	}
	return nil
}

// Save writes certificate, authority and key to one file, mode 0600, in one step: a crash leaves the old pair or the new one.
func (p *Pair) Save(path string) error {
	if err := writeAtomic(path, slices.Concat(p.certPEM, p.keyPEM), 0o600); err != nil {
		return fmt.Errorf("save certificate of %s: %w", p.identity.Name, err)
	}
	return nil
}

// LoadPair reads what Save wrote. If there is no file the error is fs.ErrNotExist; a file that others may read, or that is damaged, is a
// *FileError.
func LoadPair(path string) (*Pair, error) {
	const op = "load certificate"
	data, err := readSecret(op, path)
	if err != nil {
		return nil, err
	}
	certPEM, keyPEM := split(data)
	pair, err := NewPair(certPEM, keyPEM)
	if err != nil {
		return nil, &FileError{Op: op, Path: path, Err: err, Hint: "remove it to have it issued again"}
	}
	return pair, nil
}

// LoadOrIssue returns the pair kept in a file if it still serves: issued by this authority to id, with these hosts, and not due for
// renewal. Otherwise, and if there is none, it issues one and saves it, with its directory.
func (a *Authority) LoadOrIssue(path string, now time.Time, id Identity, hosts ...string) (*Pair, error) {
	id.ClusterID = a.clusterID
	pair, err := LoadPair(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil && pair.identity == id && pair.ca.Equal(a.cert) && now.Before(pair.RenewAt()) && servesHosts(pair.leaf, hosts) {
		return pair, nil
	}
	pair, err = a.Issue(now, id, hosts...)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("save certificate of %s: %w", id.Name, err)
	}
	return pair, pair.Save(path)
}

func servesHosts(cert *x509.Certificate, hosts []string) bool {
	return !slices.ContainsFunc(hosts, func(host string) bool { return host != "" && cert.VerifyHostname(host) != nil })
}

// readSecret reads a file that only its owner may read.
func readSecret(op, path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		err := fmt.Errorf("%w: its mode is %04o", ErrOpenKey, info.Mode().Perm())
		return nil, &FileError{Op: op, Path: path, Err: err, Hint: "chmod 600 " + path}
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return data, nil
}

// writeAtomic replaces a file in one step that is durable when it returns.
func writeAtomic(path string, data []byte, mode fs.FileMode) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// split parts a file's PEM blocks into certificates and key.
func split(data []byte) (certs, key []byte) {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			certs = append(certs, pem.EncodeToMemory(block)...)
		} else {
			key = append(key, pem.EncodeToMemory(block)...)
		}
	}
	return certs, key
}

// decode parses a file's certificates and its key, which may be missing.
func decode(data []byte) (certs []*x509.Certificate, key crypto.Signer, err error) {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case "CERTIFICATE":
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil, nil, err
			}
			certs = append(certs, cert)
		case "PRIVATE KEY":
			parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			if err != nil {
				return nil, nil, err
			}
			signer, ok := parsed.(crypto.Signer)
			if !ok {
				return nil, nil, fmt.Errorf("a key of type %T cannot sign", parsed)
			}
			key = signer
		default:
			return nil, nil, fmt.Errorf("it has a PEM block %s", block.Type)
		}
	}
	return certs, key, nil
}
