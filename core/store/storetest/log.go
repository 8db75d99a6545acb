package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/store"
)

func testRead(t *testing.T, storage func(testing.TB) Open) {
	const n = 600
	open := storage(t)
	b, _, _ := loaded(t, open, store.Retention{})
	var all []store.Batch
	for r := uint64(1); r <= n; r++ {
		batch := turn(r, put(fmt.Sprintf("key/%d", r%7), fmt.Sprint(r)), del("other"))
		commit(t, b, batch)
		all = append(all, batch)
	}
	check := func(b store.Backend) {
		for _, from := range []uint64{0, 1, 2, 299, n - 1, n} {
			wantBatches(t, read(t, b, from), all[from:]...)
		}
	}
	check(b)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b, _, _ = loaded(t, open, store.Retention{})
	check(b)
	commit(t, b, turn(n+1))
	wantBatches(t, read(t, b, n), turn(n+1))
}

func testReadStops(t *testing.T, storage func(testing.TB) Open) {
	b, _, _ := loaded(t, storage(t), store.Retention{})
	commit(t, b, turn(1), turn(2), turn(3))
	enough := errors.New("enough")
	var seen []uint64
	err := b.Read(t.Context(), 0, func(batch store.Batch) error {
		seen = append(seen, batch.Revision)
		if batch.Revision == 2 {
			return enough
		}
		return nil
	})
	wantError(t, err, enough)
	if fmt.Sprint(seen) != "[1 2]" {
		t.Errorf("yielded revisions %v, want [1 2]", seen)
	}
	// What is committed by yield itself comes after the head of the time of the call.
	seen = nil
	err = b.Read(t.Context(), 2, func(batch store.Batch) error {
		seen = append(seen, batch.Revision)
		return b.Commit(t.Context(), turn(4))
	})
	if err != nil || fmt.Sprint(seen) != "[3]" {
		t.Errorf("yielded revisions %v with error %v, want [3] and none", seen, err)
	}
}

func testReadAhead(t *testing.T, storage func(testing.TB) Open) {
	b, _, _ := loaded(t, storage(t), store.Retention{})
	commit(t, b, turn(1))
	err := b.Read(t.Context(), 2, func(store.Batch) error { return nil })
	if ahead := (*store.RevisionError)(nil); !errors.As(err, &ahead) || ahead.Revision != 2 || ahead.Head != 1 {
		t.Errorf("error = %v, want a RevisionError of 2 against head 1", err)
	}
}

func testCompaction(t *testing.T, storage func(testing.TB) Open) {
	open := storage(t)
	keep := store.Retention{Revisions: 5}
	b, _, _ := loaded(t, open, keep)
	const n = 40
	for r := uint64(1); r <= n; r++ {
		commit(t, b, turn(r, put(fmt.Sprintf("key/%d", r), "v")))
	}
	// A backend may keep more than it has to; what it says of itself must be true, before and after it is opened again.
	check := func(b store.Backend, oldest uint64) {
		t.Helper()
		if oldest > n-5 {
			t.Errorf("oldest = %d: fewer than 5 batches are kept", oldest)
		}
		got := read(t, b, oldest)
		if len(got) != int(n-oldest) || got[0].Revision != oldest+1 {
			t.Errorf("read from the oldest revision %d gave %d batches", oldest, len(got))
		}
		if oldest > 0 {
			wantError(t, b.Read(t.Context(), oldest-1, func(store.Batch) error { return nil }), store.ErrCompacted)
		}
	}
	stats := b.Stats()
	if stats.Last.Bytes == 0 || stats.Last.Sync < 0 {
		t.Errorf("the last commit is said to have written %+v", stats.Last)
	}
	check(b, stats.Oldest)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b, records, head := loaded(t, open, keep)
	check(b, head.Oldest)
	if len(records) != n {
		t.Errorf("%d records, want %d: dropping the log must not drop records", len(records), n)
	}
}

func testCompactionAge(t *testing.T, storage func(testing.TB) Open) {
	open := storage(t)
	b, _, _ := loaded(t, open, store.Retention{Age: time.Hour})
	commit(t, b, turn(1), turn(2), turn(3))
	if got := b.Stats().Oldest; got != 0 {
		t.Errorf("oldest = %d before anything is old, want 0", got)
	}
	// The same storage held open for long: all but the last batch are past their age, and a backend drops them or says that it has not.
	late := turn(4)
	late.Engine = 48 * time.Hour
	commit(t, b, late)
	oldest := b.Stats().Oldest
	if got := read(t, b, oldest); len(got) != int(4-oldest) {
		t.Errorf("read from the oldest revision %d gave %d batches", oldest, len(got))
	}
}

func testReadBesideCommit(t *testing.T, storage func(testing.TB) Open) {
	b, _, _ := loaded(t, storage(t), store.Retention{Revisions: 50})
	const n = 400
	done := make(chan error)
	go func() {
		var err error
		for r := uint64(1); r <= n && err == nil; r++ {
			err = b.Commit(t.Context(), turn(r, put(fmt.Sprintf("key/%d", r%10), fmt.Sprint(r))))
		}
		done <- err
	}()
	// A watcher: resumes where it was, starts over when the log has passed it by, and sees every revision in order in between.
	at := uint64(0)
	for at < n {
		err := b.Read(t.Context(), at, func(batch store.Batch) error {
			if batch.Revision != at+1 {
				return fmt.Errorf("revision %d after %d", batch.Revision, at)
			}
			if want := put(fmt.Sprintf("key/%d", batch.Revision%10), fmt.Sprint(batch.Revision)); string(batch.Records[0].Value) != string(want.Value) {
				return fmt.Errorf("revision %d has value %q", batch.Revision, batch.Records[0].Value)
			}
			at = batch.Revision
			_ = b.Stats()
			return nil
		})
		if errors.Is(err, store.ErrCompacted) {
			at = b.Stats().Oldest
		} else if err != nil {
			t.Error(err)
			break
		}
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			done = nil
		default:
		}
	}
	if done != nil {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
