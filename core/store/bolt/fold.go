package bolt

import (
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/setpointd/setpoint/core/store"
)

// foldLimits says how much may be in the log alone before folding begins. The bounds on batches and bytes keep recovery short, the one on
// keys keeps memory small; larger ones coalesce more and make neighbours in the tree of what is written.
type foldLimits struct {
	keys    int
	bytes   int
	batches int
}

func (l foldLimits) withDefaults() foldLimits {
	if l == (foldLimits{}) {
		return foldLimits{keys: 32_768, bytes: 32 << 20, batches: 8192}
	}
	return l
}

// generation is what a run of batches changed: of each key the newest value, nil for a deletion.
type generation struct {
	values  map[string][]byte
	bytes   int
	batches int
	through uint64 // revision of the last batch
}

func (g *generation) add(revision uint64, records []store.Record, size int) {
	if g.values == nil {
		g.values = make(map[string][]byte, len(records))
	}
	for _, r := range records {
		g.values[r.Key] = r.Value
	}
	g.bytes += size
	g.batches++
	g.through = revision
}

// folder decides what is folded when. Batches collect in the current generation until it is full. Then it is frozen, and each commit folds
// a slice of the frozen one, in the order of keys, as large as the commit's share of half a generation: so a frozen generation is done
// before the next is half full, and what is not folded never exceeds one and a half generations and a batch.
//
// A plan changes nothing until its transaction is durable and done is called.
type folder struct {
	limits  foldLimits
	current generation
	frozen  *generation // or nil
	order   []string    // keys of frozen that are still to be folded, sorted
	size    int         // keys of frozen when it was frozen
}

// slice is what one transaction folds.
type slice struct {
	keys  []string
	last  bool   // frozen is done with this slice
	until uint64 // if last: every batch up to this revision is then contained in obj
}

// plan says what to fold together with a batch of so many log bytes.
func (f *folder) plan(records []store.Record, size int) slice {
	if f.frozen == nil {
		return slice{}
	}
	added := 0
	for _, r := range records {
		if _, known := f.current.values[r.Key]; !known {
			added++
		}
	}
	n := max(f.share(added, f.limits.keys), f.share(size, f.limits.bytes), f.share(1, f.limits.batches))
	n = min(n, len(f.order))
	return slice{keys: f.order[:n], last: n == len(f.order), until: f.frozen.through}
}

// share is the part of the frozen generation's keys that used is of half the limit, rounded up.
func (f *folder) share(used, limit int) int {
	return (2*used*f.size + limit - 1) / limit
}

// write folds the slice within a transaction and returns the tally of obj after it. A key that was changed again since is left out: its
// newer value is in the log, after everything that this generation covers.
func (f *folder) write(tx *bbolt.Tx, s slice, objects tally) (tally, error) {
	obj := tx.Bucket(bucketObj)
	mem := arena{chunk: min(len(s.keys)*usualRecord, 64<<10)}
	for _, key := range s.keys {
		if _, newer := f.current.values[key]; newer {
			continue
		}
		k := append(mem.take(len(key)), key...)
		old := obj.Get(k)
		if old != nil {
			objects.remove(old)
		}
		value := f.frozen.values[key]
		switch {
		case value != nil:
			packed := seal(k, append(mem.take(crcSize + len(value))[:crcSize], value...))
			objects.add(packed)
			if err := obj.Put(k, packed); err != nil {
				return tally{}, fmt.Errorf("fold key %q: %w", key, err)
			}
		case old != nil:
			if err := obj.Delete(k); err != nil {
				return tally{}, fmt.Errorf("fold deletion of key %q: %w", key, err)
			}
		}
	}
	return objects, nil
}

// usualRecord is what a key with its value takes, about.
const usualRecord = 256

// arena gives out pieces of larger ones. bbolt keeps what a transaction puts until it ends, and a piece of memory for each would cost more than copying.
type arena struct {
	chunk int
	free  []byte
}

// take returns an empty slice that has room for n bytes.
func (a *arena) take(n int) []byte {
	if len(a.free) < n {
		a.free = make([]byte, max(n, a.chunk))
	}
	out := a.free[:0:n]
	a.free = a.free[n:]
	return out
}

// done takes note of a durable batch and of the slice that was folded with it.
func (f *folder) done(s slice, revision uint64, records []store.Record, size int) {
	f.order = f.order[len(s.keys):]
	if s.last {
		f.frozen, f.order, f.size = nil, nil, 0
	}
	f.current.add(revision, records, size)
	f.freeze()
}

// freeze closes the current generation if it is full and no other is being folded.
func (f *folder) freeze() {
	c := f.current
	if f.frozen != nil || len(c.values) < f.limits.keys && c.bytes < f.limits.bytes && c.batches < f.limits.batches {
		return
	}
	f.frozen, f.current = &c, generation{}
	f.order = slices.AppendSeq(make([]string, 0, len(c.values)), maps.Keys(c.values))
	slices.Sort(f.order)
	f.size = len(f.order)
}

// backlog is how many keys are not folded, at most: a key that is in both generations counts twice.
func (f *folder) backlog() int { return len(f.current.values) + len(f.order) }
