package secrets

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Attribute is the node's attribute that says whether it can keep secrets: InMemory or Unavailable.
const (
	Attribute   = cluster.AttributeSecrets
	InMemory    = "memory"
	Unavailable = cluster.Unavailable
)

// shared is where Linux has a tmpfs for everybody.
const shared = "/dev/shm"

// unfinished begins the name of a directory whose files are being written.
const unfinished = ".new-"

// keyFile is the file in the directory with the key by which tasks' directories are named.
const keyFile = "key"

// Dir is an agent's directory of secrets, which is there only while there are secrets. Nobody else can list it, and a task's directory has a name in it that cannot be guessed: users of
// the machine find those only that their tasks were told.
type Dir struct {
	path string
	key  []byte

	mu sync.Mutex // held while something is made or removed
}

// DefaultPath returns where an agent keeps secrets unless it is told otherwise: in memory that every Linux has, under a name that its data directory alone has.
func DefaultPath(dataDir string) (string, error) {
	absolute, err := filepath.Abs(dataDir)
	if err != nil {
		return "", err
	}
	if resolved, err := filepath.EvalSymlinks(absolute); err == nil {
		absolute = resolved
	}
	sum := sha256.Sum256([]byte(absolute))
	return filepath.Join(shared, "setpoint-"+hex.EncodeToString(sum[:8])), nil
}

// Open finds out whether secrets can be kept in memory in a directory, and what an agent before this one kept there. The error says why not. Nothing is written.
func Open(path string) (*Dir, error) {
	d := &Dir{path: path}
	err := d.look()
	if err != nil {
		return nil, fmt.Errorf("secrets cannot be kept in %s: %w", path, err)
	}
	if d.key == nil {
		d.key = make([]byte, sha256.Size)
		_, _ = rand.Read(d.key) // it never fails
	}
	return d, nil
}

func (d *Dir) look() error {
	if !filepath.IsAbs(d.path) {
		return errors.New("it is not an absolute path")
	}
	if _, err := os.Lstat(d.path); errors.Is(err, fs.ErrNotExist) {
		parent := filepath.Dir(d.path)
		if err := inMemory(parent); err != nil {
			return err
		}
		if err := unix.Access(parent, unix.W_OK|unix.X_OK); err != nil {
			return fmt.Errorf("write to %s: %w", parent, err)
		}
		return nil
	}
	if err := d.check(); err != nil {
		return err
	}
	key, err := os.ReadFile(filepath.Join(d.path, keyFile))
	if err == nil && len(key) == sha256.Size {
		d.key = key
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// check returns nil if the directory that is there can be trusted: in a place where everybody may write, somebody else may have made it.
func (d *Dir) check() error {
	info, err := os.Lstat(d.path)
	if err != nil {
		return err
	}
	if err := owned(info); err != nil {
		return err
	}
	if err := inMemory(d.path); err != nil {
		return err
	}
	return os.Chmod(d.path, 0o711) // others find what they know the name of
}

// provide makes the directory. The caller holds the lock.
func (d *Dir) provide() error {
	if err := os.Mkdir(d.path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := d.check(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(d.path, keyFile), d.key, 0o600)
}

// tidy removes the directory if no secrets are in it. The caller holds the lock.
func (d *Dir) tidy() error {
	entries, err := os.ReadDir(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || len(entries) > 1 || len(entries) == 1 && entries[0].Name() != keyFile {
		return err
	}
	if err := os.Remove(filepath.Join(d.path, keyFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Remove(d.path); err != nil && !errors.Is(err, unix.EBUSY) && !errors.Is(err, fs.ErrPermission) { // a mount of its own stays
		return err
	}
	return nil
}

// inMemory returns nil if a directory is on a file system that has no disk.
func inMemory(path string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return fmt.Errorf("look at the file system of %s: %w", path, err)
	}
	if st.Type != unix.TMPFS_MAGIC && st.Type != unix.RAMFS_MAGIC {
		return fmt.Errorf("%s is neither on a tmpfs nor on a ramfs, and secrets are never written to a disk", path)
	}
	return nil
}

// owned returns nil if a directory is one, and the agent's own.
func owned(info fs.FileInfo) error {
	if !info.IsDir() {
		return errors.New("it is not a directory")
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
		return errors.New("it belongs to somebody else")
	}
	return nil
}

// Path returns the directory of a task's secrets, whether or not it is there.
func (d *Dir) Path(id cluster.TaskID) string {
	mac := hmac.New(sha256.New, d.key)
	mac.Write([]byte(id))
	return filepath.Join(d.path, hex.EncodeToString(mac.Sum(nil)[:16]))
}

// MissingError says that a task cannot run because a value is not there.
type MissingError struct{ Reason string }

// Error is the reason.
func (e *MissingError) Error() string { return e.Reason }

// Place writes a task's secrets, all of them or none, so that only the agent can read them, and returns what the driver is to give to the task. Those that are there already stay:
// the task may run. The error is a *MissingError if the server sent no value for one.
func (d *Dir) Place(id cluster.TaskID, wanted []cluster.Secret, values Values) (driver.Secrets, error) {
	out := driver.Secrets{Dir: d.Path(id)}
	for _, s := range wanted {
		out.Files = append(out.Files, driver.SecretFile{Name: s.Target, Mode: s.Mode, Owner: s.Owner})
	}
	if _, err := os.Lstat(out.Dir); err == nil {
		return out, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.write(out.Dir, wanted, values); err != nil {
		return driver.Secrets{}, err
	}
	return out, nil
}

// write writes the files into a directory of another name, which gets its own once it is whole. The caller holds the lock.
func (d *Dir) write(path string, wanted []cluster.Secret, values Values) (err error) {
	for _, s := range wanted {
		if _, missing := values.get(s.Name); missing != "" {
			return &MissingError{missing}
		}
	}
	if err := d.provide(); err != nil {
		return fmt.Errorf("keep secrets in memory: %w", err)
	}
	made, err := os.MkdirTemp(d.path, unfinished)
	if err != nil {
		return fmt.Errorf("keep secrets in memory: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("keep secrets in memory: %w", err), os.RemoveAll(made))
		}
	}()
	for _, s := range wanted {
		bytes, _ := values.get(s.Name)
		if err := os.WriteFile(filepath.Join(made, s.Target), bytes, 0o400); err != nil {
			return err
		}
	}
	return os.Rename(made, path)
}

// Remove removes a task's secrets, if there are any.
func (d *Dir) Remove(id cluster.TaskID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return errors.Join(remove(d.Path(id)), d.tidy())
}

func remove(path string) error {
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("remove secrets: %w", err)
	}
	return nil
}

// Sweep removes the secrets of all tasks but those that are named, and what was never finished.
func (d *Dir) Sweep(keep []cluster.TaskID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	kept := map[string]bool{keyFile: true}
	for _, id := range keep {
		kept[filepath.Base(d.Path(id))] = true
	}
	entries, err := os.ReadDir(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for secrets that are left: %w", err)
	}
	var problems []error
	for _, e := range entries {
		if !kept[e.Name()] {
			problems = append(problems, remove(filepath.Join(d.path, e.Name())))
		}
	}
	return errors.Join(append(problems, d.tidy())...)
}
