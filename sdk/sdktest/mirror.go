package sdktest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
	"google.golang.org/protobuf/proto"
)

// mirror is the host's side of the plugin's copy of the nodes. Owner: the Host, under its lock.
type mirror struct {
	watches []string
	numbers map[string]uint32 // of strings
	fresh   []string          // not sent yet
	nodes   []*cluster.Node   // by index; nil: none
	index   map[cluster.NodeID]uint32
	free    []uint32 // indexes to be used again
	since   []uint64 // by index: the revision since which it names this node, or none
	sent    map[cluster.NodeID]*pluginv1.Node
}

func newMirror(watches []string) *mirror {
	m := &mirror{watches: watches, numbers: map[string]uint32{}, index: map[cluster.NodeID]uint32{}, sent: map[cluster.NodeID]*pluginv1.Node{}}
	m.number("")
	return m
}

func (m *mirror) number(s string) uint32 {
	n, ok := m.numbers[s]
	if !ok {
		n = uint32(len(m.numbers))
		m.numbers[s] = n
		m.fresh = append(m.fresh, s)
	}
	return n
}

// put takes a node and returns its message, or nil if nothing that the plugin sees of it changed.
func (m *mirror) put(n *cluster.Node, revision uint64) *pluginv1.Node {
	i, ok := m.index[n.ID]
	switch {
	case ok:
	case len(m.free) > 0:
		i, m.free = m.free[len(m.free)-1], m.free[:len(m.free)-1]
		m.since[i] = revision
	default:
		i = uint32(len(m.nodes))
		m.nodes, m.since = append(m.nodes, nil), append(m.since, revision)
	}
	m.index[n.ID], m.nodes[i] = i, n
	raw := m.encode(i, n)
	if old := m.sent[n.ID]; old != nil && proto.Equal(old, raw) {
		return nil
	}
	m.sent[n.ID] = raw
	return raw
}

// drop forgets a node and returns its index.
func (m *mirror) drop(id cluster.NodeID, revision uint64) (uint32, bool) {
	i, ok := m.index[id]
	if !ok {
		return 0, false
	}
	delete(m.index, id)
	delete(m.sent, id)
	m.nodes[i], m.since[i] = nil, revision
	m.free = append(m.free, i)
	return i, true
}

// at returns the node that an index named at a revision if it still does. It returns an error for an index that never named one by then.
func (m *mirror) at(index uint32, revision uint64) (*cluster.Node, error) {
	if int(index) >= len(m.nodes) || m.nodes[index] == nil && m.since[index] <= revision {
		return nil, fmt.Errorf("node %d is unknown at revision %d", index, revision)
	}
	if m.since[index] > revision {
		return nil, nil
	}
	return m.nodes[index], nil
}

func (m *mirror) watched(w sdk.Watch) bool { return slices.Contains(m.watches, string(w)) }

func (m *mirror) encode(index uint32, n *cluster.Node) *pluginv1.Node {
	out := &pluginv1.Node{
		Index: index, Id: m.number(string(n.ID)), Name: m.number(n.Spec.Name), Decommissioned: n.Spec.Decommissioned,
	}
	if m.watched(sdk.WatchLabels) {
		out.LabelKeys, out.LabelValues = m.pairs(n.Spec.Labels)
	}
	if m.watched(sdk.WatchAttributes) {
		out.AttributeKeys, out.AttributeValues = m.pairs(n.Description.Attributes)
	}
	if m.watched(sdk.WatchPlatform) {
		d := &n.Description
		out.Hostname, out.Os, out.Arch, out.Version = m.number(d.Hostname), m.number(d.OS), m.number(d.Arch), m.number(d.Version)
		out.Addresses, out.Drivers = m.words(d.Addresses), m.words(d.Drivers)
	}
	if m.watched(sdk.WatchCapacity) {
		c := n.Description.Capacity
		out.MilliCpu, out.MemoryBytes, out.Units = c.MilliCPU, c.Memory, c.Units
	}
	if m.watched(sdk.WatchAvailability) {
		out.Availability = m.number(string(n.Spec.Availability))
	}
	if m.watched(sdk.WatchState) {
		out.State = m.number(string(n.Status.State))
	}
	return out
}

func (m *mirror) pairs(of map[string]string) (keys, values []uint32) {
	for _, k := range slices.Sorted(maps.Keys(of)) {
		keys, values = append(keys, m.number(k)), append(values, m.number(of[k]))
	}
	return keys, values
}

func (m *mirror) words(of []string) []uint32 {
	var out []uint32
	for _, w := range of {
		out = append(out, m.number(w))
	}
	return out
}

// messages makes messages of a revision, with so many nodes in each at most.
func (m *mirror) messages(revision uint64, reset bool, upsert []*pluginv1.Node, remove []uint32, chunk int) []*pluginv1.Nodes {
	out := []*pluginv1.Nodes{{Revision: revision, Reset_: reset, Strings: m.fresh, Remove: remove}}
	m.fresh = nil
	for part := range slices.Chunk(upsert, chunk) {
		out = append(out, &pluginv1.Nodes{Revision: revision, Upsert: part})
	}
	out[len(out)-1].Last = true
	return out
}
