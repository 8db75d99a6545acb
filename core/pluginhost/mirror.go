package pluginhost

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

const (
	chunkBytes = 256 << 10 // of one message of nodes, about
	fewStrings = 64 << 10  // a table of so many strings is never too large
)

// wireRevision is the number under which the plugin gets a revision: one more, because 0 means none on the wire, and an empty cluster is at revision 0.
func wireRevision(r cluster.Revision) uint64 { return uint64(r) + 1 }

// coreRevision is the revision with that number on the wire.
func coreRevision(w uint64) cluster.Revision { return cluster.Revision(w - 1) }

// mirror is what a session's plugin was told of the nodes. Owner: the session's loop. Revisions are those on the wire.
type mirror struct {
	watches cluster.FieldMask
	numbers map[string]uint32
	fresh   []string // numbered and not in a message yet
	nodes   []tenant // by index
	taken   int      // indexes that a node has
}

// tenant is what an index was used for.
type tenant struct {
	node   *cluster.Node  // nil: free
	sent   *pluginv1.Node // as it was told
	before bool           // another node used the index earlier
	since  uint64         // 0: no node ever used the index
	until  uint64         // 0: it still does
}

func newMirror(watches cluster.FieldMask) *mirror { return &mirror{watches: watches} }

// size is one more than the highest index ever told.
func (m *mirror) size() int { return len(m.nodes) }

// count is how many nodes the plugin was told of.
func (m *mirror) count() int { return m.taken }

// present reports whether a node had the index at a revision. sure is false if that is not known any more.
func (m *mirror) present(i uint32, at uint64) (yes, sure bool) {
	if int(i) >= len(m.nodes) || m.nodes[i].since == 0 {
		return false, true
	}
	t := &m.nodes[i]
	if at < t.since {
		return t.before, !t.before
	}
	return t.until == 0 || at < t.until, true
}

// apply notes what nodes there are at a revision, and returns messages that tell the plugin, at least one.
func (m *mirror) apply(revision uint64, reset bool, nodes map[uint32]*cluster.Node) []*pluginv1.Nodes {
	reset = reset || m.numbers == nil || m.crowded()
	if reset {
		m.numbers, m.fresh = map[string]uint32{}, nil
		m.number("")
	}
	w := &nodeWriter{mirror: m, revision: revision}
	w.begin()
	w.part.Reset_ = reset
	for _, i := range sortedKeys(nodes) {
		if n := nodes[i]; n == nil {
			if m.free(i, revision) && !reset {
				w.part.Remove = append(w.part.Remove, i)
			}
		}
	}
	if reset {
		all := map[uint32]*cluster.Node{}
		for i, t := range m.nodes {
			if t.node != nil {
				all[uint32(i)] = t.node
			}
		}
		maps.Copy(all, nodes)
		nodes = all
	}
	for _, i := range sortedKeys(nodes) {
		if n := nodes[i]; n != nil {
			w.put(i, n, reset)
		}
	}
	return w.end()
}

// forget is for a mirror that begins anew: what is not named again is free.
func (m *mirror) forget(revision uint64, nodes map[uint32]*cluster.Node) {
	for i := range m.nodes {
		if nodes[uint32(i)] == nil {
			m.free(uint32(i), revision)
		}
	}
}

// crowded reports whether most strings of the table are likely of nodes and values that are gone.
func (m *mirror) crowded() bool {
	return len(m.numbers) > fewStrings && len(m.numbers) > 64*len(m.nodes)
}

func (m *mirror) free(i uint32, revision uint64) bool {
	if int(i) >= len(m.nodes) || m.nodes[i].node == nil {
		return false
	}
	m.nodes[i].node, m.nodes[i].sent, m.nodes[i].until = nil, nil, revision
	m.taken--
	return true
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

// nodeWriter divides nodes into messages.
type nodeWriter struct {
	mirror   *mirror
	revision uint64
	part     *pluginv1.Nodes
	size     int
	out      []*pluginv1.Nodes
}

func (w *nodeWriter) begin() {
	w.part, w.size = &pluginv1.Nodes{Revision: w.revision}, 0
	w.out = append(w.out, w.part)
}

// flush puts the strings that are new into the message that first needs them.
func (w *nodeWriter) flush() { w.part.Strings, w.mirror.fresh = w.mirror.fresh, nil }

func (w *nodeWriter) end() []*pluginv1.Nodes {
	w.flush()
	w.part.Last = true
	return w.out
}

// put tells of a node, unless nothing changed that the plugin sees.
func (w *nodeWriter) put(i uint32, n *cluster.Node, always bool) {
	m := w.mirror
	for int(i) >= len(m.nodes) {
		m.nodes = append(m.nodes, tenant{})
	}
	t, strings := &m.nodes[i], len(m.fresh)
	raw := m.encode(i, n)
	same := t.node != nil && t.node.ID == n.ID
	if t.node == nil {
		m.taken++
	}
	t.node = n
	if !always && same && proto.Equal(t.sent, raw) {
		return
	}
	if !same {
		t.before, t.since, t.until = t.before || t.since != 0, w.revision, 0
	}
	t.sent = raw
	size := proto.Size(raw) + 8
	for _, s := range m.fresh[strings:] {
		size += len(s) + 4
	}
	if w.size+size > chunkBytes && w.size > 0 {
		ahead := slices.Clone(m.fresh[strings:])
		m.fresh = m.fresh[:strings]
		w.flush()
		w.begin()
		m.fresh = ahead
	}
	w.size += size
	w.part.Upsert = append(w.part.Upsert, raw)
}

func (m *mirror) encode(i uint32, n *cluster.Node) *pluginv1.Node {
	out := &pluginv1.Node{Index: i, Id: m.number(string(n.ID)), Name: m.number(n.Spec.Name), Decommissioned: n.Spec.Decommissioned}
	d := &n.Description
	if m.watches.Has(cluster.FieldLabels) {
		out.LabelKeys, out.LabelValues = m.pairs(n.Spec.Labels)
	}
	if m.watches.Has(cluster.FieldAttributes) {
		out.AttributeKeys, out.AttributeValues = m.pairs(d.Attributes)
	}
	if m.watches.Has(cluster.FieldPlatform) {
		out.Hostname, out.Os, out.Arch, out.Version = m.number(d.Hostname), m.number(d.OS), m.number(d.Arch), m.number(d.Version)
		out.Addresses, out.Drivers = m.words(d.Addresses), m.words(d.Drivers)
	}
	if m.watches.Has(cluster.FieldCapacity) {
		out.MilliCpu, out.MemoryBytes, out.Units = d.Capacity.MilliCPU, d.Capacity.Memory, d.Capacity.Units
	}
	if m.watches.Has(cluster.FieldAvailability) {
		out.Availability = m.number(string(n.Spec.Availability))
	}
	if m.watches.Has(cluster.FieldState) {
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
