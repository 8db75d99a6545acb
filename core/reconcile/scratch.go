package reconcile

import "github.com/setpointd/setpoint/sdk/cluster"

// Scratch is memory for what a decision notes of its slots. A decision that looks at many slots asks for that of many at once. Decisions that follow each other
// can use one Scratch, if nothing is needed any more of what those before found: changes point into it.
type Scratch struct {
	many  bool // many slots are looked at
	known []known
	notes []task
	lists []*task

	all []known // room for those of the next decision
}

// keeper is a View that has a Scratch for the next decision.
type keeper interface{ Scratch() *Scratch }

func scratchOf(v View) *Scratch {
	if k, ok := v.(keeper); ok {
		return k.Scratch()
	}
	return &Scratch{}
}

// known is a slot that there is, and the copy in which what is decided about it is written.
type known struct {
	slot slot
	copy cluster.Slot
}

// atOnce is how many tasks are given memory at once where many slots are looked at.
const atOnce = 128

// expect says how many slots there will be.
func (m *Scratch) expect(slots int) {
	m.many = slots > atOnce/4
	if len(m.all) < slots {
		m.all = make([]known, slots)
	}
	m.known = m.all[:slots]
}

func (m *Scratch) slot(s *cluster.Slot) *slot {
	if len(m.known) == 0 {
		m.known = make([]known, 1)
	}
	k := &m.known[0]
	m.known = m.known[1:]
	k.copy = *s
	k.slot = slot{Slot: &k.copy, was: s, key: s.Key}
	return &k.slot
}

func (m *Scratch) task() *task {
	if len(m.notes) == 0 {
		m.notes = make([]task, m.some())
	}
	t := &m.notes[0]
	m.notes = m.notes[1:]
	return t
}

// tasks returns an empty list with room for n.
func (m *Scratch) tasks(n int) []*task {
	if n > atOnce/4 {
		return make([]*task, 0, n)
	}
	if len(m.lists) < n {
		m.lists = make([]*task, max(n, m.some()))
	}
	out := m.lists[:0:n]
	m.lists = m.lists[n:]
	return out
}

func (m *Scratch) some() int {
	if m.many {
		return atOnce
	}
	return 1
}
