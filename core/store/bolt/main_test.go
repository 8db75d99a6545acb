package bolt_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/setpointd/setpoint/core/store"
	"github.com/setpointd/setpoint/core/store/bolt"
	"github.com/setpointd/setpoint/core/store/storetest"
)

// TestMain is also the main of the child processes that some tests start: they name what to do and a file.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 {
		switch os.Args[1] {
		case childCommit:
			exit(commitUntilKilled(os.Args[2]))
		case childHold:
			exit(holdUntilKilled(os.Args[2]))
		}
	}
	flag.Bool("update-golden", false, "write the golden file")
	goleak.VerifyTestMain(m)
}

func exit(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func TestConformance(t *testing.T) {
	for _, tt := range []struct {
		name string
		opts bolt.Options
	}{
		{"as it is", bolt.Options{}.Quick()},
		{"folding all the time", bolt.Options{}.Quick().Folding(2, 100, 2)},
		{"folding now and then", bolt.Options{}.Quick().Folding(20, 4096, 8)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			storetest.Run(t, func(tb testing.TB) storetest.Open {
				path := filepath.Join(tb.TempDir(), "state.db")
				return func(keep store.Retention) (store.Backend, error) {
					opts := tt.opts
					opts.Retention = keep
					b, err := bolt.Open(path, opts)
					if err != nil {
						return nil, err
					}
					return b, nil
				}
			})
		})
	}
}

// open opens and loads a file, and returns what it held.
func open(tb testing.TB, path string, opts bolt.Options) (*bolt.Backend, store.Head, map[string]string) {
	tb.Helper()
	b, err := bolt.Open(path, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := b.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	head, held := load(tb, b)
	return b, head, held
}

func load(tb testing.TB, b *bolt.Backend) (store.Head, map[string]string) {
	tb.Helper()
	held := map[string]string{}
	head, err := b.Load(tb.Context(), func(r store.Record) error {
		held[r.Key] = string(r.Value)
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return head, held
}

// turn makes the batch of a revision; an empty value deletes.
func turn(revision uint64, keysAndValues ...string) store.Batch {
	b := store.Batch{Revision: revision, Engine: time.Duration(revision) * time.Second, Wall: time.Unix(int64(revision), 0)}
	for i := 0; i < len(keysAndValues); i += 2 {
		r := store.Record{Key: keysAndValues[i]}
		if v := keysAndValues[i+1]; v != "" {
			r.Value = []byte(v)
		}
		b.Records = append(b.Records, r)
	}
	return b
}

func commit(tb testing.TB, b *bolt.Backend, batches ...store.Batch) {
	tb.Helper()
	for _, batch := range batches {
		if err := b.Commit(tb.Context(), batch); err != nil {
			tb.Fatal(err)
		}
	}
}

// closed closes a backend in the middle of a test.
func closed(tb testing.TB, b *bolt.Backend) {
	tb.Helper()
	if err := b.Close(); err != nil {
		tb.Fatal(err)
	}
}

func wantCorrupt(tb testing.TB, err error) {
	tb.Helper()
	if corrupt := (*store.CorruptError)(nil); !errors.As(err, &corrupt) {
		tb.Errorf("error = %v, want a CorruptError", err)
	}
}
