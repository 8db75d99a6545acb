package sdktest

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// book is what a plugin was asked to keep answers about, and the answers. It refuses what cannot be.
type book struct {
	revision uint64 // newest that the plugin was told of
	classes  map[uint32]*classState
	jobs     map[string]*jobState
	applied  uint64     // newest that the plugin said it applied
	size     func() int // of the table of nodes: indexes below it may name one
	// node finds what an index named at a revision: nil if it names something else now, an error if it named nothing.
	node func(index uint32, revision uint64) (*cluster.Node, error)
}

func newBook() book { return book{classes: map[uint32]*classState{}, jobs: map[string]*jobState{}} }

func (b *book) finder(revision uint64) finder {
	return func(i uint32) (*cluster.Node, error) { return b.node(i, revision) }
}

func (b *book) takeVerdicts(m *pluginv1.Verdicts) error {
	for _, v := range m.Classes {
		c := b.classes[v.Class]
		if c == nil || c.revision != v.ClassRevision {
			continue // withdrawn or replaced since
		}
		if m.Revision < c.at || m.Revision > b.revision {
			return fmt.Errorf("class %d answers at revision %d after %d, of %d", v.Class, m.Revision, c.at, b.revision)
		}
		err := fits(v.GetFull(), b.size())
		if err == nil {
			err = c.take(v, m.Revision, b.finder(m.Revision))
		}
		if err != nil {
			return fmt.Errorf("class %d: %w", v.Class, err)
		}
	}
	return nil
}

// fits returns an error if an answer is about more nodes than there are indexes.
func fits(f *pluginv1.FullVerdict, size int) error {
	switch {
	case len(f.GetAllowed()) > (size+7)/8:
		return fmt.Errorf("its bitmap is for %d nodes or more, and there are %d", 8*len(f.Allowed)-7, size)
	case len(f.GetRanks()) > size:
		return fmt.Errorf("%d ranks are for %d nodes", len(f.Ranks), size)
	}
	return nil
}

// takeApplied brings all that is not named as late to the revision.
func (b *book) takeApplied(m *pluginv1.Applied) error {
	if m.Revision > b.revision {
		return fmt.Errorf("applied revision %d was never sent", m.Revision)
	}
	if m.Revision < b.applied {
		return fmt.Errorf("applied goes back from revision %d to %d", b.applied, m.Revision)
	}
	b.applied = m.Revision
	for id, c := range b.classes {
		if !slices.Contains(m.LateClasses, id) && c.answered {
			c.at = max(c.at, m.Revision)
		}
	}
	for name, j := range b.jobs {
		if !slices.Contains(m.LateJobs, name) && j.answered {
			j.at = max(j.at, m.Revision)
		}
	}
	return nil
}

func (b *book) takeSlots(m *pluginv1.Slots) error {
	j := b.jobs[m.Job]
	if j == nil || j.revision != m.JobRevision {
		return nil // withdrawn or replaced since
	}
	if m.Revision < j.at || m.Revision > b.revision {
		return fmt.Errorf("job %s answers at revision %d after %d, of %d", m.Job, m.Revision, j.at, b.revision)
	}
	if err := j.take(m, b.finder(m.Revision)); err != nil {
		return fmt.Errorf("job %s: %w", m.Job, err)
	}
	return nil
}

// forget drops what was said about a node.
func (b *book) forget(index uint32) {
	for _, c := range b.classes {
		c.forget(index)
	}
}

// reset drops what was said about all nodes.
func (b *book) reset() {
	for _, c := range b.classes {
		c.verdicts, c.partial = nil, nil
	}
}

// take applies one message about a job.
func (j *jobState) take(m *pluginv1.Slots, node finder) error {
	if m.Failure != nil {
		j.failure, j.answered = m.Failure, true
		return nil
	}
	next := j.partial
	if next == nil {
		switch {
		case !m.Delta || j.slots == nil:
			next = map[string]Slot{}
		case m.More:
			next = maps.Clone(j.slots)
		default:
			next = j.slots
		}
	}
	if err := changeSlots(next, m, node); err != nil {
		return err
	}
	if m.More {
		j.partial = next
		return nil
	}
	j.slots, j.partial, j.stall, j.failure, j.answered, j.at = next, nil, m.Stall, nil, true, m.Revision
	j.messages++
	return nil
}

func changeSlots(slots map[string]Slot, m *pluginv1.Slots, node finder) error {
	for _, key := range m.Remove {
		if _, ok := slots[key]; !ok {
			return fmt.Errorf("removed slot %q is unknown", key)
		}
		delete(slots, key)
	}
	for _, s := range m.Upsert {
		if s.Key == "" {
			return errors.New("a slot has no key")
		}
		slot := Slot{Key: cluster.SlotKey(s.Key), Ends: s.Ends, Held: s.Stall}
		for _, i := range s.Nodes {
			n, err := node(i)
			if err != nil {
				return fmt.Errorf("slot %q: %w", s.Key, err)
			}
			if n != nil {
				slot.Nodes = append(slot.Nodes, n.ID)
			}
		}
		slots[s.Key] = slot
	}
	return nil
}

// answer returns the slots by key.
func (j *jobState) answer() Slots {
	out := Slots{Stall: j.stall, Failure: j.failure, Revision: j.at}
	for _, key := range sorted(j.slots) {
		out.Slots = append(out.Slots, j.slots[key])
	}
	return out
}
