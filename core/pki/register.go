package pki

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Errors of a register.
var (
	// ErrRevoked is returned for a certificate that was revoked before its time.
	ErrRevoked = errors.New("the certificate was revoked: log in again with a token that an administrator makes")
	// ErrNothingToRevoke says that no certificate is meant.
	ErrNothingToRevoke = errors.New("no certificate of this name or serial number serves")
	// ErrNotAPersons says that a certificate is a node's or a server's.
	ErrNotAPersons = errors.New("the certificate is not a person's or a program's that logged in")
)

// Issued is a certificate that was issued.
type Issued struct {
	Serial  string    `json:"serial"`
	Role    Role      `json:"role"`
	Name    string    `json:"name"`
	Node    string    `json:"node,omitempty"` // id, of a node's
	Issued  time.Time `json:"issued"`
	Expires time.Time `json:"expires"`
}

// Revocation ends certificates before their time: one by its serial number, or all of a name.
type Revocation struct {
	Serial string    `json:"serial,omitempty"`
	Name   string    `json:"name,omitempty"` // all that this person or program has: those that are not registered, which earlier versions issued, included
	At     time.Time `json:"at"`
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
}

// Listed is a certificate with what became of it.
type Listed struct {
	Issued
	Revoked *Revocation // nil: it serves until it expires
}

// registered is a line of the file.
type registered struct {
	Issued  *Issued     `json:"issued,omitempty"`
	Revoked *Revocation `json:"revoked,omitempty"`
}

// Register knows which certificates were issued and which were revoked. It is a file that grows; what expired is dropped when it is opened. It is safe for use by several goroutines.
type Register struct {
	path string

	mu      sync.RWMutex // guards what follows, and the file
	issued  map[string]Issued
	revoked map[string]Revocation // by serial number
	names   map[string]Revocation
}

// OpenRegister reads a register; without a file it is empty.
func OpenRegister(path string, now time.Time) (*Register, error) {
	r := &Register{path: path, issued: make(map[string]Issued), revoked: make(map[string]Revocation), names: make(map[string]Revocation)}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the register of certificates: %w", err)
	}
	whole := true
	for line := range bytes.Lines(text) {
		var x registered
		if err := json.Unmarshal(line, &x); err != nil {
			if !bytes.HasSuffix(line, []byte("\n")) {
				whole = false // a crash cut it short: nobody was told that it is written
				continue
			}
			return nil, fmt.Errorf("read the register of certificates %s: %w; restore it from a backup: without it what was revoked would serve again", path, err)
		}
		r.take(x)
	}
	expired := 0
	for serial, c := range r.issued {
		if now.After(c.Expires) {
			delete(r.issued, serial)
			expired++
		}
	}
	if expired == 0 && whole {
		return r, nil
	}
	return r, r.rewrite()
}

func (r *Register) take(x registered) {
	switch {
	case x.Issued != nil:
		r.issued[x.Issued.Serial] = *x.Issued
	case x.Revoked != nil && x.Revoked.Name != "":
		r.names[x.Revoked.Name] = *x.Revoked
	case x.Revoked != nil:
		r.revoked[x.Revoked.Serial] = *x.Revoked
	}
}

// rewrite writes all that is known. Revocations stay, whatever the clock says.
func (r *Register) rewrite() error {
	var out []registered
	for _, x := range r.issued {
		out = append(out, registered{Issued: &x})
	}
	for _, all := range []map[string]Revocation{r.names, r.revoked} {
		for _, x := range all {
			out = append(out, registered{Revoked: &x})
		}
	}
	lines, err := registerLines(out)
	if err != nil {
		return err
	}
	if err := writeAtomic(r.path, lines, 0o600); err != nil {
		return fmt.Errorf("write the register of certificates: %w", err)
	}
	return nil
}

func registerLines(all []registered) ([]byte, error) {
	var out []byte
	for _, x := range all {
		line, err := json.Marshal(x)
		if err != nil {
			return nil, fmt.Errorf("write the register of certificates: %w", err)
		}
		out = append(append(out, line...), '\n')
	}
	return out, nil
}

// append makes lines durable and takes them. The caller holds the lock.
func (r *Register) append(all []registered) error {
	lines, err := registerLines(all)
	if err != nil {
		return err
	}
	_, statErr := os.Stat(r.path)
	f, err := os.OpenFile(r.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("write the register of certificates: %w", err)
	}
	info, err := f.Stat()
	if err == nil {
		if _, err = f.Write(lines); err != nil {
			err = errors.Join(err, f.Truncate(info.Size())) // half a line would spoil the next
		}
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil && statErr != nil {
		err = syncDir(filepath.Dir(r.path))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write the register of certificates: %w", err)
	}
	for _, x := range all {
		r.take(x)
	}
	return nil
}

// Add registers a certificate, durably; it is given to nobody before.
func (r *Register) Add(cert *x509.Certificate, now time.Time) error {
	id, err := IdentityOf(cert)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	serial := Serial(cert)
	if _, known := r.issued[serial]; known {
		return nil
	}
	return r.append([]registered{{Issued: &Issued{Serial: serial, Role: id.Role, Name: id.Name, Node: id.NodeID, Issued: now.UTC(), Expires: cert.NotAfter.UTC()}}})
}

// Check returns ErrRevoked if a certificate was revoked: by its number, or with all of its name if it was issued before that, which an unregistered one was.
func (r *Register) Check(id Identity, serial string) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if _, revoked := r.revoked[serial]; revoked {
		return ErrRevoked
	}
	if _, revoked := r.names[id.Name]; revoked && persons(id.Role) {
		if _, known := r.issued[serial]; !known {
			return ErrRevoked
		}
	}
	return nil
}

// persons reports whether a role is one of those that people and programs log in with.
func persons(role Role) bool { return role.Allows(RoleReader) }

// RevokeSerial revokes one certificate, and returns what is known of it. One that is not registered, as those of earlier versions, is revoked all the same. The error is ErrNotAPersons for
// a node's or a server's.
func (r *Register) RevokeSerial(v Revocation) ([]Issued, error) {
	v.Name, v.Serial = "", strings.ToLower(v.Serial)
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, already := r.revoked[v.Serial]; already || !isSerial(v.Serial) {
		return nil, ErrNothingToRevoke
	}
	c, known := r.issued[v.Serial]
	if known && !persons(c.Role) {
		return nil, ErrNotAPersons
	}
	if !known {
		c = Issued{Serial: v.Serial}
	}
	return []Issued{c}, r.append([]registered{{Revoked: &v}})
}

func isSerial(text string) bool {
	return len(text) == 32 && strings.Trim(text, "0123456789abcdef") == ""
}

// RevokeName revokes all certificates of a person or program, and returns those that are registered. Those that are issued later serve. The error is ErrNotAPersons for a name that only a node
// has.
func (r *Register) RevokeName(v Revocation) ([]Issued, error) {
	v.Serial = ""
	if !validName(v.Name) {
		return nil, ErrNothingToRevoke
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Issued
	lines := []registered{{Revoked: &v}}
	person, node := false, false
	for serial, c := range r.issued {
		if c.Name == v.Name {
			person, node = person || persons(c.Role), node || !persons(c.Role)
		}
		if _, already := r.revoked[serial]; already || c.Name != v.Name || !persons(c.Role) {
			continue
		}
		out = append(out, c)
		one := v
		one.Name, one.Serial = "", serial
		lines = append(lines, registered{Revoked: &one})
	}
	if node && !person {
		return nil, ErrNotAPersons
	}
	slices.SortFunc(out, func(a, b Issued) int { return a.Issued.Compare(b.Issued) })
	return out, r.append(lines)
}

// List returns the certificates that are registered, those of nodes included, in the order in which they expire.
func (r *Register) List() []Listed {
	r.mu.RLock()
	defer r.mu.RUnlock()
	out := make([]Listed, 0, len(r.issued))
	for serial, c := range r.issued {
		l := Listed{Issued: c}
		if v, revoked := r.revoked[serial]; revoked {
			l.Revoked = &v
		}
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b Listed) int {
		if c := a.Expires.Compare(b.Expires); c != 0 {
			return c
		}
		return strings.Compare(a.Serial, b.Serial)
	})
	return out
}
