package process

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A taskDir is the path of one task's directory.
type taskDir string

func (d taskDir) lock() string { return filepath.Join(string(d), "lock") }
func (d taskDir) spec() string { return filepath.Join(string(d), "spec.json") }
func (d taskDir) shim() string { return filepath.Join(string(d), "shim.json") }
func (d taskDir) exit() string { return filepath.Join(string(d), "exit.json") }
func (d taskDir) logs() string { return filepath.Join(string(d), "logs") }
func (d taskDir) work() string { return filepath.Join(string(d), "work") }

func (d taskDir) shimLog() string { return filepath.Join(string(d), "shim.log") }

const (
	socketName = "shim.sock"
	// maxEscaped keeps a directory's name, with the cut and its hash, below the 255 bytes of common file systems.
	maxEscaped = 200
	// maxRecordBytes bounds what is read of a record; a spec is the largest, and the kernel limits arguments and environment.
	maxRecordBytes = 8 << 20
)

// escapeID turns a task id into one path element: letters, digits, '-', '_' and inner '.' stay, other bytes become %XX. What gets too long
// is cut and ends in '~' and a hash; '~' occurs in no other name.
func escapeID(id string) string {
	var b strings.Builder
	for i := range len(id) {
		c := id[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if b.Len() <= maxEscaped {
		return b.String()
	}
	sum := sha256.Sum256([]byte(id))
	return b.String()[:maxEscaped-33] + "~" + hex.EncodeToString(sum[:16])
}

// unescapeID is the inverse of escapeID for names that were not cut.
func unescapeID(name string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if name[i] != '%' {
			b.WriteByte(name[i])
			continue
		}
		if i+2 >= len(name) {
			return "", false
		}
		raw, err := hex.DecodeString(name[i+1 : i+3])
		if err != nil {
			return "", false
		}
		b.WriteByte(raw[0])
		i += 2
	}
	return b.String(), b.Len() > 0 && escapeID(b.String()) == name
}

// writeRecord replaces the file at path with v as JSON, readable for its owner alone. Readers see the old content or the new one, and with
// durable so does whoever reads after a power failure.
func writeRecord(path string, v any, durable bool) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	if err == nil && durable {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	if !durable {
		return nil
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// readRecord reads what writeRecord wrote. ok is false if there is none.
func readRecord(path string, v any) (ok bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	if info.Size() > maxRecordBytes {
		return false, fmt.Errorf("read %s: %d bytes are more than a record can have", path, info.Size())
	}
	data := make([]byte, info.Size())
	if _, err := f.ReadAt(data, 0); err != nil {
		return false, fmt.Errorf("read %s: %w", path, err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return false, fmt.Errorf("read %s: %w", path, err)
	}
	return true, nil
}

// tryLock takes the directory's lock. It returns nil and no error if a shim, or whoever starts one, holds it. The lock lives as long as a
// descriptor of it is open in any process.
func (d taskDir) tryLock() (*os.File, error) {
	f, err := os.OpenFile(d.lock(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(f); err != nil {
		return nil, errors.Join(ignoreBusy(err), f.Close())
	}
	return f, nil
}

// locked tells whether a shim, or whoever starts one, holds the lock. It creates nothing.
func (d taskDir) locked() (bool, error) {
	f, err := os.Open(d.lock())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	if err := flock(f); err != nil {
		return true, ignoreBusy(err)
	}
	return false, nil
}

func flock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

func ignoreBusy(err error) error {
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil
	}
	return err
}
