package mem_test

import (
	"errors"
	"testing"

	"github.com/setpointd/setpoint/core/store"
	"github.com/setpointd/setpoint/core/store/mem"
	"github.com/setpointd/setpoint/core/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(testing.TB) storetest.Open {
		d := mem.NewDisk(store.Head{})
		return func(keep store.Retention) (store.Backend, error) { return mem.Open(d, mem.Options{Retention: keep}) }
	})
}

// open opens and loads the disk, with faults by revision, and returns what it held.
func open(t *testing.T, d *mem.Disk, faults map[uint64]mem.Fault) (*mem.Backend, store.Head, map[string]string) {
	t.Helper()
	b, err := mem.Open(d, mem.Options{FailCommit: func(revision uint64) mem.Fault { return faults[revision] }})
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]string{}
	head, err := b.Load(t.Context(), func(r store.Record) error {
		held[r.Key] = string(r.Value)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b, head, held
}

func one(revision uint64, value string) store.Batch {
	return store.Batch{Revision: revision, Records: []store.Record{{Key: "k", Value: []byte(value)}}}
}

func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		name     string
		fault    mem.Fault
		want     error
		usable   bool // after the fault
		revision uint64
		value    string
	}{
		{"none", mem.FaultNone, nil, true, 2, "new"},
		{"no space", mem.FaultNoSpace, store.ErrNoSpace, true, 1, "old"},
		{"before", mem.FaultBefore, store.ErrOutcomeUnknown, false, 1, "old"},
		{"after", mem.FaultAfter, store.ErrOutcomeUnknown, false, 2, "new"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := mem.NewDisk(store.Head{ClusterID: "c1"})
			b, _, _ := open(t, d, map[uint64]mem.Fault{2: tt.fault})
			if err := b.Commit(t.Context(), one(1, "old")); err != nil {
				t.Fatal(err)
			}
			if err := b.Commit(t.Context(), one(2, "new")); !errors.Is(err, tt.want) {
				t.Fatalf("error = %v, want %v", err, tt.want)
			}
			err := b.Read(t.Context(), 0, func(store.Batch) error { return nil })
			if usable := err == nil; usable != tt.usable {
				t.Errorf("read after the fault: %v, want usable %v", err, tt.usable)
			}
			if !tt.usable {
				if err := b.Commit(t.Context(), one(2, "again")); !errors.Is(err, store.ErrOutcomeUnknown) {
					t.Errorf("commit after the fault: %v, want ErrOutcomeUnknown", err)
				}
			}
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			_, head, held := open(t, d, nil)
			if head.Revision != tt.revision || held["k"] != tt.value || head.ClusterID != "c1" {
				t.Errorf("after the crash: head %+v, value %q; want revision %d, value %q, cluster c1", head, held["k"], tt.revision, tt.value)
			}
		})
	}
}

func TestInitialHead(t *testing.T) {
	b, head, _ := open(t, mem.NewDisk(store.Head{Revision: 500, ClusterID: "restored"}), nil)
	if head.Revision != 500 || head.Oldest != 500 || head.ClusterID != "restored" {
		t.Errorf("head = %+v, want revision and oldest 500 of cluster restored", head)
	}
	if err := b.Commit(t.Context(), one(501, "v")); err != nil {
		t.Fatal(err)
	}
	if err := b.Read(t.Context(), 499, func(store.Batch) error { return nil }); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("read from before the restore: %v, want ErrCompacted", err)
	}
}
