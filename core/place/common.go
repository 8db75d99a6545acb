package place

import "slices"

// Groups that spread over all nodes would each put all nodes in order. That order is the same for all of them but for a job's own tasks, so one serves them all: a
// group takes nodes from it one by one for as long as the next one may be wanted more than those that it has (queue.pull).

// commonGroups is how many such groups there are at least, or putting the nodes in order does not pay where that is not kept between calls.
const commonGroups = 4

// commonOrder is the open nodes in the order of their load, for spreading, as they become while things are placed.
//
// What was placed on a node is noted, and the node moves before the next group asks: so nothing moves while a group goes through the order, and a node on which
// many tasks were placed moves once. Nodes that moved stand beside the others until there are many of them.
type commonOrder struct {
	p     *placer
	base  []ranked // in order, but for the nodes that moved; the caller's at first, which is not changed
	begin int      // all nodes of base before this one moved
	moved []ranked // in order
	has   Bitmap   // the nodes in moved
	late  []int32  // nodes that changed since they were put in their places
	noted Bitmap   // the same

	spare []ranked    // room for the next moved
	rooms [2][]ranked // for the next base, in turns
}

func newCommonOrder(p *placer) *commonOrder {
	c := p.v.c
	r := c.Ranking
	if r == nil {
		with := *c
		with.Order, with.Open = p.nameOrder(), p.openNodes()
		r = &Ranking{}
		r.Refresh(&with)
	}
	return &commonOrder{p: p, base: r.nodes, has: NewBitmap(len(c.Nodes)), noted: NewBitmap(len(c.Nodes))}
}

// isCommon reports whether the group wants nodes in the common order, but for those with tasks of its job, which it wants later.
func (n *need) isCommon() bool {
	return n.limited == nil && !n.binpack() && len(n.spread()) == 0 && len(n.g.Tasks) > 0 &&
		!slices.ContainsFunc(n.filters, func(f Filter) bool { return len(f.Ranks) > 0 })
}

// orderIfPays puts the nodes in the common order if there are that many groups for it. Room that is kept for some would make it another one for each.
func (p *placer) orderIfPays(needs []*need, few int) {
	if len(p.claims) > 0 {
		return
	}
	count := 0
	for _, n := range needs {
		if n.isCommon() {
			count++
		}
	}
	if count >= few {
		p.common = newCommonOrder(p)
	}
}

// changed notes that something was placed on node i.
func (o *commonOrder) changed(i int) {
	if !o.noted.Get(i) {
		o.noted.Set(i)
		o.late = append(o.late, int32(i))
	}
}

// settle moves the nodes that changed to where they belong now.
func (o *commonOrder) settle() {
	if len(o.late) == 0 {
		return
	}
	names, now := o.p.nameOrder(), make([]ranked, len(o.late))
	for k, i := range o.late {
		st := o.p.v.at(int(i))
		now[k] = ranked{load: st.load, tasks: uint32(st.tasks), order: names[i], node: i}
	}
	slices.SortFunc(now, compareRanked)
	o.spare, o.moved = o.moved, merge(o.spare, o.moved, o.noted, now)
	for _, i := range o.late {
		o.has.Set(int(i))
		o.noted.Clear(int(i))
	}
	o.late = o.late[:0]
	if len(o.moved) > 16+len(o.base)/64 { // each group goes through them
		o.rooms[0], o.rooms[1] = o.rooms[1], merge(o.rooms[0], o.base[o.begin:], o.has, o.moved)
		o.base, o.begin, o.moved = o.rooms[1], 0, o.moved[:0]
		clear(o.has)
		return
	}
	for o.begin < len(o.base) && o.has.Get(int(o.base[o.begin].node)) {
		o.begin++
	}
}

// merge returns, in the given room, what is in old, without some nodes, and in others, both of which are in order.
func merge(room, old []ranked, without Bitmap, others []ranked) []ranked {
	out := slices.Grow(room[:0], len(old)+len(others))
	for _, r := range old {
		if without.Get(int(r.node)) {
			continue
		}
		for len(others) > 0 && compareRanked(others[0], r) < 0 {
			out, others = append(out, others[0]), others[1:]
		}
		out = append(out, r)
	}
	return append(out, others...)
}

// cursor goes through the common order.
type cursor struct {
	o     *commonOrder
	base  []ranked // what is left of each
	moved []ranked
}

func (o *commonOrder) start() cursor {
	o.settle()
	return cursor{o: o, base: o.base[o.begin:], moved: o.moved}
}

// peek returns the next node, if there is one.
func (c *cursor) peek() (next ranked, ok bool) {
	for len(c.base) > 0 && c.o.has.Get(int(c.base[0].node)) {
		c.base = c.base[1:]
	}
	switch {
	case len(c.base) == 0 && len(c.moved) == 0:
		return ranked{}, false
	case len(c.base) == 0 || len(c.moved) > 0 && compareRanked(c.moved[0], c.base[0]) < 0:
		return c.moved[0], true
	default:
		return c.base[0], true
	}
}

// skip goes past what peek returned.
func (c *cursor) skip(next ranked) {
	if len(c.moved) > 0 && c.moved[0].node == next.node {
		c.moved = c.moved[1:]
	} else {
		c.base = c.base[1:]
	}
}
