package sdk

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// view is all nodes at one revision. It never changes and may be read from any goroutine.
type view struct {
	revision uint64
	entries  []*entry // by index; nil: no node
	order    *order   // shared by views with the same nodes at the same indexes

	once  sync.Once
	nodes []*cluster.Node // by id, made on demand
}

// order finds nodes by id.
type order struct {
	once    sync.Once
	indexes []uint32 // by id
	find    map[cluster.NodeID]uint32
}

// node returns the node at an index, or nil.
func (v *view) node(index uint32) *cluster.Node {
	if int(index) >= len(v.entries) || v.entries[index] == nil {
		return nil
	}
	return v.entries[index].get()
}

// byID returns all nodes, sorted by id.
func (v *view) byID() []*cluster.Node {
	v.once.Do(func() {
		o := v.sorted()
		v.nodes = make([]*cluster.Node, len(o.indexes))
		for i, index := range o.indexes {
			v.nodes[i] = v.entries[index].get()
		}
	})
	return v.nodes
}

// index returns the index of a node.
func (v *view) index(id cluster.NodeID) (uint32, bool) {
	i, ok := v.sorted().find[id]
	return i, ok
}

func (v *view) sorted() *order {
	v.order.once.Do(func() {
		o := v.order
		o.find = make(map[cluster.NodeID]uint32, len(v.entries))
		for i, e := range v.entries {
			if e != nil {
				o.indexes = append(o.indexes, uint32(i))
				o.find[e.id] = uint32(i)
			}
		}
		slices.SortFunc(o.indexes, func(a, b uint32) int { return cmp.Compare(v.entries[a].id, v.entries[b].id) })
	})
	return v.order
}

// with returns a view in which some nodes are replaced.
func (v *view) with(replaced []*entry, indexes []uint32) *view {
	out := &view{revision: v.revision, entries: slices.Clone(v.entries), order: &order{}}
	for i, index := range indexes {
		for int(index) >= len(out.entries) {
			out.entries = append(out.entries, nil)
		}
		out.entries[index] = replaced[i]
	}
	return out
}

// entry is one node as it was sent; the value for authors is made when somebody first looks at it.
type entry struct {
	id   cluster.NodeID
	once sync.Once
	made *cluster.Node
	raw  *pluginv1.Node // until made
	text []string       // the table of strings
}

// newEntry checks that all strings of a node are in the table.
func newEntry(raw *pluginv1.Node, table []string) (*entry, error) {
	top := max(raw.Id, raw.Name, raw.Hostname, raw.Os, raw.Arch, raw.Version, raw.Availability, raw.State)
	for _, list := range [][]uint32{raw.LabelKeys, raw.LabelValues, raw.AttributeKeys, raw.AttributeValues, raw.Addresses, raw.Drivers} {
		for _, n := range list {
			top = max(top, n)
		}
	}
	switch {
	case int(top) >= len(table):
		return nil, fmt.Errorf("node %d: string number %d is not in the table of %d", raw.Index, top, len(table))
	case len(raw.LabelKeys) != len(raw.LabelValues), len(raw.AttributeKeys) != len(raw.AttributeValues):
		return nil, fmt.Errorf("node %d: keys and values differ in number", raw.Index)
	}
	return &entry{id: cluster.NodeID(table[raw.Id]), raw: raw, text: table}, nil
}

// get returns the node. It is safe to call from any goroutine.
func (e *entry) get() *cluster.Node {
	e.once.Do(func() {
		e.made = decodeNode(e.raw, e.text)
		e.raw, e.text = nil, nil
	})
	return e.made
}

func decodeNode(raw *pluginv1.Node, text []string) *cluster.Node {
	return &cluster.Node{
		ID: cluster.NodeID(text[raw.Id]),
		Spec: cluster.NodeSpec{
			Name:           text[raw.Name],
			Labels:         pairs(raw.LabelKeys, raw.LabelValues, text),
			Availability:   cluster.Availability(text[raw.Availability]),
			Decommissioned: raw.Decommissioned,
		},
		Description: cluster.NodeDescription{
			Hostname:   text[raw.Hostname],
			OS:         text[raw.Os],
			Arch:       text[raw.Arch],
			Addresses:  words(raw.Addresses, text),
			Attributes: pairs(raw.AttributeKeys, raw.AttributeValues, text),
			Drivers:    words(raw.Drivers, text),
			Capacity:   cluster.Resources{MilliCPU: raw.MilliCpu, Memory: raw.MemoryBytes, Units: raw.Units},
			Version:    text[raw.Version],
		},
		Status: cluster.NodeStatus{State: cluster.NodeState(text[raw.State])},
	}
}

func pairs(keys, values []uint32, text []string) map[string]string {
	if len(keys) == 0 {
		return nil
	}
	out := make(map[string]string, len(keys))
	for i, k := range keys {
		out[text[k]] = text[values[i]]
	}
	return out
}

func words(numbers []uint32, text []string) []string {
	if len(numbers) == 0 {
		return nil
	}
	out := make([]string, len(numbers))
	for i, n := range numbers {
		out[i] = text[n]
	}
	return out
}
