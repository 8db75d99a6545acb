package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/setpointd/setpoint/core/store"
)

// model is what storage should hold, and the backend under test.
type model struct {
	open    Open
	keep    store.Retention
	backend store.Backend
	head    store.Head
	live    map[string][]byte
	log     []store.Batch // all of them, revision 1 first
}

// testModel runs random operations against the model, with reopening at random points.
func testModel(t *testing.T, storage func(testing.TB) Open) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{open: storage(t), live: map[string][]byte{}}
		m.keep = store.Retention{Revisions: rapid.Uint64Range(1, 20).Draw(rt, "keep")}
		m.reopen(rt)
		defer func() {
			if err := m.backend.Close(); err != nil {
				rt.Errorf("close: %v", err)
			}
		}()
		rt.Repeat(map[string]func(*rapid.T){
			"commit": m.commit,
			"refuse": m.refuse,
			"read":   m.read,
			"reopen": m.reopen,
		})
	})
}

func (m *model) commit(rt *rapid.T) {
	keys := rapid.SliceOfNDistinct(rapid.IntRange(0, 30), 0, 12, rapid.ID).Draw(rt, "keys")
	b := store.Batch{
		Revision: m.head.Revision + 1,
		Engine:   m.head.Engine + time.Duration(rapid.IntRange(0, 3).Draw(rt, "seconds"))*time.Second,
		Wall:     time.Unix(rapid.Int64Range(-1e9, 1e10).Draw(rt, "wall"), rapid.Int64Range(0, 999_999_999).Draw(rt, "ns")),
	}
	for _, k := range keys {
		r := store.Record{Key: fmt.Sprintf("key/%d", k)}
		if rapid.IntRange(0, 3).Draw(rt, "op") > 0 {
			r.Value = append([]byte{}, rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(rt, "value")...)
		}
		b.Records = append(b.Records, r)
	}
	if err := m.backend.Commit(context.Background(), b); err != nil {
		rt.Fatalf("commit revision %d: %v", b.Revision, err)
	}
	for _, r := range b.Records {
		if r.Value == nil {
			delete(m.live, r.Key)
		} else {
			m.live[r.Key] = r.Value
		}
	}
	m.log = append(m.log, b)
	m.head.Revision, m.head.Engine, m.head.Wall = b.Revision, b.Engine, b.Wall
}

func (m *model) refuse(rt *rapid.T) {
	wrong := rapid.Uint64Range(0, m.head.Revision+5).Filter(func(r uint64) bool { return r != m.head.Revision+1 }).Draw(rt, "revision")
	b := store.Batch{Revision: wrong, Engine: m.head.Engine, Records: []store.Record{{Key: "key/1", Value: []byte("never")}}}
	if err := m.backend.Commit(context.Background(), b); !errors.Is(err, store.ErrRefused) {
		rt.Fatalf("commit of revision %d at head %d: error = %v, want ErrRefused", wrong, m.head.Revision, err)
	}
}

func (m *model) read(rt *rapid.T) {
	from := rapid.Uint64Range(0, m.head.Revision).Draw(rt, "from")
	oldest := m.backend.Stats().Oldest
	var got []store.Batch
	err := m.backend.Read(context.Background(), from, func(b store.Batch) error {
		got = append(got, b)
		return nil
	})
	if from < oldest {
		if !errors.Is(err, store.ErrCompacted) {
			rt.Fatalf("read from %d with oldest %d: error = %v, want ErrCompacted", from, oldest, err)
		}
		return
	}
	if err != nil {
		rt.Fatalf("read from %d with oldest %d: %v", from, oldest, err)
	}
	if err := diffBatches(got, m.log[from:]); err != nil {
		rt.Fatalf("read from %d: %v", from, err)
	}
}

func (m *model) reopen(rt *rapid.T) {
	oldest := uint64(0)
	if m.backend != nil {
		oldest = m.backend.Stats().Oldest
		if err := m.backend.Close(); err != nil {
			rt.Fatalf("close: %v", err)
		}
	}
	b, err := m.open(m.keep)
	if err != nil {
		rt.Fatalf("open: %v", err)
	}
	m.backend = b
	var got []store.Record
	head, err := b.Load(context.Background(), func(r store.Record) error {
		got = append(got, r)
		return nil
	})
	if err != nil {
		rt.Fatalf("load: %v", err)
	}
	var want []store.Record
	for _, k := range slices.Sorted(maps.Keys(m.live)) {
		want = append(want, store.Record{Key: k, Value: m.live[k]})
	}
	if err := diffRecords(got, want); err != nil {
		rt.Fatalf("load: %v", err)
	}
	if m.head.ClusterID == "" {
		m.head = head // the first time
	}
	if head.Revision != m.head.Revision || head.Engine != m.head.Engine || !head.Wall.Equal(m.head.Wall) || head.ClusterID != m.head.ClusterID || head.Oldest != oldest {
		rt.Fatalf("head = %+v, want %+v with oldest %d", head, m.head, oldest)
	}
}
