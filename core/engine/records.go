package engine

import (
	"cmp"
	"fmt"

	"github.com/setpointd/setpoint/core/internal/texts"
	"github.com/setpointd/setpoint/sdk/cluster"
)

func compareRecords(a, b record) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.key, b.key))
}

// record returns a record of the state, or nil.
func (s *State) record(r record) any {
	switch r.kind {
	case recordNode:
		if v := s.Node(cluster.NodeID(r.key)); v != nil {
			return v
		}
	case recordJob:
		if v := s.Job(r.key); v != nil {
			return v
		}
	case recordSlot:
		if v := s.slot(r.key); v != nil {
			return v
		}
	case recordTask:
		if v := s.Task(cluster.TaskID(r.key)); v != nil {
			return v
		}
	case recordStall:
		if v, ok := s.stalls.Get(r.key); ok {
			return v
		}
	case recordRequest:
		if v, ok := s.requests.Get(r.key); ok {
			return v
		}
	case recordNotice:
		if v := s.notices.get(r.key); v != nil {
			return v
		}
	}
	return nil
}

// Restore adds a record to a state that is being loaded, which takes it over, or what a preparer made of one.
func (s *State) Restore(v any) error {
	if s.words == nil {
		s.words = words{}
	}
	switch v := v.(type) {
	case *loadedTask:
		s.loadTask(v)
	case *loadedSlot:
		s.loadSlot(v.id, v.packed)
	case *cluster.Node:
		s.words.node(v)
		s.nodes.Set(v.ID, v)
		if !v.Spec.Decommissioned {
			s.names.Set(v.Spec.Name, v.ID)
		}
	case *cluster.Job:
		s.jobs.Set(v.Name, v)
	case *cluster.Slot:
		s.loadSlot(v.ID(), packSlot(new(packer), v))
	case *cluster.Task:
		var t loadedTask
		t.of(new(packer), v)
		s.loadTask(&t)
	case *cluster.Stall:
		s.stalls.Set(v.Key(), v)
	case *cluster.Request:
		s.requests.Set(v.ID(), v)
	case *cluster.Notice:
		s.notices = s.notices.with(v)
	case *cluster.Removals: // for those who read the log
	default:
		return fmt.Errorf("restore: a %T is no record", v)
	}
	return nil
}

// loadedTask is a task as a state keeps it, with what its indexes need.
type loadedTask struct {
	id      cluster.TaskID
	packed  packedTask
	node    cluster.NodeID // where it was placed
	settled int            // see settledAt
}

func (l *loadedTask) of(p *packer, t *cluster.Task) {
	*l = loadedTask{packed: packTask(p, t), settled: settledAt(t)}
	p.b = append(p.b[:0], t.ID...) // which may be part of something larger
	l.id = cluster.TaskID(p.made(p.b))
	if t.Placed() {
		l.node = t.Placement.Node
	}
}

type loadedSlot struct {
	id     string
	packed packedSlot
}

// loadedTogether is in how large pieces of memory what is loaded lies: the few records in each stay until all of them were replaced.
const loadedTogether = 512

// NewPreparer returns a function, for one goroutine, that does the part of Restore which needs no state. It returns what Restore takes in the record's place, and
// keeps nothing of a task or a slot. Spent is nil, or something that it returned and that Restore has had: it may be used again.
func NewPreparer() func(record, spent any) any {
	p := packer{room: &texts.Room{Size: loadedTogether}}
	return func(record, spent any) any {
		switch v := record.(type) {
		case *cluster.Slot:
			out, ok := spent.(*loadedSlot)
			if !ok {
				out = new(loadedSlot)
			}
			out.packed = packSlot(&p, v)
			p.b = append(append(append(p.b[:0], v.Job...), '/'), v.Key...)
			out.id = p.made(p.b)
			return out
		case *cluster.Task:
			out, ok := spent.(*loadedTask)
			if !ok {
				out = new(loadedTask)
			}
			out.of(&p, v)
			return out
		default:
			return record
		}
	}
}

func (s *State) loadSlot(id string, packed packedSlot) {
	if before, again := s.slots.Load(id, packed); again {
		s.slotCounts.change(id, before, packed)
	} else {
		s.slotCounts.load(id, packed)
	}
}

func (s *State) loadTask(t *loadedTask) {
	if packed, again := s.tasks.Load(t.id, t.packed); again {
		s.unsettled.leave(t.id, settledAt(task{t.id, packed}.unpack()))
	}
	s.unsettled.enter(t.id, t.settled)
	if t.node != "" {
		s.onNode.own(t.node).Load(t.id, struct{}{})
	}
}
