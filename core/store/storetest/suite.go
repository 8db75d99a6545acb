package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/store"
)

// Open opens the one storage that it stands for, which nobody else holds at that moment.
type Open func(store.Retention) (store.Backend, error)

// Run tests a backend. Storage makes fresh, empty storage (head 0) which lasts until the test is over.
func Run(t *testing.T, storage func(testing.TB) Open) {
	for _, tt := range []struct {
		name string
		run  func(*testing.T, func(testing.TB) Open)
	}{
		{"empty", testEmpty},
		{"load after commits", testLoad},
		{"delete", testDelete},
		{"empty value", testEmptyValue},
		{"no records", testNoRecords},
		{"values are copied", testCopies},
		{"put fails", testPutFails},
		{"read from any revision", testRead},
		{"read stops with yield", testReadStops},
		{"read ahead", testReadAhead},
		{"compaction", testCompaction},
		{"compaction by age", testCompactionAge},
		{"order of calls", testOrder},
		{"refused batches", testRefused},
		{"limits", testLimits},
		{"cancelled", testCancelled},
		{"closed", testClosed},
		{"lead", testLead},
		{"read beside commit", testReadBesideCommit},
		{"random operations", testModel},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, storage) })
	}
}

// opened opens storage and closes it with the test.
func opened(t *testing.T, open Open, keep store.Retention) store.Backend {
	t.Helper()
	b, err := open(keep)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

// loaded opens and loads storage.
func loaded(t *testing.T, open Open, keep store.Retention) (store.Backend, []store.Record, store.Head) {
	t.Helper()
	b := opened(t, open, keep)
	records, head, err := load(t, b)
	if err != nil {
		t.Fatal(err)
	}
	return b, records, head
}

func load(t *testing.T, b store.Backend) ([]store.Record, store.Head, error) {
	var records []store.Record
	head, err := b.Load(t.Context(), func(r store.Record) error {
		records = append(records, store.Record{Key: r.Key, Value: bytes.Clone(r.Value)})
		return nil
	})
	return records, head, err
}

// turn makes the batch of a revision, one second of engine time apart.
func turn(revision uint64, records ...store.Record) store.Batch {
	return store.Batch{
		Revision: revision,
		Engine:   time.Duration(revision) * time.Second,
		Wall:     time.Date(2026, 5, 1, 12, 0, 0, 123_456_789, time.UTC).Add(time.Duration(revision) * time.Second),
		Records:  records,
	}
}

func put(key, value string) store.Record { return store.Record{Key: key, Value: []byte(value)} }

func del(key string) store.Record { return store.Record{Key: key} }

func commit(t *testing.T, b store.Backend, batches ...store.Batch) {
	t.Helper()
	for _, batch := range batches {
		if err := b.Commit(t.Context(), batch); err != nil {
			t.Fatalf("commit revision %d: %v", batch.Revision, err)
		}
	}
}

// read collects what Read yields.
func read(t *testing.T, b store.Backend, from uint64) []store.Batch {
	t.Helper()
	var out []store.Batch
	err := b.Read(t.Context(), from, func(batch store.Batch) error {
		out = append(out, batch)
		return nil
	})
	if err != nil {
		t.Fatalf("read from revision %d: %v", from, err)
	}
	return out
}

func wantRecords(t *testing.T, got []store.Record, want ...store.Record) {
	t.Helper()
	if err := diffRecords(got, want); err != nil {
		t.Error(err)
	}
}

func wantBatches(t *testing.T, got []store.Batch, want ...store.Batch) {
	t.Helper()
	if err := diffBatches(got, want); err != nil {
		t.Error(err)
	}
}

func wantHead(t *testing.T, got store.Head, last store.Batch) {
	t.Helper()
	if got.Revision != last.Revision || got.Engine != last.Engine || !got.Wall.Equal(last.Wall) {
		t.Errorf("head = %+v, want that of %+v", got, last)
	}
	if got.ClusterID == "" {
		t.Error("head has no cluster id")
	}
}

func wantError(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("error = %v, want %v", got, want)
	}
}

func diffRecords(got, want []store.Record) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d records, want %d: %q, want %q", len(got), len(want), brief(got), brief(want))
	}
	for i, r := range want {
		if got[i].Key != r.Key || !bytes.Equal(got[i].Value, r.Value) || (got[i].Value == nil) != (r.Value == nil) {
			return fmt.Errorf("record %d = %.99q, want %.99q", i, got[i], r)
		}
	}
	return nil
}

func diffBatches(got, want []store.Batch) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d batches, want %d", len(got), len(want))
	}
	for i, b := range want {
		if got[i].Revision != b.Revision || got[i].Engine != b.Engine || !got[i].Wall.Equal(b.Wall) {
			return fmt.Errorf("batch %d is of revision %d, %v, %v; want %d, %v, %v", i, got[i].Revision, got[i].Engine, got[i].Wall, b.Revision, b.Engine, b.Wall)
		}
		if err := diffRecords(got[i].Records, b.Records); err != nil {
			return fmt.Errorf("revision %d: %w", b.Revision, err)
		}
	}
	return nil
}

func brief(records []store.Record) []store.Record {
	return records[:min(len(records), 10)]
}
