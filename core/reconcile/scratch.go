package reconcile

import "github.com/setpointd/setpoint/sdk/cluster"

// scratch is memory for what a decision notes of its slots. A decision that looks at all slots of a large job asks for some at once; for one slot it is a little more
// than it needs.
type scratch struct {
	many  bool // slots are looked at
	known []known
	notes []task
	lists []*task
}

// known is a slot that there is, and the copy in which what is decided about it is written.
type known struct {
	slot slot
	copy cluster.Slot
}

// atOnce is how many tasks are given memory at once where many slots are looked at.
const atOnce = 128

// expect says how many slots there will be.
func (r *scratch) expect(slots int) {
	r.many = slots > atOnce/4
	r.known = make([]known, slots)
}

func (r *scratch) slot(s *cluster.Slot) *slot {
	if len(r.known) == 0 {
		r.known = make([]known, 1)
	}
	k := &r.known[0]
	r.known = r.known[1:]
	k.copy = *s
	k.slot = slot{Slot: &k.copy, was: s, key: s.Key}
	return &k.slot
}

func (r *scratch) task() *task {
	if len(r.notes) == 0 {
		r.notes = make([]task, r.some())
	}
	t := &r.notes[0]
	r.notes = r.notes[1:]
	return t
}

// tasks returns an empty list with room for n.
func (r *scratch) tasks(n int) []*task {
	if n > atOnce/4 {
		return make([]*task, 0, n)
	}
	if len(r.lists) < n {
		r.lists = make([]*task, max(n, r.some()))
	}
	out := r.lists[:0:n]
	r.lists = r.lists[n:]
	return out
}

func (r *scratch) some() int {
	if r.many {
		return atOnce
	}
	return 1
}
