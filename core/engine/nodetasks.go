package engine

import (
	"sync"

	"github.com/tidwall/btree"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// nodeTasks is the index of tasks by the node where they were placed, whatever became of them: for each node a tree of its own, so that a node's id is not kept
// once for each of its tasks.
type nodeTasks struct {
	nodes *btree.Map[cluster.NodeID, tasksOfOne]
	turn  uint64 // counts the forks up to this one: what an earlier one made is not changed, but copied

	copying *sync.Mutex // guards trees while they are copied, which notes in them that they were; all forks have the same
}

type tasksOfOne struct {
	ids  *btree.Map[cluster.TaskID, struct{}]
	turn uint64 // that made ids, so that it may change them
}

func newNodeTasks() nodeTasks {
	return nodeTasks{nodes: new(btree.Map[cluster.NodeID, tasksOfOne]), copying: new(sync.Mutex)}
}

func (p nodeTasks) fork() nodeTasks {
	return nodeTasks{nodes: p.nodes.Copy(), turn: p.turn + 1, copying: p.copying}
}

// compact makes the trees as small as they can be.
func (p nodeTasks) compact() {
	var nodes []cluster.NodeID
	p.nodes.Scan(func(node cluster.NodeID, _ tasksOfOne) bool {
		nodes = append(nodes, node)
		return true
	})
	for _, node := range nodes {
		of, _ := p.nodes.Get(node)
		of.ids = compacted(of.ids)
		p.nodes.Set(node, of)
	}
}

// own returns the tasks of a node, to be changed.
func (p nodeTasks) own(node cluster.NodeID) *btree.Map[cluster.TaskID, struct{}] {
	of, ok := p.nodes.Get(node)
	switch {
	case !ok:
		of.ids = new(btree.Map[cluster.TaskID, struct{}])
	case of.turn == p.turn:
		return of.ids
	default:
		p.copying.Lock()
		of.ids = of.ids.Copy()
		p.copying.Unlock()
	}
	of.turn = p.turn
	p.nodes.Set(node, of)
	return of.ids
}

func (p nodeTasks) add(node cluster.NodeID, id cluster.TaskID) { p.own(node).Set(id, struct{}{}) }

func (p nodeTasks) drop(node cluster.NodeID, id cluster.TaskID) {
	ids := p.own(node)
	if ids.Delete(id); ids.Len() == 0 {
		p.nodes.Delete(node)
	}
}

// after calls yield with the ids of a node's tasks, in order, from one on or from where it would be, as long as it returns true.
func (p nodeTasks) after(node cluster.NodeID, from cluster.TaskID, yield func(cluster.TaskID) bool) {
	if of, ok := p.nodes.Get(node); ok {
		of.ids.Ascend(from, func(id cluster.TaskID, _ struct{}) bool { return yield(id) })
	}
}

// on calls yield with the ids of a node's tasks, in order, as long as it returns true.
func (p nodeTasks) on(node cluster.NodeID, yield func(cluster.TaskID) bool) {
	if of, ok := p.nodes.Get(node); ok {
		of.ids.Scan(func(id cluster.TaskID, _ struct{}) bool { return yield(id) })
	}
}
