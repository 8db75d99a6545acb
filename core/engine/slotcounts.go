package engine

import (
	"strings"

	"github.com/tidwall/btree"
)

// slotCounts is how many slots of each job are wanted, up and done, kept so that nobody has to look at every slot to know.
type slotCounts struct{ jobs *btree.Map[string, slotCount] }

type slotCount struct{ wanted, up, done int }

func newSlotCounts() slotCounts { return slotCounts{new(btree.Map[string, slotCount])} }

func (c slotCounts) fork() slotCounts { return slotCounts{c.jobs.Copy()} }

// change keeps up with a slot that was before and is after; "": it did not or does not exist.
func (c slotCounts) change(id string, before, after packedSlot) {
	was, is := before.count(), after.count()
	if was == is {
		return
	}
	one := after
	if after == "" {
		one = before
	}
	job := one.job(id)
	n, _ := c.jobs.Get(job)
	n = slotCount{n.wanted + is.wanted - was.wanted, n.up + is.up - was.up, n.done + is.done - was.done}
	if n == (slotCount{}) {
		c.jobs.Delete(job)
		return
	}
	c.jobs.Set(job, n)
}

// count is what one slot counts for.
func (s packedSlot) count() slotCount {
	switch {
	case s == "" || s.has(slotUnwanted):
		return slotCount{}
	case s.has(slotDone):
		return slotCount{wanted: 1, done: 1}
	case s.has(slotUp):
		return slotCount{wanted: 1, up: 1}
	default:
		return slotCount{wanted: 1}
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

// SlotCounts returns how many slots of a job are wanted, and of them how many are up and how many are done.
func (s *State) SlotCounts(job string) (wanted, up, done int) {
	n, _ := s.slotCounts.jobs.Get(job)
	return n.wanted, n.up, n.done
}
