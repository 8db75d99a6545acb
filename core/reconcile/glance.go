package reconcile

import "github.com/setpointd/setpoint/sdk/cluster"

// glancer is a View that can tell at little cost of most slots that nothing is to be decided about them. That is how nearly all are when a server starts and
// nothing was kept of any job.
type glancer interface {
	// Settled returns the keys of the job's slots. A settled one is wanted and not limited to nodes, keeps room nowhere, is up since some moment, holds no place of
	// an update and has one task. That is up, runs what the job's newest version says, and is on a node that is active and that no filter wants it to leave. Nothing
	// is said of it. All others are in the second list, also those that there are not and of which something is said. ok is false if something is left of a removed
	// job of this name.
	Settled(job *cluster.Job) (settled, others []cluster.SlotKey, ok bool)
}

// glance returns a book in which settled slots are at rest and all others awake; nil if that is not to be had.
func glance(v View, job *cluster.Job) *Book {
	g, is := v.(glancer)
	if !is || !Glances(job) {
		return nil
	}
	settled, others, ok := g.Settled(job)
	if !ok {
		return nil
	}
	b := newBook(true, len(settled)+len(others))
	for _, key := range settled {
		b.slots[key] = restSettled
	}
	b.totals.add(restSettled, len(settled))
	for _, key := range others {
		b.Wake(key)
	}
	return b
}

// restSettled is what a settled slot counts for.
const restSettled = restWanted | restCounts | restIs

// Glances reports whether a glance may tell of slots of the job that they are settled.
func Glances(job *cluster.Job) bool {
	spec := &job.Control.Spec
	return spec.Numbered() && !spec.Ends() && !job.Control.Stopped && !job.Rebalancing()
}

// Settled reports whether the book has a slot at rest as one that is settled.
func (b *Book) Settled(key cluster.SlotKey) bool { return b != nil && b.slots[key] == restSettled }
