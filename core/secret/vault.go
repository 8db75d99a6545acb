package secret

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

const (
	// maxSecrets is how many secrets a cluster may have.
	maxSecrets = 10_000
	// keptVersions is how many versions of a secret are kept beyond those that are in use.
	keptVersions = 10
)

// Errors that callers tell apart.
var (
	ErrNotFound   = errors.New("there is no such secret")
	ErrNoVersion  = errors.New("it has no such version")
	ErrExists     = errors.New("there is a secret of this name")
	ErrConfigured = errors.New("the server's configuration has this secret, and it is written by nothing else")
	ErrByHand     = errors.New("this secret was made by `setpoint secret create`, and the server's configuration has it too")
	ErrTooLarge   = fmt.Errorf("a secret has at most %d bytes, and at least one", MaxValue)
	ErrTooMany    = fmt.Errorf("there are %d secrets, which is the limit", maxSecrets)
)

// Version is one version of a secret, without its value.
type Version struct {
	Number  uint64    `json:"version"` // from 1; never used twice for a name
	Created time.Time `json:"created"`
	By      string    `json:"by"`     // who made it
	Size    int       `json:"size"`   // in bytes
	Digest  string    `json:"digest"` // equal for equal values of this secret; it tells nothing of the value
}

// Info is what anybody may know of a secret.
type Info struct {
	Name       string
	Configured bool      // the server's configuration has it
	Versions   []Version // oldest first
}

// Newest returns the version that jobs get which name none.
func (i *Info) Newest() Version { return i.Versions[len(i.Versions)-1] }

// Vault keeps secrets. It is safe for use by several goroutines.
type Vault struct {
	dir, keyPath, cluster string

	mu      sync.Mutex // guards what follows, and the files
	keys    keys
	secrets map[string]*record // those that were removed included
}

// Open reads the secrets of a directory, which is made if it is not there, and the keys of a file. A change of keys that a crash ended is finished.
func Open(dir, keyPath, clusterID string) (*Vault, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the secrets: %w", err)
	}
	v := &Vault{dir: dir, keyPath: keyPath, cluster: clusterID}
	var err error
	if v.secrets, err = loadRecords(dir); err != nil {
		return nil, err
	}
	sealed := false
	for _, r := range v.secrets {
		sealed = sealed || len(r.Versions) > 0
	}
	if v.keys, err = loadOrMakeKeys(keyPath, sealed); err != nil {
		return nil, err
	}
	if len(v.keys.Keys) > 1 {
		return v, v.finishRekey()
	}
	return v, nil
}

// Put is what is said about a new version of a secret.
type Put struct {
	Name       string
	Value      Value
	By         string
	First      bool                      // there must be no secret of this name; otherwise there must be one
	Configured bool                      // it comes from the server's configuration; First does not count
	InUse      func(version uint64) bool // versions that are kept, however old
}

// Put makes a version. If the newest one has the same value, it is returned, and changed is false.
func (v *Vault) Put(p Put) (info Info, changed bool, err error) {
	if err := cluster.ValidateSecretName(p.Name); err != nil {
		return Info{}, false, fmt.Errorf("name of a secret: %w", err)
	}
	if n := p.Value.Len(); n < 1 || n > MaxValue {
		return Info{}, false, ErrTooLarge
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	old, err := v.before(p)
	if err != nil {
		return Info{}, false, err
	}
	digest := v.keys.digest(p.Name, p.Value)
	if n := len(old.Versions); n > 0 && old.Versions[n-1].Digest == digest && old.Configured == p.Configured {
		return old.info(), false, nil
	}
	next := &record{Name: p.Name, Last: old.Last + 1, Configured: p.Configured, Versions: old.without(p.InUse)}
	made := sealedVersion{Version: Version{Number: next.Last, Created: wall(), By: p.By, Size: p.Value.Len(), Digest: digest}}
	if made.Key, made.Sealed, err = v.keys.seal(v.place(p.Name, next.Last), p.Value); err != nil {
		return Info{}, false, fmt.Errorf("seal secret %s: %w", p.Name, err)
	}
	next.Versions = append(next.Versions, made)
	if err := next.save(v.dir); err != nil {
		return Info{}, false, err
	}
	v.secrets[p.Name] = next
	return next.info(), true, nil
}

// before returns the record that a new version follows, or why there can be none.
func (v *Vault) before(p Put) (record, error) {
	old := record{Name: p.Name}
	if r := v.secrets[p.Name]; r != nil {
		old = *r
	}
	there := len(old.Versions) > 0
	switch {
	case there && p.Configured && !old.Configured:
		return old, ErrByHand
	case there && !p.Configured && old.Configured:
		return old, ErrConfigured
	case there && p.First && !p.Configured:
		return old, ErrExists
	case !there && !p.First && !p.Configured:
		return old, ErrNotFound
	case !there && v.count() >= maxSecrets:
		return old, ErrTooMany
	}
	return old, nil
}

func (v *Vault) count() int {
	n := 0
	for _, r := range v.secrets {
		if len(r.Versions) > 0 {
			n++
		}
	}
	return n
}

// without returns the versions that are kept when another one is made.
func (r *record) without(inUse func(uint64) bool) []sealedVersion {
	var out []sealedVersion
	for i, x := range r.Versions {
		if i > len(r.Versions)-keptVersions || inUse != nil && inUse(x.Number) {
			out = append(out, x)
		}
	}
	return out
}

// Remove forgets one version of a secret, or all of them if number is 0. The numbers are not used again.
func (v *Vault) Remove(name string, number uint64) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.secrets[name]
	switch {
	case r == nil || len(r.Versions) == 0:
		return ErrNotFound
	case r.Configured:
		return ErrConfigured
	}
	next := *r
	next.Versions = nil
	for _, x := range r.Versions {
		if number != 0 && x.Number != number {
			next.Versions = append(next.Versions, x)
		}
	}
	if len(next.Versions) == len(r.Versions) {
		return ErrNoVersion
	}
	if err := next.save(v.dir); err != nil {
		return err
	}
	v.secrets[name] = &next
	return nil
}

// Release says which secrets the server's configuration has: others that it had are written by `setpoint secret` from now on.
func (v *Vault) Release(configured []string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for name, r := range v.secrets {
		if !r.Configured || slices.Contains(configured, name) {
			continue
		}
		next := *r
		next.Configured = false
		if err := next.save(v.dir); err != nil {
			return err
		}
		v.secrets[name] = &next
	}
	return nil
}

// List returns what may be known of all secrets, by name.
func (v *Vault) List() []Info {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []Info
	for _, r := range v.secrets {
		if len(r.Versions) > 0 {
			out = append(out, r.info())
		}
	}
	slices.SortFunc(out, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Info returns what may be known of a secret, and whether there is one.
func (v *Vault) Info(name string) (Info, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.secrets[name]
	if r == nil || len(r.Versions) == 0 {
		return Info{}, false
	}
	return r.info(), true
}

// Read returns a value, for the node whose task asks for it. The error is ErrNotFound, or says why the value cannot be read.
func (v *Vault) Read(name string, number uint64) (Value, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if r := v.secrets[name]; r != nil {
		for _, x := range r.Versions {
			if x.Number == number {
				return v.keys.open(v.place(name, number), x.Key, x.Sealed)
			}
		}
	}
	return Value{}, ErrNotFound
}

// Rekey makes another key and seals everything with it. The old key is gone afterwards.
func (v *Vault) Rekey() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	next := v.keys
	next.Keys = append([]key{newKey(wall())}, v.keys.Keys...)
	if err := next.save(v.keyPath); err != nil {
		return err
	}
	v.keys = next
	return v.finishRekey()
}

// finishRekey seals with the first key what is not, and drops all others. The caller holds the lock.
func (v *Vault) finishRekey() error {
	for name, r := range v.secrets {
		next := *r
		next.Versions = slices.Clone(r.Versions)
		for i := range next.Versions {
			x := &next.Versions[i]
			value, err := v.keys.open(v.place(name, x.Number), x.Key, x.Sealed)
			if err == nil {
				x.Key, x.Sealed, err = v.keys.seal(v.place(name, x.Number), value)
			}
			if err != nil {
				return fmt.Errorf("change the key of the secrets: secret %s version %d: %w", name, x.Number, err)
			}
		}
		if err := next.save(v.dir); err != nil {
			return err
		}
		v.secrets[name] = &next
	}
	next := v.keys
	next.Keys = slices.Clone(v.keys.Keys[:1])
	if err := next.save(v.keyPath); err != nil {
		return err
	}
	v.keys = next
	return nil
}

// place is what is authenticated with a value: where it belongs.
func (v *Vault) place(name string, number uint64) string {
	return fmt.Sprintf("setpoint secret 1\x00%s\x00%s\x00%d", v.cluster, name, number)
}

func (r *record) info() Info {
	out := Info{Name: r.Name, Configured: r.Configured}
	for _, x := range r.Versions {
		out.Versions = append(out.Versions, x.Version)
	}
	return out
}
