package place

import (
	"slices"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Result is what Place decided.
type Result struct {
	Placements []Placement // by group, in the order in which groups are placed; within a group in the order of its tasks
	Stalled    []Stalled   // in the same order
}

// Placement gives a task its node.
type Placement struct {
	Task  cluster.TaskID
	Node  int                 // index
	Ports []cluster.PortGrant // in the order in which the task asks for them

	Addresses []cluster.AddressGrant // in the same order
}

// Stalled is a group of which tasks are left that no node can take.
type Stalled struct {
	Key      string
	Waiting  []cluster.TaskID // in the order of the group's tasks
	Standing Standing         // each node's first reason, once everything was placed
}

// Place puts the tasks of groups on nodes: groups with higher priority first, then those with the oldest task, then by key; tasks of a group as they come. What
// is placed counts for all that follows. What is stalled is explained by how things stand at the end.
func Place(c Cluster, groups []Group) Result {
	if c.Ranking != nil {
		return place(c, groups, 1)
	}
	return place(c, groups, commonGroups)
}

func place(c Cluster, groups []Group, few int) Result {
	p := newPlacer(&c, groups)
	tasks := 0
	needs := make([]*need, len(groups))
	for k := range groups {
		needs[k] = p.v.need(&groups[k])
		tasks += len(groups[k].Tasks)
	}
	slices.SortStableFunc(needs, before)
	p.orderIfPays(needs, few)
	done := make([][]Placement, len(needs))
	waiting := make([][]*cluster.Task, len(needs))
	all := make([]Placement, 0, tasks) // of which each group's are a part
	for k, n := range needs {
		at := len(all)
		all, waiting[k] = p.group(n, all, n.g.Tasks)
		done[k] = all[at:len(all):len(all)]
	}
	again := p.released
	// A task that was placed gave up its claim. What is left of that room may be what an earlier task waits for.
	for p.released {
		p.released = false
		for k, n := range needs {
			done[k], waiting[k] = p.group(n, done[k], waiting[k])
		}
	}
	out := Result{Placements: all}
	if again {
		out.Placements = slices.Concat(done...)
	}
	for k, n := range needs {
		if len(waiting[k]) > 0 {
			out.Stalled = append(out.Stalled, Stalled{Key: n.g.Key, Waiting: ids(waiting[k]), Standing: stand(p.v, n)})
		}
	}
	return out
}

func ids(tasks []*cluster.Task) []cluster.TaskID {
	out := make([]cluster.TaskID, len(tasks))
	for k, t := range tasks {
		out[k] = t.ID
	}
	return out
}

// placer is one call of Place.
type placer struct {
	v        *view
	order    []int32
	opened   Bitmap
	staying  Bitmap
	values   map[string]*branches // by attribute
	claims   map[claimant]int     // numbers of the claims
	released bool
	scratch  pile
	common   *commonOrder // nil: it does not pay
}

type claimant struct {
	job  string
	slot cluster.SlotKey
}

func newPlacer(c *Cluster, groups []Group) *placer {
	seen, counted := make(map[string]bool, len(groups)), []string(nil)
	for k := range groups {
		job := groups[k].Job
		if seen[job] || groups[k].Reserve.MaxPerNode > 0 {
			counted = append(counted, job)
		}
		seen[job] = true
	}
	p := &placer{v: newView(c, counted...), order: c.Order}
	if len(c.Claims) > 0 {
		p.claims = make(map[claimant]int, len(c.Claims))
		for k := range c.Claims {
			p.claims[claimant{c.Claims[k].Job, c.Claims[k].Slot}] = k
		}
	}
	return p
}

func (p *placer) nameOrder() []int32 {
	if len(p.order) < len(p.v.c.Nodes) {
		p.order = NameOrder(p.v.c.Nodes)
	}
	return p.order
}

// openNodes returns the nodes on which something new may be placed, as far as they themselves are concerned.
func (p *placer) openNodes() Bitmap {
	if p.v.c.Open != nil {
		return p.v.c.Open
	}
	if p.opened == nil {
		p.opened = NewBitmap(len(p.v.c.Nodes))
		for i := range p.v.c.Nodes {
			if p.v.c.open(i) {
				p.opened.Set(i)
			}
		}
	}
	return p.opened
}

// stayingNodes returns the nodes whose tasks can be expected to stay there.
func (p *placer) stayingNodes() Bitmap {
	if p.staying == nil {
		p.staying = NewBitmap(len(p.v.c.Nodes))
		for i := range p.v.c.Nodes {
			if p.v.c.stays(i) {
				p.staying.Set(i)
			}
		}
	}
	return p.staying
}

func (p *placer) branches(attribute string) *branches {
	if p.values == nil {
		p.values = map[string]*branches{}
	}
	b := p.values[attribute]
	if b == nil {
		b = newBranches(p.v.c, attribute)
		p.values[attribute] = b
	}
	return b
}

// group places tasks of n, appending to done, and returns those that are left.
func (p *placer) group(n *need, done []Placement, tasks []*cluster.Task) ([]Placement, []*cluster.Task) {
	if len(tasks) == 0 {
		return done, nil
	}
	q := newQueue(p, n)
	defer q.end()
	var left []*cluster.Task
	for k, t := range tasks {
		claim, claimed := p.lift(q, t)
		kept, keeps := p.liftPools(n, t)
		if node, ports, ok := q.next(t); ok {
			done = append(done, Placement{Task: t.ID, Node: node, Ports: ports, Addresses: n.grantAddresses()})
			p.released = p.released || claimed || keeps
			continue
		}
		if claimed {
			p.restore(q, claim)
		}
		if keeps {
			p.v.restorePools(kept)
		}
		left = append(left, t)
		if len(p.claims) == 0 { // no other task of the group will find more
			left = append(left, tasks[k+1:]...)
			break
		}
	}
	return done, left
}

// lift gives back to t the room that is claimed for its slot, if any is.
func (p *placer) lift(q *queue, t *cluster.Task) (claim int, ok bool) {
	if len(p.claims) == 0 {
		return 0, false
	}
	claim, ok = p.claims[claimant{t.Job, t.Slot}]
	if !ok {
		return 0, false
	}
	node := p.v.c.Claims[claim].Node
	if node < 0 || node >= len(p.v.c.Nodes) || p.v.c.Nodes[node] == nil {
		return 0, false
	}
	st := p.v.at(node)
	before := st.count(q.n)
	if !p.v.unclaim(claim, st) {
		return 0, false
	}
	q.changed(node, st.count(q.n)-before)
	return claim, true
}

// liftPools gives back to t the addresses that are claimed for its slot, if any are.
func (p *placer) liftPools(n *need, t *cluster.Task) (claim int, ok bool) {
	if len(n.pools) == 0 {
		return 0, false
	}
	claim, ok = p.claims[claimant{t.Job, t.Slot}]
	return claim, ok && p.v.liftPools(claim)
}

// restore keeps the room of a claim again, after its task was not placed.
func (p *placer) restore(q *queue, claim int) {
	node := p.v.c.Claims[claim].Node
	st := p.v.at(node)
	before := st.count(q.n)
	p.v.reclaim(claim, st)
	q.changed(node, st.count(q.n)-before)
}

// next takes the node that t should have off the queue's room and returns it, with the ports that t gets there.
func (q *queue) next(t *cluster.Task) (node int, ports []cluster.PortGrant, ok bool) {
	b := q.first()
	if b == nil || !q.n.poolsFit() {
		return 0, nil, false
	}
	if t.Avoid == "" || q.p.v.c.Nodes[b.pile[0].node].Node.ID != t.Avoid {
		node, ports = q.take(b, t)
		return node, ports, true
	}
	avoided := b.pile[0]
	b.pile.remove(0)
	q.put(b)
	if other := q.first(); other != nil {
		node, ports = q.take(other, t)
		b.pile.push(avoided)
		q.put(b)
		return node, ports, true
	}
	b.pile.push(avoided)
	q.put(b)
	node, ports = q.take(b, t)
	return node, ports, true
}

// take puts t on the first node of b.
func (q *queue) take(b *bucket, t *cluster.Task) (int, []cluster.PortGrant) {
	e := b.pile[0]
	st := q.p.v.at(int(e.node))
	ports := q.grant(st)
	st.take(Use{Resources: q.n.g.Reserve.Resources, Ports: ports}, q.n.job, t.ID)
	if q.p.common != nil {
		q.p.common.changed(int(e.node))
	}
	e.count++
	if len(q.balances) > 0 && q.p.v.c.stays(int(e.node)) {
		q.fillUp(int(e.node), 1)
	}
	if st.fits(q.n, int(e.count)) {
		b.pile[0] = q.again(e, st)
		b.pile.down(0)
	} else {
		b.pile.remove(0)
	}
	q.put(b)
	return int(e.node), ports
}

// grant picks the ports that a task gets on a node. Those of many tasks share an array.
func (q *queue) grant(st *state) []cluster.PortGrant {
	ports := len(q.n.g.Reserve.Ports)
	if ports == 0 {
		return nil
	}
	if len(q.grants) < ports {
		q.grants = make([]cluster.PortGrant, ports*min(64, len(q.n.g.Tasks)))
	}
	out := q.grants[:ports:ports]
	q.grants = q.grants[ports:]
	st.grant(q.n, out)
	return out
}

// changed puts node i in its place after a claim there was given back or taken, and by tasks of the job more are counted there.
func (q *queue) changed(i, by int) {
	if q.p.v.c.stays(i) {
		q.fillUp(i, int64(by))
	}
	if q.p.v.c.open(i) && q.n.allows(i) && (q.names == nil || slices.Contains(q.names, i)) {
		b := q.bucketOf(i)
		if at := b.pile.find(i); at >= 0 {
			b.pile.remove(at)
		}
		var order int32
		if q.names == nil {
			order = q.p.nameOrder()[i]
		} else {
			order = int32(slices.Index(q.names, i))
		}
		single := q.consider(nil, i, order)
		if len(single) > 0 {
			b.pile.push(single[0])
		}
	}
	q.settle()
}
