package engine

import (
	"iter"
	"strings"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// TasksAfter yields the tasks of a job ("": of any) that were placed on a node ("": on any or none) in the order of their ids, from the first that comes after
// a given one on ("": from the first). So a list that is asked for page by page costs each page what it shows.
func (s *State) TasksAfter(job string, node cluster.NodeID, after cluster.TaskID) iter.Seq[*cluster.Task] {
	prefix := ""
	if job != "" {
		prefix = job + "/"
	}
	if node == "" {
		return s.tasksAfter(prefix, after)
	}
	return func(yield func(*cluster.Task) bool) {
		s.onNode.after(node, max(cluster.TaskID(prefix), after), func(id cluster.TaskID) bool {
			if id == after {
				return true
			}
			return strings.HasPrefix(string(id), prefix) && yield(s.Task(id))
		})
	}
}

func (s *State) tasksAfter(prefix string, after cluster.TaskID) iter.Seq[*cluster.Task] {
	return func(yield func(*cluster.Task) bool) {
		s.tasks.Ascend(max(cluster.TaskID(prefix), after), func(id cluster.TaskID, t packedTask) bool {
			if id == after {
				return true
			}
			return strings.HasPrefix(string(id), prefix) && yield(s.whole(task{id, t}))
		})
	}
}

// SlotStalls returns the stalls of a job's slots in the order of their keys; those of all jobs' slots if job is "".
func (s *State) SlotStalls(job string) []*cluster.Stall {
	if job != "" {
		job += "/"
	}
	return s.stallsWithPrefix(cluster.Subject{Kind: cluster.SubjectSlot, ID: job}.String())
}

// EachSlot yields the slots of a job in the order of their ids, without collecting them.
func (s *State) EachSlot(job string) iter.Seq[*cluster.Slot] {
	prefix := job + "/"
	return func(yield func(*cluster.Slot) bool) {
		s.slots.Ascend(prefix, func(id string, v packedSlot) bool { return strings.HasPrefix(id, prefix) && yield(v.unpack(id)) })
	}
}

// JobStalls yields the stalls of a job, its update, its slots, its tasks and the groups in which these wait.
func (s *State) JobStalls(job string) iter.Seq[*cluster.Stall] {
	return func(yield func(*cluster.Stall) bool) {
		for _, prefix := range []string{
			cluster.Subject{Kind: cluster.SubjectJob, ID: job}.String() + "|", cluster.Subject{Kind: cluster.SubjectUpdate, ID: job}.String() + "|",
			cluster.Subject{Kind: cluster.SubjectSlot, ID: job}.String() + "/", cluster.Subject{Kind: cluster.SubjectTask, ID: job}.String() + "/",
			cluster.Subject{Kind: cluster.SubjectGroup, ID: job}.String() + "@",
		} {
			for _, stall := range s.stallsWithPrefix(prefix) {
				if !yield(stall) {
					return
				}
			}
		}
	}
}
