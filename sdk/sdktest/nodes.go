package sdktest

import (
	"slices"

	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// Change is what happens to the nodes in one revision.
type Change struct {
	Remove []cluster.NodeID // first
	Put    []*cluster.Node  // new or changed
}

// SetNodes makes the given nodes all there are, tells the plugin from scratch, and waits until it has applied them.
func (h *Host) SetNodes(nodes ...*cluster.Node) {
	h.t.Helper()
	h.mu.Lock()
	h.revision++
	h.mirror = newMirror(h.about.Watches)
	h.reset()
	var upsert []*pluginv1.Node
	for _, n := range nodes {
		upsert = append(upsert, h.mirror.put(n, h.revision))
	}
	messages := h.mirror.messages(h.revision, true, upsert, nil, h.opts.NodesPerMessage)
	h.mu.Unlock()
	h.sendNodes(messages)
	h.WaitApplied()
}

// Repeat tells the plugin once more of nodes that it knows, as they are, under a new revision, and does not wait.
func (h *Host) Repeat(ids ...cluster.NodeID) {
	h.t.Helper()
	h.mu.Lock()
	h.revision++
	var upsert []*pluginv1.Node
	for _, id := range ids {
		upsert = append(upsert, h.mirror.sent[id])
	}
	messages := h.mirror.messages(h.revision, false, upsert, nil, h.opts.NodesPerMessage)
	h.mu.Unlock()
	h.sendNodes(messages)
}

// UpdateNode adds or changes one node and waits until the plugin has applied it.
func (h *Host) UpdateNode(n *cluster.Node) {
	h.t.Helper()
	h.Apply(Change{Put: []*cluster.Node{n}})
	h.WaitApplied()
}

// RemoveNode removes a node and waits until the plugin has applied it.
func (h *Host) RemoveNode(id cluster.NodeID) {
	h.t.Helper()
	h.Apply(Change{Remove: []cluster.NodeID{id}})
	h.WaitApplied()
}

// Apply tells the plugin of a change and does not wait. It reports whether there was something to tell: what the plugin does not watch is not told.
func (h *Host) Apply(ch Change) bool {
	h.t.Helper()
	h.mu.Lock()
	next := h.revision + 1
	var upsert []*pluginv1.Node
	var remove []uint32
	for _, id := range ch.Remove {
		if i, ok := h.mirror.drop(id, next); ok {
			remove = append(remove, i)
			h.forget(i)
		}
	}
	for _, n := range ch.Put {
		if raw := h.mirror.put(n, next); raw != nil {
			upsert = append(upsert, raw)
		}
	}
	if len(upsert) == 0 && len(remove) == 0 {
		h.mu.Unlock()
		return false
	}
	h.revision = next
	messages := h.mirror.messages(next, false, upsert, remove, h.opts.NodesPerMessage)
	h.mu.Unlock()
	h.sendNodes(messages)
	return true
}

func (h *Host) sendNodes(messages []*pluginv1.Nodes) {
	h.t.Helper()
	for _, m := range messages {
		h.send(&pluginv1.FromCore{Message: &pluginv1.FromCore_Nodes{Nodes: m}})
	}
}

// Nodes returns the nodes that the plugin was told of, by id.
func (h *Host) Nodes() []*cluster.Node {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []*cluster.Node
	for _, n := range h.mirror.nodes {
		if n != nil {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b *cluster.Node) int { return cmpID(a.ID, b.ID) })
	return out
}

// WaitApplied waits until the plugin has applied the latest revision, late answers excepted.
func (h *Host) WaitApplied() *pluginv1.Applied {
	h.t.Helper()
	var out *pluginv1.Applied
	h.await("applied", func() bool {
		out = h.latest
		return out != nil && out.Revision == h.revision
	})
	return out
}

// Settle waits until the plugin has answered for every class and job at the latest revision, or failed to.
func (h *Host) Settle() {
	h.t.Helper()
	h.WaitApplied()
	h.await("all answers", func() bool {
		for _, c := range h.classes {
			if !c.answered || c.at < h.revision && c.failure == nil {
				return false
			}
		}
		for _, j := range h.jobs {
			if !j.answered || j.at < h.revision && j.failure == nil {
				return false
			}
		}
		return true
	})
}

func cmpID(a, b cluster.NodeID) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
