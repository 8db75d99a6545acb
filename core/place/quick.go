package place

import (
	"slices"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Many groups of a task or two each would each put all nodes in order. Where the order of nodes is the same for all of them but for a job's own tasks, one order
// serves them all: the first node in it that takes a task is the one that the group's own queue would have at its head. Where the order is kept between calls,
// it serves one group as well, which then looks at a few nodes instead of all.

// Limits of what is placed so.
const (
	quickTasks  = 64  // that a group may have
	quickGroups = 4   // so many groups at least, or putting the nodes in order does not pay
	quickOthers = 256 // tasks of other groups for each of them, at most
)

// quickOrder is the open nodes in the order of their load, for spreading: as they were before the call, and beside them those that moved since.
type quickOrder struct {
	p     *placer
	base  []ranked // not changed
	begin int      // nodes of base before this one moved
	moved []ranked // in order
	has   Bitmap   // the nodes that moved
}

func newQuickOrder(p *placer) *quickOrder {
	c := p.v.c
	r := c.Ranking
	if r == nil {
		with := *c
		with.Order, with.Open = p.nameOrder(), p.openNodes()
		r = &Ranking{}
		r.Refresh(&with)
	}
	return &quickOrder{p: p, base: r.nodes, has: NewBitmap(len(c.Nodes))}
}

func rankedBy(st *state, order, node int32) ranked {
	return ranked{load: st.load, tasks: uint32(st.tasks), order: order, node: node}
}

// isQuick reports whether a group can be placed by the common order.
func (n *need) isQuick() bool {
	return n.limited == nil && !n.binpack() && len(n.spread()) == 0 && len(n.g.Tasks) <= quickTasks && len(n.g.Tasks) > 0 &&
		!slices.ContainsFunc(n.filters, func(f Filter) bool { return len(f.Ranks) > 0 })
}

// orderIfPays puts the nodes in the common order if there are that many groups for it. Room that is kept for some would make it another one for each. Every task that
// is placed moves a node in it, also those of other groups: if these are many, orders of their own for the few cost less.
func (p *placer) orderIfPays(needs []*need, few int) {
	if len(p.claims) > 0 {
		return
	}
	count, others := 0, 0
	for _, n := range needs {
		if n.isQuick() {
			count++
		} else {
			others += len(n.g.Tasks)
		}
	}
	if count >= few && others <= count*quickOthers {
		p.quick = newQuickOrder(p)
	}
}

// place places tasks of n for as long as the first node that takes one is known to be the group's first, and returns those that are left.
func (q *quickOrder) place(n *need, done []Placement, tasks []*cluster.Task) ([]Placement, []*cluster.Task) {
	grants := &queue{p: q.p, n: n}
	for k, t := range tasks {
		before, ok := q.find(n, t)
		if !ok || !n.poolsFit() {
			return done, tasks[k:]
		}
		i := int(before.node)
		st := q.p.v.at(i)
		ports := grants.grant(st)
		st.take(Use{Resources: n.g.Reserve.Resources, Ports: ports}, n.job, t.ID)
		q.move(before, st)
		done = append(done, Placement{Task: t.ID, Node: i, Ports: ports, Addresses: n.grantAddresses()})
	}
	return done, nil
}

// find returns the first node that takes t and has no task of its job yet, if it is among the first that are looked at.
func (q *quickOrder) find(n *need, t *cluster.Task) (ranked, bool) {
	at, moved := q.begin, q.moved
	for range 64 + len(q.base)/8 {
		for at < len(q.base) && q.has.Get(int(q.base[at].node)) {
			at++
		}
		var next ranked
		switch {
		case at == len(q.base) && len(moved) == 0:
			return ranked{}, false
		case at == len(q.base) || len(moved) > 0 && compareRanked(moved[0], q.base[at]) < 0:
			next, moved = moved[0], moved[1:]
		default:
			next = q.base[at]
			at++
		}
		if q.takes(n, t, int(next.node)) {
			return next, true
		}
	}
	return ranked{}, false
}

func (q *quickOrder) takes(n *need, t *cluster.Task, i int) bool {
	node := q.p.v.c.Nodes[i]
	if !n.allows(i) || t.Avoid != "" && node.Node.ID == t.Avoid {
		return false
	}
	if !q.has.Get(i) && (n.cpu > 0 && n.cpu > node.Free.MilliCPU || n.mem > 0 && n.mem > node.Free.Memory) {
		return false // without a state of its own, of which there may be many
	}
	st := q.p.v.at(i)
	return st.count(n) == 0 && st.fits(n, 0)
}

// move puts a node in its place after its state changed. It was before.
func (q *quickOrder) move(before ranked, st *state) {
	i := int(before.node)
	if q.has.Get(i) {
		from, _ := slices.BinarySearchFunc(q.moved, before, compareRanked)
		q.moved = slices.Delete(q.moved, from, from+1)
	}
	now := rankedBy(st, before.order, before.node)
	to, _ := slices.BinarySearchFunc(q.moved, now, compareRanked)
	q.moved = slices.Insert(q.moved, to, now)
	q.has.Set(i)
	for q.begin < len(q.base) && q.has.Get(int(q.base[q.begin].node)) {
		q.begin++
	}
}
