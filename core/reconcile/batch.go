package reconcile

import (
	"fmt"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// turns decides which slots whose tasks end by themselves may get one now, where the job limits how many have one at a time: those with the lowest keys. A
// slot that waits for a restart's delay gives its turn away. Slots that wait at rest are looked at only once it is their turn.
func (d *decision) turns() {
	if d.spec.Parallelism == 0 {
		return
	}
	left := d.spec.Parallelism - d.sums.of(restTask)
	var in []*slot
	for _, s := range d.slots {
		switch {
		case s.status == unwanted || s.Done || !s.Ends:
		case s.hasTask():
			left-- // also in a held slot, which keeps it, and in one that it is to leave
		case s.status == wanted && !d.delayed(s):
			in = append(in, s)
		}
	}
	looked := len(d.slots)
	for ; left > 0; left-- {
		key, is := d.nextQueued()
		if !is && len(in) == 0 {
			break
		}
		if is && (len(in) == 0 || d.compareKeys(key, in[0].key) < 0) {
			d.behind++
			d.rouse(key)
			continue
		}
		in = in[1:]
	}
	d.inOrder(looked)
	for _, s := range in {
		s.queued = true
	}
	d.queued = len(in) + d.sums.of(restQueued) + d.unmade
}

// queue keeps a slot that waits for its turn, and reports whether s is one. New slots are made a decision's worth at a time.
func (d *decision) queue(s *slot) bool {
	if !s.queued {
		return false
	}
	if s.was != nil {
		return true
	}
	if len(d.Changes)+d.made >= maxChanges {
		d.wakeIn(1)
		s.Slot = nil
		return true
	}
	d.made++
	return true
}

// sayTurns says how many slots wait for their turn. It is said once for all of them.
func (d *decision) sayTurns() {
	if d.queued == 0 {
		return
	}
	who := fmt.Sprintf("%d slots wait for their turn", d.queued)
	if d.queued == 1 {
		who = "1 slot waits for its turn"
	}
	d.stall(cluster.Stall{
		Subject: cluster.Subject{Kind: cluster.SubjectJob, ID: d.job.Name}, Code: cluster.CodeWaitingForTurn,
		Message: fmt.Sprintf("%s: the job runs %d at a time", who, d.spec.Parallelism), Clears: "a task of the job ends",
	})
}

// completes reports whether a task that was observed complete makes its slot done: unless it was asked since that everything be run again.
func (d *decision) completes(s *slot, t *task) bool {
	return t.Observed.State == cluster.Complete && d.restartsAt(t.JobVersion) >= d.restartsAt(s.Version)
}

// again reports whether a restart was asked since the slot was done.
func (d *decision) again(s *slot) bool { return d.restartsAt(s.Version) < d.job.Control.Restarts }

// restartsAt returns how often a restart had been asked for at a version of the job; of one that history no longer has, 0.
func (d *decision) restartsAt(version uint64) uint64 {
	if v := d.job.VersionOf(version); v != nil {
		return v.Restarts
	}
	return 0
}
