package sdk

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// mirror is the plugin's copy of the nodes, as told by the core. Owner: the session's loop. What it publishes are views, which never change.
type mirror struct {
	strings []string
	staged  []*entry              // by index; nil: no node. Being changed until the last message of the revision
	touched map[uint32]nodeChange // by the messages of the revision so far
	reset   bool                  // the revision began with forgetting
	open    bool                  // a revision has begun and its last message has not come
	current *view                 // nil until the first revision is complete
}

// maxIndex bounds node indexes, so that one bad index cannot take all memory.
const maxIndex = 1 << 22

// apply takes a part of the mirror. It returns what changed since the published view once the revision is complete, and an error if the core broke the
// protocol.
func (m *mirror) apply(msg *pluginv1.Nodes) (ch changes, complete bool, err error) {
	if m.current != nil && msg.Revision < m.current.revision {
		return changes{}, false, fmt.Errorf("nodes at revision %d follow revision %d", msg.Revision, m.current.revision)
	}
	m.begin(msg)
	m.strings = append(m.strings, msg.Strings...)
	if len(m.strings) > 0 && m.strings[0] != "" {
		return changes{}, false, fmt.Errorf("string number 0 is %q, not empty", m.strings[0])
	}
	for _, i := range msg.Remove {
		if int(i) >= len(m.staged) || m.staged[i] == nil {
			return changes{}, false, fmt.Errorf("removed node %d is unknown", i)
		}
		m.staged[i] = nil
		m.touched[i] = nodeChange{index: i, fresh: true}
	}
	for _, raw := range msg.Upsert {
		if err := m.upsert(raw); err != nil {
			return changes{}, false, err
		}
	}
	if !msg.Last {
		return changes{}, false, nil
	}
	return m.publish(msg.Revision), true, nil
}

func (m *mirror) begin(msg *pluginv1.Nodes) {
	if !m.open {
		m.open = true
		m.touched = make(map[uint32]nodeChange)
		m.staged = slices.Clone(m.staged)
	}
	if msg.Reset_ {
		m.reset = true
		m.staged, m.strings = nil, nil
	}
}

func (m *mirror) upsert(raw *pluginv1.Node) error {
	if raw.Index >= maxIndex {
		return fmt.Errorf("node index %d is beyond %d", raw.Index, maxIndex)
	}
	e, err := newEntry(raw, m.strings)
	if err != nil {
		return err
	}
	for int(raw.Index) >= len(m.staged) {
		m.staged = append(m.staged, nil)
	}
	old := m.staged[raw.Index]
	fresh := old == nil || old.id != e.id || m.touched[raw.Index].fresh
	m.staged[raw.Index] = e
	m.touched[raw.Index] = nodeChange{index: raw.Index, fresh: fresh}
	return nil
}

func (m *mirror) publish(revision uint64) changes {
	next := &view{revision: revision, entries: m.staged, order: &order{}}
	ch := changes{all: m.reset || m.current == nil, reset: m.reset}
	if !ch.all {
		ch.nodes = slices.SortedFunc(maps.Values(m.touched), func(a, b nodeChange) int { return cmp.Compare(a.index, b.index) })
		if !slices.ContainsFunc(ch.nodes, func(c nodeChange) bool { return c.fresh }) {
			next.order = m.current.order
		}
	}
	m.current, m.open, m.reset, m.touched = next, false, false, nil
	return ch
}

// changes is what an answer has to catch up with.
type changes struct {
	compile bool         // what was asked changed, or the author says that answers did
	all     bool         // every node
	reset   bool         // the indexes were given anew
	nodes   []nodeChange // by index; not used with all
}

// nodeChange is a changed or removed node.
type nodeChange struct {
	index uint32
	fresh bool // another node than before, if any
}

func (c changes) none() bool { return !c.compile && !c.all && len(c.nodes) == 0 }

// join returns the changes that lead over both.
func (c changes) join(d changes) changes {
	if c.none() {
		return d
	}
	out := changes{compile: c.compile || d.compile, all: c.all || d.all}
	if out.all {
		return out
	}
	i, j := 0, 0
	for i < len(c.nodes) && j < len(d.nodes) {
		switch a, b := c.nodes[i], d.nodes[j]; {
		case a.index < b.index:
			out.nodes, i = append(out.nodes, a), i+1
		case a.index > b.index:
			out.nodes, j = append(out.nodes, b), j+1
		default:
			out.nodes, i, j = append(out.nodes, nodeChange{index: a.index, fresh: a.fresh || b.fresh}), i+1, j+1
		}
	}
	out.nodes = append(append(out.nodes, c.nodes[i:]...), d.nodes[j:]...)
	return out
}
