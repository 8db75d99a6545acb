package engine

import (
	"cmp"
	"fmt"
	"strings"

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
	}
	return nil
}

// Restore adds a record to a state that is being loaded, which takes it over.
func (s *State) Restore(v any) error {
	if s.words == nil {
		s.words = words{}
	}
	var p packer
	switch v := v.(type) {
	case *cluster.Node:
		s.words.node(v)
		s.nodes.Set(v.ID, v)
		if !v.Spec.Decommissioned {
			s.names.Set(v.Spec.Name, v.ID)
		}
	case *cluster.Job:
		s.jobs.Set(v.Name, v)
	case *cluster.Slot:
		s.slots.Load(v.ID(), packSlot(&p, v))
	case *cluster.Task:
		id := cluster.TaskID(strings.Clone(string(v.ID))) // which may be part of something larger
		var old *cluster.Task
		if packed, again := s.tasks.Load(id, packTask(&p, v)); again {
			old = task{id, packed}.unpack()
		}
		s.unsettled.change(old, v)
		if v.Placed() {
			s.onNode.own(v.Placement.Node).Load(id, struct{}{})
		}
	case *cluster.Stall:
		s.stalls.Set(v.Key(), v)
	case *cluster.Removals: // for those who read the log
	default:
		return fmt.Errorf("restore: a %T is no record", v)
	}
	return nil
}
