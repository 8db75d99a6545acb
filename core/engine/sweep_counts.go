package engine

import (
	"fmt"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// recount counts the slots and tasks of one state, a few at a time, and compares that with what the state has counted and listed itself. A state does not
// change, so it makes no difference what happens meanwhile.
type recount struct {
	st   *State
	slot string         // the last one that was counted
	task cluster.TaskID // likewise, after all slots
	rest bool           // all slots were counted

	jobs      map[string]SlotCounts
	runs      map[string]int // by contentKey
	open      int
	settled   [len(settledPhases)]int
	unsettled int
	placed    int
	wrong     string // what differs first
}

// sweepCounts counts on, and returns what that has cost.
func (e *Engine) sweepCounts(most int) (cost int) {
	r := &e.sweep.counts
	if r.st == nil {
		*r = recount{st: e.base, jobs: r.jobs, runs: r.runs}
		if r.jobs == nil {
			r.jobs, r.runs = map[string]SlotCounts{}, map[string]int{}
		}
		clear(r.jobs)
		clear(r.runs)
	}
	n, more := r.count(most * countsPerLook)
	if !more {
		e.sweep.part++
		if r.compare(); r.wrong != "" {
			e.catch(MissedCount, "what is counted of slots and tasks", "%s", r.wrong)
			e.reindex()
		}
		r.st = nil
	}
	return 1 + n/countsPerLook
}

// count counts on by so many records, and reports how many there were and whether there are more.
func (r *recount) count(most int) (n int, more bool) {
	if !r.rest {
		r.st.slots.Ascend(r.slot, func(id string, s packedSlot) bool {
			if id == r.slot {
				return true
			}
			if more = n == most; more {
				return false
			}
			n++
			r.slot = id
			r.countSlot(id, s)
			return true
		})
		if more {
			return n, true
		}
		r.rest = true
	}
	r.st.tasks.Ascend(r.task, func(id cluster.TaskID, v packedTask) bool {
		if id == r.task {
			return true
		}
		if more = n == most; more {
			return false
		}
		n++
		r.task = id
		r.countTask(task{id, v})
		return true
	})
	return n, more
}

func (r *recount) countSlot(id string, s packedSlot) {
	is, job := s.count(), s.job(id)
	r.jobs[job] = r.jobs[job].plus(is)
	if content, ok := s.content(); ok {
		r.runs[contentKey(job, content)]++
	}
	if is.Open > 0 {
		r.open++
		if _, ok := r.st.slotCounts.open.Get(id); !ok {
			r.differs("slot %s is not listed as open", id)
		}
	}
}

func (r *recount) countTask(t task) {
	if t.has(taskPlaced) {
		r.placed++
	}
	at := -1
	switch {
	case t.dead():
		at = settledAt(t.unpack())
	case t.desired().Wanted() && t.observed() == cluster.Running && t.has(taskHealthy):
		at = 0
	}
	if at >= 0 {
		r.settled[at]++
		return
	}
	r.unsettled++
	if _, ok := r.st.unsettled.ids.Get(t.id); !ok {
		r.differs("task %s is not listed among those of which something is still to come", t.id)
	}
}

// compare compares the sums.
func (r *recount) compare() {
	jobs := 0
	r.st.slotCounts.jobs.Scan(func(job string, n *SlotCounts) bool {
		if jobs++; *n != r.jobs[job] {
			r.differs("the slots of job %s are counted as %+v, and are %+v", job, *n, r.jobs[job])
		}
		return true
	})
	if jobs != len(r.jobs) {
		r.differs("slots of %d jobs are counted, and %d have any", jobs, len(r.jobs))
	}
	r.st.slotCounts.runs.Scan(func(key string, n *int) bool {
		if *n != r.runs[key] {
			r.differs("slots that run %q are counted as %d, and are %d", key, *n, r.runs[key])
		}
		return true
	})
	if n := r.st.slotCounts.runs.Len(); n != len(r.runs) {
		r.differs("slots of jobs are counted to run %d contents, and run %d", n, len(r.runs))
	}
	if n := r.st.slotCounts.open.Len(); n != r.open {
		r.differs("%d slots are listed as open, and %d are", n, r.open)
	}
	if n := r.st.unsettled.ids.Len(); n != r.unsettled {
		r.differs("%d tasks are listed as those of which something is still to come, and there are %d", n, r.unsettled)
	}
	if r.st.unsettled.settled != r.settled {
		r.differs("tasks are counted by their phase as %v, and are %v", r.st.unsettled.settled, r.settled)
	}
	placed := 0
	r.st.onNode.nodes.Scan(func(_ cluster.NodeID, of tasksOfOne) bool {
		placed += of.ids.Len()
		return true
	})
	if placed != r.placed {
		r.differs("%d tasks are listed on nodes, and %d are on some", placed, r.placed)
	}
}

func (r *recount) differs(format string, args ...any) {
	if r.wrong == "" {
		r.wrong = fmt.Sprintf(format, args...)
	}
}

// reindex makes anew what the working state counts and lists of its records.
func (e *Engine) reindex() {
	st := e.work
	st.unsettled, st.slotCounts, st.onNode = newUnsettled(), newSlotCounts(), newNodeTasks()
	st.slots.Scan(func(id string, s packedSlot) bool {
		st.slotCounts.change(id, "", s)
		return true
	})
	for t := range st.Tasks() {
		st.unsettled.change(nil, t)
		if t.Placed() {
			st.onNode.add(t.Placement.Node, t.ID)
		}
	}
}
