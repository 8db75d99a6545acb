package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/store"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// listed is a backend that has some records and nothing else.
type listed struct {
	store.Backend
	records []store.Record
	err     error // at the end
}

func (b listed) Load(_ context.Context, put func(store.Record) error) (store.Head, error) {
	for _, r := range b.records {
		if err := put(r); err != nil {
			return store.Head{}, err
		}
	}
	return store.Head{Revision: 7}, b.err
}

// keeper takes what is committed.
type keeper struct {
	store.Backend
	records *[]store.Record
}

func (k keeper) Commit(_ context.Context, b store.Batch) error {
	*k.records = append(*k.records, b.Records...)
	return nil
}

func encoded(t *testing.T, n int) []store.Record {
	t.Helper()
	var puts []any
	for i := range n {
		puts = append(puts, &cluster.Task{ID: cluster.NewTaskID("web", cluster.SlotKey(fmt.Sprintf("%05d", i)), 1), Job: "web", Slot: cluster.SlotKey(fmt.Sprintf("%05d", i)), CreatedRev: 1})
	}
	var out []store.Record
	if err := (store.Journal{Backend: keeper{records: &out}}).Commit(t.Context(), 1, cluster.Time{Wall: time.Now().UnixNano()}, puts, nil); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestLoadKeepsTheOrder(t *testing.T) {
	for _, n := range []int{0, 1, 512, 5000} {
		var got []cluster.TaskID
		head, err := store.Journal{Backend: listed{records: encoded(t, n)}}.Load(t.Context(), nil, func(v any) error {
			got = append(got, v.(*cluster.Task).ID)
			return nil
		})
		if err != nil || head.Revision != 7 || len(got) != n || !slices.IsSorted(got) {
			t.Errorf("%d of %d records, sorted %t, head %+v: %v", len(got), n, slices.IsSorted(got), head, err)
		}
	}
}

// What is prepared is put in the order of the records, although each is decoded into the place of another.
func TestLoadPutsWhatIsPrepared(t *testing.T) {
	var got []string
	prepare := func() func(any, any) any { return func(v, _ any) any { return "task " + string(v.(*cluster.Task).ID) } }
	_, err := store.Journal{Backend: listed{records: encoded(t, 5000)}}.Load(t.Context(), prepare, func(v any) error {
		got = append(got, v.(string))
		return nil
	})
	if err != nil || len(slices.Compact(slices.Clone(got))) != 5000 || !slices.IsSorted(got) || got[4999] != "task web/04999/1" {
		t.Errorf("%d, sorted %t: %v", len(got), slices.IsSorted(got), err)
	}
}

func TestLoadReturnsTheFirstError(t *testing.T) {
	records := encoded(t, 3000)
	mine, broken := errors.New("mine"), slices.Clone(records)
	broken[1700].Value = []byte{0xff}
	for name, c := range map[string]struct {
		backend listed
		put     error
		want    string
	}{
		"of put":         {listed{records: records}, mine, "mine"},
		"of the backend": {listed{records: records, err: errors.New("it is damaged")}, nil, "it is damaged"},
		"of decoding":    {listed{records: broken}, nil, "load " + broken[1700].Key},
	} {
		puts := 0
		_, err := store.Journal{Backend: c.backend}.Load(t.Context(), nil, func(any) error {
			if puts++; puts == 1000 {
				return c.put
			}
			return nil
		})
		if err == nil || len(err.Error()) < len(c.want) || err.Error()[:len(c.want)] != c.want || c.put != nil && !errors.Is(err, c.put) {
			t.Errorf("%s: error %v, want %s", name, err, c.want)
		}
	}
}
