package engine

import (
	"slices"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// indexOf returns the node's index in bitmaps and mirrors, giving it the lowest free one if it has none.
func (e *Engine) indexOf(id cluster.NodeID) uint32 {
	if i, ok := e.index[id]; ok {
		return i
	}
	i := slices.Index(e.byIndex, "")
	if i < 0 {
		i = len(e.byIndex)
		e.byIndex = append(e.byIndex, "")
	}
	e.byIndex[i] = id
	e.index[id] = uint32(i)
	return uint32(i)
}

func (e *Engine) freeIndex(id cluster.NodeID) {
	i, ok := e.index[id]
	if !ok {
		return
	}
	delete(e.index, id)
	e.byIndex[i] = ""
	for _, p := range e.plugins {
		for _, a := range p.jobs {
			for _, key := range slices.Clone(a.among[i]) {
				a.forget(key, i) // the index is another node's next
				e.wakeSlot(a.job.Name, key)
			}
		}
	}
	for _, g := range e.groups { // what stands of a limited group is kept by index
		if slices.Contains(g.one().Nodes, id) {
			g.stands, g.dirty = nil, true
		}
	}
	e.ledger.drop(i)
	e.unmirror(i)
}

// nodeAt returns the node with an index, or nil.
func (e *Engine) nodeAt(i uint32) *cluster.Node {
	if int(i) >= len(e.byIndex) || e.byIndex[i] == "" {
		return nil
	}
	return e.work.Node(e.byIndex[i])
}
