package mem

import (
	"strings"
	"sync"

	"github.com/setpointd/setpoint/core/store"
	"github.com/setpointd/setpoint/core/store/internal/history"
)

// Disk holds what was committed. To crash a process in a test, forget its Backend (or Close it, which does nothing more) and Open again.
type Disk struct {
	mu      sync.Mutex // guards everything below
	head    store.Head
	live    map[string][]byte
	log     []store.Batch // revisions head-len+1 … head
	history *history.Log
	holder  *Backend // the one that has it open, or nil
}

// NewDisk makes an empty disk whose head is initial: revision 0 for a new cluster, more for one that is restored. Initial.Oldest is
// ignored; an empty ClusterID becomes "mem".
func NewDisk(initial store.Head) *Disk {
	if initial.ClusterID == "" {
		initial.ClusterID = "mem"
	}
	initial.Wall = initial.Wall.Round(0).UTC()
	initial.Oldest = initial.Revision
	return &Disk{head: initial, live: map[string][]byte{}, history: history.New(initial.Revision)}
}

// apply writes the batch. The caller holds mu and has checked the batch.
func (d *Disk) apply(b store.Batch, keep store.Retention) {
	b = b.Clone()
	for _, r := range b.Records {
		if r.Value == nil {
			delete(d.live, r.Key)
		} else {
			d.live[strings.Clone(r.Key)] = r.Value
		}
	}
	d.log = append(d.log, b)
	d.history.Append(b.Engine, b.Size())
	n := d.history.Excess(keep, b.Engine, b.Revision, len(d.log))
	clear(d.log[:n])
	d.log = d.log[n:]
	d.history.Cut(n)
	d.head.Revision, d.head.Engine, d.head.Wall = b.Revision, b.Engine, b.Wall
	d.head.Oldest = d.history.Oldest()
}
