package bolt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/setpointd/setpoint/core/store"
	"github.com/setpointd/setpoint/core/store/bolt"
)

// sample makes a file with records of all sizes, folded and unfolded, and returns what it holds.
func sample(t *testing.T, path string) (held map[string]string, batches []store.Batch) {
	t.Helper()
	opts := bolt.Options{Retention: store.Retention{Revisions: 40}}.Quick().Folding(150, 1<<20, 30)
	b, _, _ := open(t, path, opts)
	for r := uint64(1); r <= 120; r++ {
		batch := crashBatch(r)
		batch.Records = append(batch.Records, store.Record{Key: fmt.Sprintf("once/%d", r), Value: []byte(strings.Repeat("v", int(r)))})
		commit(t, b, batch)
	}
	commit(t, b, turn(121, "large", strings.Repeat("large", 2000)))
	if s := b.Stats(); s.Folded == 0 || s.Folded == s.Head || s.Oldest == 0 {
		t.Fatalf("the sample does not show all that a file can contain: %+v", s)
	}
	closed(t, b)
	held, batches, err := contents(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return held, batches
}

// contents opens a file and returns all that it holds.
func contents(ctx context.Context, path string) (held map[string]string, batches []store.Batch, err error) {
	b, err := bolt.Open(path, bolt.Options{}.Quick())
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	held = map[string]string{}
	head, err := b.Load(ctx, func(r store.Record) error {
		held[r.Key] = string(r.Value)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	err = b.Read(ctx, head.Oldest, func(batch store.Batch) error {
		batches = append(batches, batch)
		return nil
	})
	return held, batches, err
}

func sameBatches(a, b []store.Batch) bool {
	return slices.EqualFunc(a, b, func(x, y store.Batch) bool {
		return x.Revision == y.Revision && x.Engine == y.Engine && x.Wall.Equal(y.Wall) &&
			slices.EqualFunc(x.Records, y.Records, func(r, s store.Record) bool {
				return r.Key == s.Key && bytes.Equal(r.Value, s.Value) && (r.Value == nil) == (s.Value == nil)
			})
	})
}

// testFlips damages copies of a file, and asks that each damage is refused or harmless.
func testFlips(t *testing.T, path string, held map[string]string, batches []store.Batch, rounds int, damage func(*rand.Rand, []byte)) {
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(t.TempDir(), "bad.db")
	refused := 0
	for round := range rounds {
		b := bytes.Clone(good)
		damage(rand.New(rand.NewPCG(uint64(round), 2)), b)
		if err := os.WriteFile(bad, b, 0o600); err != nil {
			t.Fatal(err)
		}
		_, checked := bolt.Check(t.Context(), bad)
		gotHeld, gotBatches, err := contents(t.Context(), bad)
		if err != nil {
			refused++
			if corrupt := (*store.CorruptError)(nil); !errors.As(err, &corrupt) {
				t.Errorf("round %d: %v is not a CorruptError", round, err)
			}
			if checked == nil {
				t.Errorf("round %d: check found nothing, and then: %v", round, err)
			}
			continue
		}
		if !maps.Equal(gotHeld, held) || !sameBatches(gotBatches, batches) {
			t.Fatalf("round %d: the damage was not noticed, and changed the contents", round)
		}
	}
	t.Logf("%d damaged files: %d refused, %d harmless, none wrong", rounds, refused, rounds-refused)
	if refused == 0 {
		t.Error("no damage was found at all")
	}
}

func TestFlippedBytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	held, batches := sample(t, path)
	rounds := 400
	if testing.Short() {
		rounds = 100
	}
	t.Run("one byte", func(t *testing.T) {
		testFlips(t, path, held, batches, rounds, func(r *rand.Rand, b []byte) {
			b[r.IntN(len(b))] ^= byte(1 + r.IntN(255))
		})
	})
	t.Run("one bit of a header", func(t *testing.T) { // page headers, and the first elements of pages
		testFlips(t, path, held, batches, rounds, func(r *rand.Rand, b []byte) {
			page := r.IntN(len(b) / os.Getpagesize())
			b[page*os.Getpagesize()+r.IntN(128)] ^= 1 << r.IntN(8)
		})
	})
	t.Run("page of zeros", func(t *testing.T) {
		testFlips(t, path, held, batches, rounds/5, func(r *rand.Rand, b []byte) {
			page := r.IntN(len(b) / os.Getpagesize())
			clear(b[page*os.Getpagesize() : (page+1)*os.Getpagesize()])
		})
	})
	t.Run("pages exchanged", func(t *testing.T) {
		testFlips(t, path, held, batches, rounds/5, func(r *rand.Rand, b []byte) {
			n := len(b) / os.Getpagesize()
			x, y := r.IntN(n)*os.Getpagesize(), r.IntN(n)*os.Getpagesize()
			one := bytes.Clone(b[x : x+os.Getpagesize()])
			copy(b[x:], b[y:y+os.Getpagesize()])
			copy(b[y:], one)
		})
	})
	t.Run("cut off", func(t *testing.T) {
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{1, 100, 4096, 5000, 16384, len(good) / 2} {
			if err := os.WriteFile(path, good[:size], 0o600); err != nil {
				t.Fatal(err)
			}
			_, _, err := contents(t.Context(), path)
			wantCorrupt(t, err)
		}
	})
}

// A copy of a file in use is like one after a power cut: the list of free pages is not in it.
func TestFlippedBytesUnclean(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.db")
	sample(t, path)
	b, head, held := open(t, path, bolt.Options{}.Quick())
	commit(t, b, turn(head.Revision+1, "last", "one"))
	held["last"] = "one"
	var batches []store.Batch
	if err := b.Read(t.Context(), head.Oldest, func(batch store.Batch) error {
		batches = append(batches, batch)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	testFlips(t, path, held, batches, 200, func(r *rand.Rand, b []byte) {
		page := r.IntN(len(b) / os.Getpagesize())
		b[page*os.Getpagesize()+r.IntN(128)] ^= 1 << r.IntN(8)
	})
}

// Damage that bbolt itself sees nothing wrong with.
func TestTampered(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(tx *bbolt.Tx) error
		want string
	}{
		{"keyed record lost", func(tx *bbolt.Tx) error {
			k, _ := tx.Bucket([]byte("obj")).Cursor().First()
			return tx.Bucket([]byte("obj")).Delete(bytes.Clone(k))
		}, "a page was lost or is outdated"},
		{"record of the log lost", func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte("log")).Delete([]byte{0, 0, 0, 0, 0, 0, 0, 100})
		}, "log of revision 100: missing, followed by revision 101"},
		{"last record of the log lost", func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte("log")).DeleteBucket([]byte{0, 0, 0, 0, 0, 0, 0, 121})
		}, "the log ends with revision 120"},
		{"bucket of the log empty", func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte("log")).Bucket([]byte{0, 0, 0, 0, 0, 0, 0, 121}).Delete([]byte("batch"))
		}, "log of revision 121: too short"},
		{"values exchanged", func(tx *bbolt.Tx) error {
			obj := tx.Bucket([]byte("obj"))
			c := obj.Cursor()
			k1, v1 := c.First()
			k2, v2 := c.Next()
			k1, v1, k2, v2 = bytes.Clone(k1), bytes.Clone(v1), bytes.Clone(k2), bytes.Clone(v2)
			return errors.Join(obj.Put(k1, v2), obj.Put(k2, v1))
		}, "wrong checksum"},
		{"short value", func(tx *bbolt.Tx) error { return tx.Bucket([]byte("obj")).Put([]byte("k"), []byte("x")) }, "too short"},
		{"strange key in the log", func(tx *bbolt.Tx) error { return tx.Bucket([]byte("log")).Put([]byte("k"), nil) }, "not a revision"},
		{"no head", func(tx *bbolt.Tx) error { return tx.Bucket([]byte("meta")).Delete([]byte("head")) }, `meta "head": missing`},
		{"no bucket", func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("log")) }, "not a file of this program"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.db")
			sample(t, path)
			edit(t, path, tt.do)
			_, _, err := contents(t.Context(), path)
			wantCorrupt(t, err)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want one with %q", err, tt.want)
			}
		})
	}
}

// edit changes a file behind the backend's back.
func edit(t *testing.T, path string, do func(tx *bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(do), db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestOtherFiles(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, bytes.Repeat([]byte("not a database\n"), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(dir, "foreign")
	edit(t, foreign, func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket([]byte("somebody's"))
		return err
	})
	for _, path := range []string{text, empty, foreign} {
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = bolt.Open(path, bolt.Options{})
		wantCorrupt(t, err)
		_, err = bolt.Check(t.Context(), path)
		wantCorrupt(t, err)
		after, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(before, after) {
			t.Errorf("%s was changed", filepath.Base(path))
		}
	}
	if _, err := bolt.Check(t.Context(), filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("check of a file that is not there: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*.pid")); err != nil || len(left) > 0 {
		t.Errorf("pid files left behind: %v, %v", left, err)
	}
}
