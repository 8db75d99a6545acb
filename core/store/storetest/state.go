package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/store"
)

func testEmpty(t *testing.T, storage func(testing.TB) Open) {
	open := storage(t)
	b, records, head := loaded(t, open, store.Retention{})
	wantRecords(t, records)
	if head.Revision != 0 || head.Engine != 0 || head.Oldest != 0 || head.ClusterID == "" {
		t.Errorf("head = %+v, want revision 0 and a cluster id", head)
	}
	wantBatches(t, read(t, b, 0))
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	_, records, again := loaded(t, open, store.Retention{})
	wantRecords(t, records)
	if again != head {
		t.Errorf("head when opened again = %+v, want %+v", again, head)
	}
}

func testLoad(t *testing.T, storage func(testing.TB) Open) {
	open := storage(t)
	b, _, first := loaded(t, open, store.Retention{})
	last := turn(3, put("task/web/2", "v1"), put("node/b", "v2"))
	commit(t, b,
		turn(1, put("task/web/1", "v1"), put("node/a", "v1")),
		turn(2, put("node/b", "v1"), put("task/web/1", "v2")),
		last)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	_, records, head := loaded(t, open, store.Retention{})
	wantRecords(t, records, put("node/a", "v1"), put("node/b", "v2"), put("task/web/1", "v2"), put("task/web/2", "v1"))
	wantHead(t, head, last)
	if head.ClusterID != first.ClusterID {
		t.Errorf("cluster id %q became %q", first.ClusterID, head.ClusterID)
	}
	if head.Oldest != 0 {
		t.Errorf("oldest = %d, want 0", head.Oldest)
	}
}

func testDelete(t *testing.T, storage func(testing.TB) Open) {
	open := storage(t)
	b, _, _ := loaded(t, open, store.Retention{})
	commit(t, b,
		turn(1, put("a", "1"), put("b", "1"), put("c", "1")),
		turn(2, del("a"), del("c"), del("never")),
		turn(3, put("c", "2")))
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b, records, _ := loaded(t, open, store.Retention{})
	wantRecords(t, records, put("b", "1"), put("c", "2"))
	commit(t, b, turn(4, del("b"), del("c")))
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	_, records, _ = loaded(t, open, store.Retention{})
	wantRecords(t, records)
}

func testEmptyValue(t *testing.T, storage func(testing.TB) Open) {
	open := storage(t)
	b, _, _ := loaded(t, open, store.Retention{})
	batch := turn(1, put("empty", ""), del("gone"))
	commit(t, b, batch)
	wantBatches(t, read(t, b, 0), batch)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	_, records, _ := loaded(t, open, store.Retention{})
	wantRecords(t, records, put("empty", ""))
}

func testNoRecords(t *testing.T, storage func(testing.TB) Open) {
	open := storage(t)
	b, _, _ := loaded(t, open, store.Retention{})
	one, two := turn(1), turn(2)
	two.Wall = time.Time{}
	two.Engine = one.Engine // engine time may stand still
	commit(t, b, one, two)
	wantBatches(t, read(t, b, 0), one, two)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, head := loaded(t, open, store.Retention{})
	wantHead(t, head, two)
}

func testCopies(t *testing.T, storage func(testing.TB) Open) {
	open := storage(t)
	b, _, _ := loaded(t, open, store.Retention{})
	batch := turn(1, put("k", "right"))
	commit(t, b, batch)
	copy(batch.Records[0].Value, "WRONG")
	got := read(t, b, 0)
	wantBatches(t, got, turn(1, put("k", "right")))
	copy(got[0].Records[0].Value, "WRONG")
	wantBatches(t, read(t, b, 0), turn(1, put("k", "right")))
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b, records, _ := loaded(t, open, store.Retention{})
	wantRecords(t, records, put("k", "right"))
	copy(records[0].Value, "WRONG")
	commit(t, b, turn(2))
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	_, records, _ = loaded(t, open, store.Retention{})
	wantRecords(t, records, put("k", "right"))
}

func testPutFails(t *testing.T, storage func(testing.TB) Open) {
	open := storage(t)
	b, _, _ := loaded(t, open, store.Retention{})
	commit(t, b, turn(1, put("a", "1"), put("b", "1")))
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = opened(t, open, store.Retention{})
	broken := errors.New("cannot be decoded")
	calls := 0
	_, err := b.Load(t.Context(), func(store.Record) error {
		calls++
		return broken
	})
	wantError(t, err, broken)
	if calls != 1 {
		t.Errorf("put was called %d times, want 1", calls)
	}
	wantError(t, b.Commit(t.Context(), turn(2)), store.ErrNotLoaded)
	records, _, err := load(t, b)
	if err != nil {
		t.Fatalf("load after a put that failed: %v", err)
	}
	wantRecords(t, records, put("a", "1"), put("b", "1"))
}
