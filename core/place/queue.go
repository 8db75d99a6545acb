package place

import (
	"math/bits"
	"slices"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// queue is the nodes that fit one group now, in the order in which the group wants them: the filters' ranks, then the spread blocks, then the strategy, then
// the node's name and id.
//
// Nodes that are alike for the spread blocks share a bucket, where only what is placed on a node moves it. The buckets are a heap whose keys may be stale: a
// branch only fills up, so a stale key is never too late, and the first bucket is looked at again until its key holds.
type queue struct {
	p        *placer
	n        *need
	names    []int // the group's nodes by name, if it is limited; nil: the placer's order counts
	balances []*balance
	steps    map[step]int32 // with several spread blocks, to the numbers of buckets
	buckets  []*bucket      // with one spread block by branch; nil where no node fits, or where a step is not the last
	heap     []*bucket
	grants   []cluster.PortGrant // room for those of the tasks to come
	source   *cursor             // of nodes that are still to come; nil: all that fit are in their buckets
}

// step leads from the branches of the earlier spread blocks to those of one block more.
type step struct {
	block        int
	from, branch int32
}

type bucket struct {
	pile   pile
	branch []int32 // by spread block
	tasks  []int64 // in those branches, when the bucket was last put in its place
	at     int     // in the heap; -1: not in it
}

// newQueue returns the queue of n on the placer's view.
func newQueue(p *placer, n *need) *queue {
	q := &queue{p: p, n: n}
	if p.common != nil && n.isCommon() {
		c := p.common.start()
		q.source, q.buckets = &c, []*bucket{{pile: p.scratch[:0], at: -1}}
		return q
	}
	fitting := p.scratch[:0]
	if n.limited != nil {
		q.names = p.v.c.considered(n.g)
		sortByName(p.v.c.Nodes, q.names)
		for order, i := range q.names {
			if p.v.c.open(i) && n.allows(i) {
				fitting = q.consider(fitting, i, int32(order))
			}
		}
	} else {
		order := p.nameOrder()
		for w, word := range p.openNodes() {
			for k := range n.filters {
				word &= n.filters[k].Allowed.word(w) &^ n.filters[k].Pending.word(w)
			}
			for ; word != 0; word &= word - 1 {
				i := w*64 + bits.TrailingZeros64(word)
				fitting = q.consider(fitting, i, order[i])
			}
		}
	}
	p.scratch = fitting
	q.fill(fitting)
	return q
}

// end gives the room for nodes to the next queue.
func (q *queue) end() {
	if q.source != nil {
		q.p.scratch = q.buckets[0].pile
	}
}

func (q *queue) consider(to pile, i int, order int32) pile {
	st := q.p.v.at(i)
	count := st.count(q.n)
	if !st.fits(q.n, count) {
		return to
	}
	return append(to, q.entry(i, st, count, order))
}

// entry ranks a node. High holds the filters' rank and the main criteria of the strategy, low the rest and the place by name, which is never equal.
func (q *queue) entry(i int, st *state, count int, order int32) entry {
	const most = 1<<24 - 1
	e := entry{node: int32(i), count: int32(count), high: uint64(unranked-max(-1<<14, min(1<<14, q.n.rank(i)))) << 48}
	if q.n.binpack() {
		e.high |= uint64(maxLoad-st.load) << 24
		e.low = uint64(^uint32(st.tasks)) << 32
	} else {
		e.high |= uint64(min(count, most))<<24 | uint64(st.load)
		e.low = uint64(uint32(st.tasks)) << 32
	}
	e.low |= uint64(uint32(order))
	return e
}

// unranked is where in an entry the filters' ranks are, on a node of which they say nothing.
const unranked = 1 << 15

// least is the entry that a node of the common order has at least: that of one without tasks of the job.
func least(r ranked) entry {
	return entry{node: r.node, high: unranked<<48 | uint64(r.load), low: uint64(r.tasks)<<32 | uint64(uint32(r.order))}
}

// again ranks a node anew after its state changed, with as many tasks of the job as e says.
func (q *queue) again(e entry, st *state) entry {
	return q.entry(int(e.node), st, int(e.count), int32(uint32(e.low)))
}

// pull takes nodes from the common order for as long as the next one may be wanted more than all that were taken. It may have tasks of the job, and come later.
func (q *queue) pull() {
	b := q.buckets[0]
	for {
		r, ok := q.source.peek()
		if !ok || len(b.pile) > 0 && b.pile[0].less(least(r)) {
			break
		}
		q.source.skip(r)
		i := int(r.node)
		if !q.n.allows(i) || q.p.v.full(i, q.n) {
			continue
		}
		st := q.p.v.at(i)
		if count := st.count(q.n); st.fits(q.n, count) {
			b.pile.push(q.entry(i, st, count, r.order))
		}
	}
	q.put(b)
}

func (q *queue) fill(fitting pile) {
	if len(q.n.spread()) == 0 || len(fitting) < 2 && len(q.p.claims) == 0 {
		q.buckets = []*bucket{{pile: fitting}}
	} else {
		q.balance(fitting)
		q.share(fitting)
	}
	for _, b := range q.buckets {
		if b != nil {
			b.pile.init()
		}
	}
	q.settle()
}

// share puts nodes into their buckets, whose piles lie behind each other in one array.
func (q *queue) share(fitting pile) {
	of := make([]*bucket, len(fitting))
	for k := range fitting {
		of[k] = q.bucketOf(int(fitting[k].node))
		of[k].at++ // counts its nodes, from -1
	}
	all := make(pile, len(fitting))
	for k, b := range of {
		if b.pile == nil {
			b.pile, all = all[:0:b.at+1], all[b.at+1:]
		}
		b.pile = append(b.pile, fitting[k])
	}
}

// balance counts the job's tasks by the branches of each spread block. Tasks that will not stay where they are, on nodes that are down or drained, do not count.
func (q *queue) balance(fitting pile) {
	for _, s := range q.n.spread() {
		b := q.p.branches(s.Attribute)
		q.balances = append(q.balances, newBalance(b, s, b.usedBy(q.n, q.p.v.c)))
	}
	if len(q.balances) == 1 {
		q.buckets = make([]*bucket, len(q.balances[0].values))
	} else {
		q.steps = map[step]int32{}
	}
	rest := slices.Clone(q.p.stayingNodes())
	for k := range fitting {
		rest.Clear(int(fitting[k].node))
		q.fillUp(int(fitting[k].node), int64(fitting[k].count))
	}
	for i := range rest.All() {
		if count := q.p.v.at(i).count(q.n); count != 0 {
			q.fillUp(i, int64(count))
		}
	}
}

func (q *queue) fillUp(i int, by int64) {
	for _, b := range q.balances {
		b.tasks[b.of[i]] += by
	}
}

// bucketOf returns the bucket of a node, making it if it is the first of its kind.
func (q *queue) bucketOf(i int) *bucket {
	if len(q.balances) == 0 {
		return q.buckets[0]
	}
	id := q.balances[0].of[i]
	if len(q.balances) > 1 {
		id = q.walk(i)
	}
	if q.buckets[id] == nil {
		made := &bucket{branch: make([]int32, len(q.balances)), tasks: make([]int64, len(q.balances)), at: -1}
		for k, b := range q.balances {
			made.branch[k] = b.of[i]
		}
		q.buckets[id] = made
	}
	return q.buckets[id]
}

// walk returns the number of the bucket of a node by its branches in several spread blocks.
func (q *queue) walk(i int) int32 {
	id := int32(-1)
	for k, b := range q.balances {
		key := step{k, id, b.of[i]}
		next, ok := q.steps[key]
		if !ok {
			next = int32(len(q.steps))
			q.steps[key] = next
			q.buckets = append(q.buckets, nil)
		}
		id = next
	}
	return id
}

// settle puts all buckets in their places.
func (q *queue) settle() {
	q.heap = q.heap[:0]
	for _, b := range q.buckets {
		if b == nil {
			continue
		}
		if b.at = -1; len(b.pile) > 0 {
			q.put(b)
		}
	}
}

// first returns the bucket whose first node is wanted most, or nil if no node fits.
func (q *queue) first() *bucket {
	if q.source != nil {
		q.pull()
	}
	for len(q.heap) > 0 {
		if b := q.heap[0]; !q.refresh(b) {
			return b
		}
		q.down(0)
	}
	return nil
}

// put puts b in its place after its nodes changed.
func (q *queue) put(b *bucket) {
	q.refresh(b)
	switch {
	case len(b.pile) == 0 && b.at >= 0:
		last := len(q.heap) - 1
		at, moved := b.at, q.heap[last]
		q.heap = q.heap[:last]
		if b.at = -1; moved != b {
			q.heap[at] = moved
			moved.at = at
			q.down(at)
			q.up(moved.at)
		}
	case len(b.pile) == 0:
	case b.at < 0:
		b.at = len(q.heap)
		q.heap = append(q.heap, b)
		q.up(b.at)
	default:
		q.down(b.at)
		q.up(b.at)
	}
}

// refresh brings b's key up to date and reports whether it was stale.
func (q *queue) refresh(b *bucket) bool {
	stale := false
	for k, bal := range q.balances {
		if now := bal.tasks[b.branch[k]]; now != b.tasks[k] {
			b.tasks[k], stale = now, true
		}
	}
	return stale
}

func (q *queue) less(a, b *bucket) bool {
	x, y := a.pile[0], b.pile[0]
	if x.high>>48 != y.high>>48 {
		return x.high < y.high
	}
	for k, bal := range q.balances {
		if c := bal.compare(a.branch[k], b.branch[k], a.tasks[k], b.tasks[k]); c != 0 {
			return c < 0
		}
	}
	return x.less(y)
}

func (q *queue) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(q.heap); child++ {
			if q.less(q.heap[child], q.heap[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		q.swap(i, least)
		i = least
	}
}

func (q *queue) up(i int) {
	for i > 0 && q.less(q.heap[i], q.heap[(i-1)/2]) {
		q.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (q *queue) swap(i, j int) {
	q.heap[i], q.heap[j] = q.heap[j], q.heap[i]
	q.heap[i].at, q.heap[j].at = i, j
}
