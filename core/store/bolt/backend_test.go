package bolt_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/setpointd/setpoint/core/store"
	"github.com/setpointd/setpoint/core/store/bolt"
)

func TestNewFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.db")
	// What an attempt that was cut off left behind does not matter.
	if err := os.WriteFile(path+".new", []byte("half of somethi"), 0o600); err != nil {
		t.Fatal(err)
	}
	initial := store.Head{Revision: 500, Engine: time.Hour, Wall: time.Unix(1000, 0), ClusterID: "restored"}
	b, head, _ := open(t, path, bolt.Options{Initial: initial})
	want := initial
	want.Wall, want.Oldest = want.Wall.UTC(), 500
	if head != want {
		t.Errorf("head = %+v, want %+v", head, want)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v, want 0600", info.Mode())
	}
	if _, err := os.Stat(path + ".new"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the unfinished file is still there: %v", err)
	}
	next := turn(501, "k", "v")
	next.Engine = time.Hour
	commit(t, b, next)
	closed(t, b)
	// A file that exists keeps its head, whatever the options say.
	_, head, held := open(t, path, bolt.Options{Initial: store.Head{Revision: 7, ClusterID: "other"}})
	if head.Revision != 501 || head.ClusterID != "restored" || head.Oldest != 500 || held["k"] != "v" {
		t.Errorf("head = %+v, held %v; want revision 501 of cluster restored, oldest 500", head, held)
	}
}

func TestClusterIDs(t *testing.T) {
	_, one, _ := open(t, filepath.Join(t.TempDir(), "state.db"), bolt.Options{})
	_, two, _ := open(t, filepath.Join(t.TempDir(), "state.db"), bolt.Options{})
	if len(one.ClusterID) != 32 || one.ClusterID == two.ClusterID {
		t.Errorf("cluster ids %q and %q, want two different ones of 32 digits", one.ClusterID, two.ClusterID)
	}
}

func TestNoDirectory(t *testing.T) {
	_, err := bolt.Open(filepath.Join(t.TempDir(), "none", "state.db"), bolt.Options{})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error = %v, want that the directory does not exist", err)
	}
}

func TestNewerFormat(t *testing.T) {
	for _, tt := range []struct {
		name          string
		writer, least uint32
		readable      bool
	}{
		{"newer, still readable", bolt.Format + 1, bolt.Format, true},
		{"too new", bolt.Format + 5, bolt.Format + 3, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.db")
			b, _, _ := open(t, path, bolt.Options{})
			commit(t, b, turn(1, "k", "v"))
			closed(t, b)
			edit(t, path, func(tx *bbolt.Tx) error { return bolt.PutFormat(tx, tt.writer, tt.least) })

			b, err := bolt.Open(path, bolt.Options{})
			if tt.readable {
				if err != nil {
					t.Fatal(err)
				}
				closed(t, b)
				return
			}
			var format *store.FormatError
			if !errors.As(err, &format) {
				t.Fatalf("error = %v, want a FormatError", err)
			}
			if format.Format != tt.writer || format.MinReader != tt.least || format.Known != bolt.Format {
				t.Errorf("error says %+v", format)
			}
			_, err = bolt.Check(t.Context(), path)
			if !errors.As(err, &format) {
				t.Errorf("check: error = %v, want a FormatError", err)
			}
		})
	}
}

// After a commit that failed for no reason that is known to be harmless, nothing goes on.
func TestOutcomeUnknown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	b, _, _ := open(t, path, bolt.Options{})
	commit(t, b, turn(1, "k", "1"))
	restore := bolt.MakeReadOnly(t, b)
	err := b.Commit(t.Context(), turn(2, "k", "2"))
	if !errors.Is(err, store.ErrOutcomeUnknown) || !errors.Is(err, syscall.EBADF) {
		t.Fatalf("error = %v, want ErrOutcomeUnknown because of EBADF", err)
	}
	restore()
	if err := b.Commit(t.Context(), turn(2, "k", "2")); !errors.Is(err, store.ErrOutcomeUnknown) {
		t.Errorf("commit: error = %v, want ErrOutcomeUnknown", err)
	}
	if err := b.Read(t.Context(), 0, func(store.Batch) error { return nil }); !errors.Is(err, store.ErrOutcomeUnknown) {
		t.Errorf("read: error = %v, want ErrOutcomeUnknown", err)
	}
	if got := b.Stats().Head; got != 1 {
		t.Errorf("head = %d, want the last acknowledged revision 1", got)
	}
	closed(t, b)
	_, head, held := open(t, path, bolt.Options{})
	if head.Revision != 1 || held["k"] != "1" {
		t.Errorf("head %d, value %q; want what was acknowledged", head.Revision, held["k"])
	}
}

// A file at its largest size refuses cleanly, once it has given up old log, and goes on when it may grow.
func TestMaxSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	opts := bolt.Options{MaxSize: 8 << 20}.Quick().Folding(50, 1<<20, 10)
	b, _, _ := open(t, path, opts)
	want := map[string]string{}
	value := strings.Repeat("x", 20_000)
	revision, full := uint64(1), false
	for ; revision < 2000 && !full; revision++ {
		key := fmt.Sprintf("key/%d", revision)
		err := b.Commit(t.Context(), turn(revision, key, value))
		switch full = errors.Is(err, store.ErrNoSpace); {
		case err == nil:
			want[key] = value
		case !full:
			t.Fatal(err)
		}
	}
	if !full {
		t.Fatal("40 MB went into a file of 8")
	}
	revision--
	if got := b.Stats().Head; got != revision-1 {
		t.Errorf("head = %d, want %d", got, revision-1)
	}
	if err := b.Read(t.Context(), b.Stats().Oldest, func(store.Batch) error { return nil }); err != nil {
		t.Errorf("read from a full file: %v", err)
	}
	// The log that was only kept for readers has been given up before that.
	if s := b.Stats(); s.Oldest != s.Folded || s.Folded == 0 {
		t.Errorf("oldest %d, folded %d: old log is still there", s.Oldest, s.Folded)
	}
	switch err := b.Commit(t.Context(), turn(revision, "key/again", value)); {
	case err == nil: // what was given up made room
		want["key/again"] = value
		revision++
	case !errors.Is(err, store.ErrNoSpace):
		t.Errorf("a second attempt: %v, want success or ErrNoSpace", err)
	}
	closed(t, b)
	if info, err := os.Stat(path); err != nil || info.Size() > int64(opts.MaxSize) {
		t.Errorf("size %d, %v; want at most %d", info.Size(), err, opts.MaxSize)
	}
	opts.MaxSize *= 4
	b, head, held := open(t, path, opts)
	if head.Revision != revision-1 || !maps.Equal(held, want) {
		t.Errorf("head %d with %d records, want %d with %d", head.Revision, len(held), revision-1, len(want))
	}
	commit(t, b, turn(revision, "key/one", value))
}

// A file system that is full is no reason to stop.
func TestNoSpace(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to mount a small file system")
	}
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("mount: %v", err)
	}
	defer func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 512<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "state.db")
	b, _, _ := open(t, path, bolt.Options{})
	var err error
	revision := uint64(0)
	for err == nil && revision < 1000 {
		revision++
		err = b.Commit(t.Context(), turn(revision, fmt.Sprintf("key/%d", revision), strings.Repeat("x", 10_000)))
	}
	if !errors.Is(err, store.ErrNoSpace) || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("error = %v, want ErrNoSpace because of ENOSPC", err)
	}
	n := 0
	if err := b.Read(t.Context(), 0, func(store.Batch) error { n++; return nil }); err != nil || uint64(n) != revision-1 {
		t.Errorf("read %d batches, %v; want %d", n, err, revision-1)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	commit(t, b, turn(revision, "key/now", "there is space"))
	closed(t, b)
	b, head, held := open(t, path, bolt.Options{})
	if head.Revision != revision || held["key/now"] != "there is space" || uint64(len(held)) != revision {
		t.Errorf("head %d with %d records, want %d with as many", head.Revision, len(held), revision)
	}
	closed(t, b)
}

func TestProgress(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	b, _, _ := open(t, path, bolt.Options{}.Quick())
	commit(t, b, turn(1, "k", strings.Repeat("x", 3<<20)))
	closed(t, b)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	var done, total int64
	open(t, path, bolt.Options{Progress: func(d, n int64) { done, total = d, n }})
	if done != info.Size() || total != info.Size() {
		t.Errorf("progress ended at %d of %d, want %d of it", done, total, info.Size())
	}
}

// What is not folded stays within one and a half generations and a batch, however long it goes on.
func TestBacklogIsBounded(t *testing.T) {
	const keys = 400
	b, _, _ := open(t, filepath.Join(t.TempDir(), "state.db"), bolt.Options{}.Quick().Folding(keys, math.MaxInt32, math.MaxInt32))
	next, worst, perBatch := 0, 0, 60
	for r := uint64(1); r <= 150; r++ {
		var changes []string
		for range perBatch {
			changes = append(changes, fmt.Sprintf("%016x", uint64(next)*0x9E3779B97F4A7C15), "value")
			next++
		}
		commit(t, b, turn(r, changes...))
		worst = max(worst, b.Stats().UnfoldedKeys)
	}
	if limit := keys*3/2 + 2*perBatch; worst > limit || worst < keys/2 {
		t.Errorf("%d keys were unfolded at the worst, want some and at most %d", worst, limit)
	}
	if s := b.Stats(); s.Folded == 0 || s.Head-s.Folded > 20 {
		t.Errorf("folded up to revision %d of %d", s.Folded, s.Head)
	}
}

// The file of a cluster with a steady number of records does not grow for ever.
func TestFileStaysSmall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	opts := bolt.Options{Retention: store.Retention{Revisions: 50}}.Quick().Folding(500, 1<<20, 100)
	b, _, _ := open(t, path, opts)
	var half int64
	const n = 3000
	for r := uint64(1); r <= n; r++ {
		commit(t, b, crashBatch(r))
		if r == n/2 {
			half = b.Stats().FileBytes
		}
	}
	if s := b.Stats(); s.FileBytes > 2*half || s.LogBatches > 300 || s.FreeBytes <= 0 {
		t.Errorf("after as many commits again the file grew from %d to %d bytes: %+v", half, s.FileBytes, s)
	}
}

func TestCompact(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	opts := bolt.Options{Retention: store.Retention{Revisions: 10}}.Quick().Folding(100, 1<<20, 20)
	b, _, _ := open(t, path, opts)
	for r := uint64(1); r <= 200; r++ {
		commit(t, b, turn(r, fmt.Sprintf("key/%d", r), strings.Repeat("x", 10_000)))
	}
	for r := uint64(201); r <= 390; r++ {
		commit(t, b, turn(r, fmt.Sprintf("key/%d", r-200), ""))
	}
	var inUse *store.InUseError
	if _, _, err := bolt.Compact(t.Context(), path); !errors.As(err, &inUse) {
		t.Errorf("compact of a file in use: %v, want an InUseError", err)
	}
	closed(t, b)
	held, batches, err := contents(t.Context(), path)
	if err != nil || len(held) != 10 {
		t.Fatalf("%d records, %v; want 10", len(held), err)
	}
	before, after, err := bolt.Compact(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if after != info.Size() || after >= before/2 || info.Mode().Perm() != 0o600 {
		t.Errorf("from %d to %d bytes, the file has %d and mode %v", before, after, info.Size(), info.Mode())
	}
	if report, err := bolt.Check(t.Context(), path); err != nil || !report.Clean || report.Records != 10 || report.Head.Revision != 390 || report.Bytes != after {
		t.Errorf("check: %+v, %v", report, err)
	}
	gotHeld, gotBatches, err := contents(t.Context(), path)
	if err != nil || !maps.Equal(gotHeld, held) || !sameBatches(gotBatches, batches) {
		t.Errorf("the contents are not what they were: %v", err)
	}
	if left, err := filepath.Glob(path + ".*"); err != nil || len(left) > 0 {
		t.Errorf("files left behind: %v, %v", left, err)
	}
}
