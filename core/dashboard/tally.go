package dashboard

import (
	"sync"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// maxTallied is how many turns' slots wait to be counted; beyond that it is cheaper to count anew.
const maxTallied = 200_000

// slotCounts are a job's slots by how they are.
type slotCounts struct {
	wanted, up, done, failed int

	// open are those that are limited to nodes and have no task that is up: whether one of them is wanted depends on its tasks and stalls.
	open map[cluster.SlotKey]struct{}
}

// tally counts the slots of each job. It looks at all of them once, when somebody begins to look at the dashboard; from then on, while somebody does, at those alone
// that a turn changed.
type tally struct {
	queue struct {
		sync.Mutex // guards what follows
		begun      bool
		turns      []engine.Turn // that are not counted yet, none left out since it began
		changes    int           // in turns
	}

	mu   sync.Mutex // guards what follows, and is held while slots are counted
	upTo cluster.Revision
	jobs map[string]*slotCounts
}

// add takes a turn, to be counted when somebody asks.
func (t *tally) add(turn engine.Turn) {
	t.queue.Lock()
	defer t.queue.Unlock()
	if !t.queue.begun {
		return
	}
	t.queue.turns = append(t.queue.turns, turn)
	if t.queue.changes += len(turn.Changes); t.queue.changes > maxTallied {
		t.queue.begun, t.queue.turns, t.queue.changes = false, nil, 0
	}
}

// stop has the next look count anew. It is called for each turn that is not added.
func (t *tally) stop() {
	t.queue.Lock()
	defer t.queue.Unlock()
	t.queue.begun, t.queue.turns, t.queue.changes = false, nil, 0
}

// look calls yield with the counts of the jobs that view has, or had a moment ago. They are not to be kept.
func (t *tally) look(view func() *engine.State, yield func(map[string]*slotCounts)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue.Lock()
	begun, turns := t.queue.begun, t.queue.turns
	t.queue.begun, t.queue.turns, t.queue.changes = true, nil, 0
	t.queue.Unlock()
	if begun && t.jobs != nil {
		for _, turn := range turns {
			t.apply(turn)
		}
	} else {
		t.count(view()) // it has each turn that came before the tally began
	}
	yield(t.jobs)
}

// count looks at all slots.
func (t *tally) count(s *engine.State) {
	t.jobs, t.upTo = map[string]*slotCounts{}, s.Revision
	for j := range s.Jobs() {
		for slot := range s.EachSlot(j.Name) {
			t.of(j.Name).change(slot, 1)
		}
	}
}

// apply looks at what a turn changed.
func (t *tally) apply(turn engine.Turn) {
	if turn.State.Revision <= t.upTo {
		return
	}
	t.upTo = turn.State.Revision
	now := map[string]*cluster.Slot{} // of those that the turn changed before
	replace := func(job string, key cluster.SlotKey, after *cluster.Slot) {
		id := job + "/" + string(key)
		before, seen := now[id]
		if !seen && turn.Before != nil {
			before = turn.Before.Slot(job, key)
		}
		if before != nil {
			t.of(job).change(before, -1)
		}
		if after != nil {
			t.of(job).change(after, 1)
		}
		now[id] = after
	}
	for _, a := range turn.Changes {
		switch c := a.Change.(type) {
		case cluster.PutSlot:
			replace(c.Slot.Job, c.Slot.Key, c.Slot)
		case cluster.RemoveSlot:
			replace(c.Job, c.Key, nil)
		}
	}
}

func (t *tally) of(job string) *slotCounts {
	c := t.jobs[job]
	if c == nil {
		c = &slotCounts{open: map[cluster.SlotKey]struct{}{}}
		t.jobs[job] = c
	}
	return c
}

// change counts a slot, or takes it back.
func (c *slotCounts) change(slot *cluster.Slot, by int) {
	up, open := !slot.UpSince.IsZero(), false
	switch {
	case slot.Unwanted:
		return
	case slot.Done:
		c.done += by
		if slot.Failed {
			c.failed += by
		}
	case up:
		c.up += by
	default:
		open = len(slot.Nodes) > 0
	}
	switch {
	case !open:
		c.wanted += by
	case by > 0:
		c.open[slot.Key] = struct{}{}
	default:
		delete(c.open, slot.Key)
	}
}
