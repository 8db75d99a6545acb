package place

import (
	"cmp"
	"slices"
)

// ranked is a node in the order of its load, the most wanted first.
type ranked struct {
	load, tasks uint32
	order       int32 // by name
	node        int32
}

func compareRanked(a, b ranked) int {
	return cmp.Or(cmp.Compare(a.load, b.load), cmp.Compare(a.tasks, b.tasks), cmp.Compare(a.order, b.order))
}

// Ranking is the open nodes in the order of their load, the least loaded first. The owner of a Cluster keeps it between calls, says which nodes changed, and
// brings it up to date before Place uses it. The zero Ranking has everything before it.
type Ranking struct {
	nodes   []ranked
	at      []ranked // by index, as the node stands in nodes
	in      Bitmap   // what stands there
	changed Bitmap
	pending int  // nodes in changed
	whole   bool // the order is kept up to date by changes alone
}

// Changed says that something of node i changed: what is free there, how many tasks there are, or whether it takes any.
func (r *Ranking) Changed(i int) {
	if !r.whole || r.changed.Get(i) {
		return
	}
	if i/64 >= len(r.changed) {
		r.changed = append(r.changed, make(Bitmap, i/64+1-len(r.changed))...)
	}
	r.changed.Set(i)
	r.pending++
}

// Reset says that everything may have changed, such as the order of names.
func (r *Ranking) Reset() { r.whole = false }

// Refresh brings the order up to date with c, which must have Order and Open.
func (r *Ranking) Refresh(c *Cluster) {
	switch {
	case !r.whole || r.pending > len(r.nodes)/64: // moving so many one by one costs more than sorting
		r.rebuild(c)
	case r.pending > 0:
		for i := range r.changed.All() {
			r.move(c, i)
		}
	}
	clear(r.changed)
	r.pending, r.whole = 0, true
}

func (r *Ranking) rebuild(c *Cluster) {
	r.nodes, r.in = r.nodes[:0], NewBitmap(len(c.Nodes))
	r.at = slices.Grow(r.at[:0], len(c.Nodes))[:len(c.Nodes)]
	for i := range c.Open.All() {
		r.at[i] = rank(c, i)
		r.nodes = append(r.nodes, r.at[i])
		r.in.Set(i)
	}
	slices.SortFunc(r.nodes, compareRanked)
}

func (r *Ranking) move(c *Cluster, i int) {
	if r.in.Get(i) {
		from, _ := slices.BinarySearchFunc(r.nodes, r.at[i], compareRanked)
		r.nodes = slices.Delete(r.nodes, from, from+1)
		r.in.Clear(i)
	}
	if c.Open.Get(i) {
		r.at[i] = rank(c, i)
		to, _ := slices.BinarySearchFunc(r.nodes, r.at[i], compareRanked)
		r.nodes = slices.Insert(r.nodes, to, r.at[i])
		r.in.Set(i)
	}
}

// rank is node i as it is before anything is placed.
func rank(c *Cluster, i int) ranked {
	n := c.Nodes[i]
	capacity := &n.Node.Description.Capacity
	return ranked{load: load(amounts{capacity.MilliCPU, capacity.Memory}, amounts{n.Free.MilliCPU, n.Free.Memory}), tasks: uint32(n.Tasks), order: c.Order[i], node: int32(i)}
}
