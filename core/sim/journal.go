package sim

import (
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
		key, value, err := wire.Encode(v)
		if err != nil {
			panic(err)
		}
		j.records[key] = value
	}
	for _, v := range deletes {
		key, _, err := wire.Encode(v)
		if err != nil {
			panic(err)
		}
		delete(j.records, key)
	}
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
