package bolt

import (
	"encoding/binary"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// Quick makes commits cheap for tests that do not cut the power: no fdatasync.
func (o Options) Quick() Options {
	o.noSync = true
	return o
}

// Folding sets how much may be in the log alone before it is folded.
func (o Options) Folding(keys, bytes, batches int) Options {
	o.fold = foldLimits{keys: keys, bytes: bytes, batches: batches}
	return o
}

// PutFormat makes a file look as if another version of the program had written it.
func PutFormat(tx *bbolt.Tx, writer, least uint32) error {
	return putMeta(tx, metaFormat, binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, writer), least))
}

// FormatOf returns the format that a file says it is of.
func FormatOf(t *testing.T, path string) (writer uint32) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(db.View(func(tx *bbolt.Tx) error {
		writer, err = checkFormat(path, tx)
		return err
	}), db.Close())
	if err != nil {
		t.Fatal(err)
	}
	return writer
}

// PagesWritten returns how many bytes of pages commits have written so far.
func PagesWritten(b *Backend) int64 {
	s := b.db.Stats()
	return s.TxStats.GetPageAlloc()
}

// MakeReadOnly puts a descriptor that cannot be written in the place of the file's, so that commits fail, and returns what undoes that.
func MakeReadOnly(t *testing.T, b *Backend) (restore func()) {
	t.Helper()
	fd := descriptor(t, b.path)
	keep, err := unix.Dup(fd)
	if err != nil {
		t.Fatal(err)
	}
	readOnly, err := os.Open(b.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Dup2(int(readOnly.Fd()), fd); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := unix.Dup2(keep, fd); err != nil {
			t.Error(err)
		}
		if err := unix.Close(keep); err != nil {
			t.Error(err)
		}
		if err := readOnly.Close(); err != nil {
			t.Error(err)
		}
	}
}

// descriptor finds the one open file of that name in this process.
func descriptor(t *testing.T, path string) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf("no list of descriptors: %v", err)
	}
	for _, e := range entries {
		if name, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(name, path) {
			fd, err := strconv.Atoi(e.Name())
			if err != nil {
				t.Fatal(err)
			}
			return fd
		}
	}
	t.Fatalf("%s is not open", path)
	return -1
}
