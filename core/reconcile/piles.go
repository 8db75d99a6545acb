package reconcile

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// piles are the slots at rest that a rebalance may move, by the nodes that their tasks are on.
type piles struct {
	all   []*pile // in no order
	on    map[cluster.NodeID]*pile
	where map[cluster.SlotKey]cluster.NodeID
}

// pile is the slots of one node in the order of their keys; those count that are where it is.
type pile struct {
	node  cluster.NodeID
	keys  []cluster.SlotKey
	count int
	at    int // among all
}

func newPiles() *piles {
	return &piles{on: map[cluster.NodeID]*pile{}, where: map[cluster.SlotKey]cluster.NodeID{}}
}

// put adds a slot at its place, or at the end if the piles are to be sorted afterwards.
func (p *piles) put(key cluster.SlotKey, node cluster.NodeID, unsorted bool, compare func(a, b cluster.SlotKey) int) {
	of := p.on[node]
	if of == nil {
		of = &pile{node: node, at: len(p.all)}
		p.on[node], p.all = of, append(p.all, of)
	}
	of.keys = insert(of.keys, key, unsorted, compare)
	of.count++
	p.where[key] = node
}

func (p *piles) drop(key cluster.SlotKey) {
	node, ok := p.where[key]
	if !ok {
		return
	}
	delete(p.where, key)
	of := p.on[node]
	if of.count--; of.count == 0 {
		delete(p.on, node)
		last := len(p.all) - 1
		p.all[of.at], p.all[last].at = p.all[last], of.at
		p.all = p.all[:last]
	}
	for len(of.keys) > 0 && p.where[of.keys[0]] != node {
		of.keys = of.keys[1:]
	}
}

func (p *piles) sort(compare func(a, b cluster.SlotKey) int) {
	for _, of := range p.all {
		slices.SortFunc(of.keys, compare)
	}
}

// candidates yields the slots that a rebalance may move, one after another: those on the nodes with the most of them first, as if each one left in its turn, so
// that the k-th last slot of a node goes when k are left there.
type candidates struct {
	d     *decision
	nodes []*candidatesOn // a heap
}

// candidatesOn are those of one node that were not yielded, in the order of their keys.
type candidatesOn struct {
	node  cluster.NodeID
	left  int
	awake []*slot
	rest  []cluster.SlotKey
}

// candidatesAmong returns the candidates among slots that are looked at, and, if the others are candidates as well, among those at rest.
func (d *decision) candidatesAmong(awake []*slot, others bool) *candidates {
	c := &candidates{d: d}
	of := map[cluster.NodeID]*candidatesOn{}
	on := func(node cluster.NodeID) *candidatesOn {
		if of[node] == nil {
			of[node] = &candidatesOn{node: node}
			c.nodes = append(c.nodes, of[node])
		}
		return of[node]
	}
	if others && d.book != nil && d.book.piles != nil {
		for _, p := range d.book.piles.all {
			n := on(p.node)
			n.rest, n.left = p.keys, p.count-d.roused[p.node]
		}
	}
	for _, s := range awake {
		n := on(s.keep.Placement.Node)
		n.awake = append(n.awake, s)
		n.left++
	}
	c.nodes = slices.DeleteFunc(c.nodes, func(n *candidatesOn) bool { return n.left == 0 })
	for _, n := range c.nodes {
		n.skip(d)
	}
	heap.Init(c)
	return c
}

// next returns the next candidate: a slot that is looked at, or else the key of one at rest.
func (c *candidates) next() (s *slot, key cluster.SlotKey, node cluster.NodeID, ok bool) {
	if len(c.nodes) == 0 {
		return nil, "", "", false
	}
	n := c.nodes[0]
	node = n.node
	if n.awakeFirst(c.d) {
		s, n.awake = n.awake[0], n.awake[1:]
		key = s.key
	} else {
		key, n.rest = n.rest[0], n.rest[1:]
		n.skip(c.d)
	}
	if n.left--; n.left == 0 {
		heap.Pop(c)
	} else {
		heap.Fix(c, 0)
	}
	return s, key, node, true
}

// skip passes over what is not at rest there any more.
func (n *candidatesOn) skip(d *decision) {
	for len(n.rest) > 0 && !d.piled(n.rest[0], n.node) {
		n.rest = n.rest[1:]
	}
}

func (n *candidatesOn) awakeFirst(d *decision) bool {
	return len(n.rest) == 0 || len(n.awake) > 0 && d.compareKeys(n.awake[0].key, n.rest[0]) < 0
}

func (n *candidatesOn) first(d *decision) cluster.SlotKey {
	if n.awakeFirst(d) {
		return n.awake[0].key
	}
	return n.rest[0]
}

// piled reports whether a slot is still at rest on a node.
func (d *decision) piled(key cluster.SlotKey, node cluster.NodeID) bool {
	return d.book.piles.where[key] == node && !d.wasRoused[key]
}

// Len, Less, Swap, Push and Pop make the nodes a heap.
func (c *candidates) Len() int { return len(c.nodes) }

func (c *candidates) Less(i, j int) bool {
	a, b := c.nodes[i], c.nodes[j]
	return cmp.Or(cmp.Compare(b.left, a.left), c.d.compareKeys(a.first(c.d), b.first(c.d))) < 0
}

func (c *candidates) Swap(i, j int) { c.nodes[i], c.nodes[j] = c.nodes[j], c.nodes[i] }

// Push is never called: no node comes to a heap that was made.
func (c *candidates) Push(any) { panic("reconcile: a node comes to a heap that was made") }

func (c *candidates) Pop() any {
	last := c.nodes[len(c.nodes)-1]
	c.nodes = c.nodes[:len(c.nodes)-1]
	return last
}
