package place

import (
	"cmp"
	"slices"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Many groups of a task or two each would each put all nodes in order. Where the order of nodes is the same for all of them but for a job's own tasks, one order
// serves them all: the first node in it that takes a task is the one that the group's own queue would have at its head.

// Limits of what is placed so.
const (
	quickTasks  = 4 // that a group may have
	quickGroups = 4 // so many groups at least, or putting the nodes in order does not pay
)

// ranked is a node in the order of its load, the most wanted first.
type ranked struct {
	load, tasks uint32
	order       int32
	node        int32
}

func compareRanked(a, b ranked) int {
	return cmp.Or(cmp.Compare(a.load, b.load), cmp.Compare(a.tasks, b.tasks), cmp.Compare(a.order, b.order))
}

// quickOrder is the open nodes in the order of their load, for spreading.
type quickOrder struct {
	p     *placer
	nodes []ranked
}

func newQuickOrder(p *placer) *quickOrder {
	out := &quickOrder{p: p}
	order := p.nameOrder()
	for i := range p.openNodes().All() {
		out.nodes = append(out.nodes, rankedBy(p.v.at(i), order[i], int32(i)))
	}
	slices.SortFunc(out.nodes, compareRanked)
	return out
}

func rankedBy(st *state, order, node int32) ranked {
	return ranked{load: st.load, tasks: uint32(st.tasks), order: order, node: node}
}

// isQuick reports whether a group can be placed by the common order.
func (n *need) isQuick() bool {
	return n.limited == nil && !n.binpack() && len(n.spread()) == 0 && len(n.g.Tasks) <= quickTasks && len(n.g.Tasks) > 0 &&
		!slices.ContainsFunc(n.filters, func(f Filter) bool { return len(f.Ranks) > 0 })
}

// orderIfPays puts the nodes in the common order if there are that many groups for it. Room that is kept for some would make it another one for each.
func (p *placer) orderIfPays(needs []*need, few int) {
	if len(p.claims) > 0 {
		return
	}
	count := 0
	for _, n := range needs {
		if n.isQuick() {
			count++
		}
	}
	if count >= few {
		p.quick = newQuickOrder(p)
	}
}

// place places tasks of n for as long as the first node that takes one is known to be the group's first, and returns those that are left.
func (q *quickOrder) place(n *need, done []Placement, tasks []*cluster.Task) ([]Placement, []*cluster.Task) {
	grants := &queue{p: q.p, n: n}
	for k, t := range tasks {
		at := q.find(n, t)
		if at < 0 || !n.poolsFit() {
			return done, tasks[k:]
		}
		i := int(q.nodes[at].node)
		st := q.p.v.at(i)
		before := q.nodes[at]
		ports := grants.grant(st)
		st.take(Use{Resources: n.g.Reserve.Resources, Ports: ports}, n.job, t.ID)
		q.moved(before, st)
		done = append(done, Placement{Task: t.ID, Node: i, Ports: ports, Addresses: n.grantAddresses()})
	}
	return done, nil
}

// find returns the place of the first node that takes t and has no task of its job yet; -1 if it is not among the first that are looked at.
func (q *quickOrder) find(n *need, t *cluster.Task) int {
	for at := range min(len(q.nodes), 64+len(q.nodes)/8) {
		i := int(q.nodes[at].node)
		if !n.allows(i) || t.Avoid != "" && q.p.v.c.Nodes[i].Node.ID == t.Avoid {
			continue
		}
		if st := q.p.v.at(i); st.count(n) == 0 && st.fits(n, 0) {
			return at
		}
	}
	return -1
}

// moved puts a node in its place after its state changed.
func (q *quickOrder) moved(before ranked, st *state) {
	from, ok := slices.BinarySearchFunc(q.nodes, before, compareRanked)
	if !ok {
		return // it is not open
	}
	now := rankedBy(st, before.order, before.node)
	to, _ := slices.BinarySearchFunc(q.nodes, now, compareRanked)
	if to > from {
		to--
		copy(q.nodes[from:to], q.nodes[from+1:to+1])
	} else {
		copy(q.nodes[to+1:from+1], q.nodes[to:from])
	}
	q.nodes[to] = now
}
