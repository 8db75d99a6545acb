package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/store"
)

func testOrder(t *testing.T, storage func(testing.TB) Open) {
	open := storage(t)
	b := opened(t, open, store.Retention{})
	wantError(t, b.Commit(t.Context(), turn(1)), store.ErrNotLoaded)
	wantError(t, b.Read(t.Context(), 0, func(store.Batch) error { return nil }), store.ErrNotLoaded)
	if _, _, err := load(t, b); err != nil {
		t.Fatal(err)
	}
	_, _, err := load(t, b)
	wantError(t, err, store.ErrLoaded)
	commit(t, b, turn(1))
	// One holder at a time.
	second, err := open(store.Retention{})
	if inUse := (*store.InUseError)(nil); !errors.As(err, &inUse) {
		t.Errorf("second holder: error = %v, want an InUseError", err)
	}
	if err == nil {
		if err := second.Close(); err != nil {
			t.Error(err)
		}
	}
	commit(t, b, turn(2))
}

func testRefused(t *testing.T, storage func(testing.TB) Open) {
	open := storage(t)
	b, _, _ := loaded(t, open, store.Retention{})
	commit(t, b, turn(1, put("a", "1")), turn(2, put("a", "2")))
	backwards := turn(3, put("a", "3"))
	backwards.Engine = time.Second
	for name, batch := range map[string]store.Batch{
		"revision of the head":   turn(2, put("a", "3")),
		"revision gap":           turn(4, put("a", "3")),
		"revision zero":          turn(0, put("a", "3")),
		"key twice":              turn(3, put("b", "3"), put("a", "3"), del("b")),
		"no key":                 turn(3, put("", "3")),
		"key too long":           turn(3, put(strings.Repeat("k", b.Limits().Key+1), "3")),
		"engine time going back": backwards,
	} {
		if err := b.Commit(t.Context(), batch); !errors.Is(err, store.ErrRefused) {
			t.Errorf("%s: error = %v, want ErrRefused", name, err)
		}
	}
	if gap := (*store.RevisionError)(nil); !errors.As(b.Commit(t.Context(), turn(7)), &gap) || gap.Head != 2 {
		t.Errorf("a gap gave %v, want a RevisionError that names head 2", gap)
	}
	last := turn(3, put("b", "3"))
	commit(t, b, last) // nothing was done by what was refused
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	_, records, head := loaded(t, open, store.Retention{})
	wantRecords(t, records, put("a", "2"), put("b", "3"))
	wantHead(t, head, last)
}

func testLimits(t *testing.T, storage func(testing.TB) Open) {
	open := storage(t)
	b, _, _ := loaded(t, open, store.Retention{})
	limits := b.Limits()
	many := turn(1)
	for i := range limits.Changes {
		many.Records = append(many.Records, put(fmt.Sprintf("many/%08d", i), "value"))
	}
	over := many
	over.Records = append(over.Records[:limits.Changes:limits.Changes], put("one/more", "value"))
	wantError(t, b.Commit(t.Context(), over), store.ErrRefused)
	commit(t, b, many)

	large := turn(2, put("large", strings.Repeat("x", limits.Bytes-len("large"))))
	wantError(t, b.Commit(t.Context(), turn(2, put("large", string(large.Records[0].Value)+"x"))), store.ErrRefused)
	commit(t, b, large)
	long := turn(3, put(strings.Repeat("z", limits.Key), "value"))
	commit(t, b, long)
	wantBatches(t, read(t, b, 0), many, large, long)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	_, records, _ := loaded(t, open, store.Retention{})
	wantRecords(t, records, append(append([]store.Record{large.Records[0]}, many.Records...), long.Records[0])...)
}

func testCancelled(t *testing.T, storage func(testing.TB) Open) {
	open := storage(t)
	b, _, _ := loaded(t, open, store.Retention{})
	commit(t, b, turn(1, put("a", "1")))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantError(t, b.Commit(ctx, turn(2)), context.Canceled)
	wantError(t, b.Read(ctx, 0, func(store.Batch) error { return nil }), context.Canceled)
	commit(t, b, turn(2))
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = opened(t, open, store.Retention{})
	_, err := b.Load(ctx, func(store.Record) error { return nil })
	wantError(t, err, context.Canceled)
}

func testClosed(t *testing.T, storage func(testing.TB) Open) {
	b, _, _ := loaded(t, storage(t), store.Retention{})
	commit(t, b, turn(1))
	for range 2 {
		if err := b.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
	}
	wantError(t, b.Commit(t.Context(), turn(2)), store.ErrClosed)
	wantError(t, b.Read(t.Context(), 0, func(store.Batch) error { return nil }), store.ErrClosed)
	_, _, err := load(t, b)
	wantError(t, err, store.ErrClosed)
	_, err = b.Lead(t.Context())
	wantError(t, err, store.ErrClosed)
	if got := b.Stats().Head; got != 1 {
		t.Errorf("stats of a closed backend have head %d, want 1", got)
	}
}

func testLead(t *testing.T, storage func(testing.TB) Open) {
	b, _, _ := loaded(t, storage(t), store.Retention{})
	lost, err := b.Lead(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	commit(t, b, turn(1))
	select {
	case <-lost:
		t.Fatal("leadership lost without a reason")
	default:
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	<-lost
}
