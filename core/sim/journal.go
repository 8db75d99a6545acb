package sim

import (
	"bytes"
	"maps"
	"slices"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
	"github.com/setpointd/setpoint/sdk/wire"
)

// journal keeps encoded records, as a store would, so that what is loaded went through the wire.
type journal struct {
	rev     cluster.Revision
	now     cluster.Time
	records map[string][]byte
}

func newJournal() *journal { return &journal{records: map[string][]byte{}} }

func (j *journal) commit(st *engine.State, puts, deletes []any) {
	j.rev, j.now = st.Revision, st.Now
	for _, v := range puts {
		key, value := encode(v)
		j.records[key] = value
	}
	for _, v := range deletes {
		key, _ := encode(v)
		delete(j.records, key)
	}
}

func encode(v any) (key string, value []byte) {
	key, value, err := wire.Encode(v)
	if err != nil {
		panic(err)
	}
	return key, value
}

func (j *journal) load(clusterID string) *engine.State {
	st := engine.NewState(clusterID)
	st.Revision, st.Now = j.rev, j.now
	for key, value := range j.records {
		v, err := wire.Decode(key, value)
		if err != nil {
			panic(err)
		}
		if err := st.Restore(v); err != nil {
			panic(err)
		}
	}
	return st
}

// checkJournal compares what was committed, record by record, with the state that is published: nothing may be in one and not in the other, and nothing may
// have been changed after it was written.
func (w *World) checkJournal() {
	if w.away > 0 {
		return
	}
	have := map[string]bool{wire.RemovalsKey: true} // which is for readers of the log
	check := func(v any) {
		key, value := encode(v)
		have[key] = true
		if stored, ok := w.store.records[key]; !ok || !bytes.Equal(stored, value) {
			w.failf("store: %s is other than what was committed of it", key)
		}
	}
	st := w.State()
	for n := range st.Nodes() {
		check(n)
	}
	for j := range st.Jobs() {
		check(j)
	}
	for _, s := range allSlots(st) {
		check(s)
	}
	for t := range st.Tasks() {
		check(t)
	}
	for s := range st.Stalls() {
		check(s)
	}
	for _, key := range slices.Sorted(maps.Keys(w.store.records)) {
		if !have[key] {
			w.failf("store: %s was committed and is not in the state", key)
		}
	}
}

// allSlots returns the slots of all jobs, and those left of removed ones that tasks still name.
func allSlots(st *engine.State) []*cluster.Slot {
	jobs := map[string]bool{}
	for j := range st.Jobs() {
		jobs[j.Name] = true
	}
	for t := range st.Tasks() {
		jobs[t.Job] = true
	}
	var out []*cluster.Slot
	for _, name := range slices.Sorted(maps.Keys(jobs)) {
		out = append(out, st.Slots(name)...)
	}
	return out
}
