package place

import "github.com/setpointd/setpoint/sdk/cluster"

// Better reports whether a task of g that takes what leaving says would be placed on another node than its own now, and on which: one that filters rank higher,
// that is further behind in a spread block, or, unless the group packs nodes, that has fewer tasks of the job. Nodes that differ in how full they are alone are
// as good as each other. A task whose own node takes nothing new, or does not allow it, is not told to go.
func Better(c Cluster, g Group, leaving Use) (node int, ok bool) {
	from := leaving.Node
	if !c.present(from) {
		return 0, false
	}
	p := newPlacer(&c, []Group{g, {Job: g.Job}}) // two of a job, so that its tasks are counted
	p.v.at(from).give(leaving, p.v.jobs[g.Job])
	n := p.v.need(&g)
	if g.Spec == nil || g.Spec.Update.Order != cluster.StartFirst {
		p.v.giveAddresses(leaving.Addresses)
	}
	if !n.poolsFit() {
		return 0, false
	}
	q := newQueue(p, n)
	best := q.first()
	if best == nil || int(best.pile[0].node) == from {
		return 0, false
	}
	own := q.bucketOf(from)
	at := own.pile.find(from)
	if at < 0 {
		return 0, false
	}
	first, stay := best.pile[0], own.pile[at]
	return int(first.node), q.prefers(best, own, first, stay)
}

// prefers reports whether there is more in favour of x, of bucket a, than of y, of bucket b, than that its node is less full.
func (q *queue) prefers(a, b *bucket, x, y entry) bool {
	if x.high>>48 != y.high>>48 {
		return x.high < y.high
	}
	for k, bal := range q.balances {
		if c := bal.compare(a.branch[k], b.branch[k], bal.tasks[a.branch[k]], bal.tasks[b.branch[k]]); c != 0 {
			return c < 0
		}
	}
	return !q.n.binpack() && x.count < y.count
}
