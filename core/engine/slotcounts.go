package engine

import (
	"iter"
	"strings"

	"github.com/tidwall/btree"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// SlotCounts is how many slots a job has, by how they are. A slot that is not wanted counts nowhere.
type SlotCounts struct {
	Wanted int
	Up     int // have a task that is up
	Done   int // have had one that ended well, or as its restart rules let it
	Failed int // are done by one that did not end well
	Open   int // are limited to nodes and neither up nor done: filters may have left them no node, and then they are not wanted after all
}

// slotCounts are kept so that nobody has to look at every slot to know.
type slotCounts struct {
	jobs *btree.Map[string, SlotCounts]
	open *btree.Map[string, struct{}] // by JOB/KEY
}

func newSlotCounts() slotCounts {
	return slotCounts{new(btree.Map[string, SlotCounts]), new(btree.Map[string, struct{}])}
}

func (c slotCounts) fork() slotCounts { return slotCounts{c.jobs.Copy(), c.open.Copy()} }

// change keeps up with a slot that was before and is after; "": it did not or does not exist.
func (c slotCounts) change(id string, before, after packedSlot) {
	was, is := before.count(), after.count()
	if was == is {
		return
	}
	switch {
	case is.Open > was.Open:
		c.open.Set(id, struct{}{})
	case is.Open < was.Open:
		c.open.Delete(id)
	}
	one := after
	if after == "" {
		one = before
	}
	job := one.job(id)
	n, _ := c.jobs.Get(job)
	n = SlotCounts{n.Wanted + is.Wanted - was.Wanted, n.Up + is.Up - was.Up, n.Done + is.Done - was.Done, n.Failed + is.Failed - was.Failed, n.Open + is.Open - was.Open}
	if n == (SlotCounts{}) {
		c.jobs.Delete(job)
		return
	}
	c.jobs.Set(job, n)
}

// count is what one slot counts for.
func (s packedSlot) count() SlotCounts {
	switch {
	case s == "" || s.has(slotUnwanted):
		return SlotCounts{}
	case s.has(slotDone) && s.has(slotFailed):
		return SlotCounts{Wanted: 1, Done: 1, Failed: 1}
	case s.has(slotDone):
		return SlotCounts{Wanted: 1, Done: 1}
	case s.has(slotUp):
		return SlotCounts{Wanted: 1, Up: 1}
	case s.has(slotLimited):
		return SlotCounts{Wanted: 1, Open: 1}
	default:
		return SlotCounts{Wanted: 1}
	}
}

// job returns the name of the job of a slot with an id.
func (s packedSlot) job(id string) string {
	if s.has(slotOdd) {
		u := unpacker{s: string(s[slotHead:])}
		return id[:u.uint()]
	}
	job, _, _ := strings.Cut(id, "/")
	return job
}

// SlotCounts returns how many slots of a job there are, by how they are.
func (s *State) SlotCounts(job string) SlotCounts {
	n, _ := s.slotCounts.jobs.Get(job)
	return n
}

// OpenSlots yields the slots of a job that SlotCounts counts as open.
func (s *State) OpenSlots(job string) iter.Seq[cluster.SlotKey] {
	return func(yield func(cluster.SlotKey) bool) {
		prefix := job + "/"
		s.slotCounts.open.Ascend(prefix, func(id string, _ struct{}) bool {
			key, of := strings.CutPrefix(id, prefix)
			return of && yield(cluster.SlotKey(key))
		})
	}
}
