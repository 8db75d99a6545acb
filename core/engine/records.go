package engine

import (
	"cmp"
	"fmt"

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
		if v, ok := s.slots.Get(r.key); ok {
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
		id := v.ID()
		s.words.slot(v, id)
		s.slots.Set(id, v)
	case *cluster.Task:
		s.words.task(v)
		old, _ := s.tasks.Set(v.ID, v)
		s.unsettled.change(old, v)
		if v.Placed() {
			s.onNode.Set(string(v.Placement.Node)+"\x00"+string(v.ID), struct{}{})
		}
	case *cluster.Stall:
		s.stalls.Set(v.Key(), v)
	case *cluster.Removals: // for those who read the log
	default:
		return fmt.Errorf("restore: a %T is no record", v)
	}
	return nil
}
