package place

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// view is the cluster as it becomes while things are placed. The Cluster below it is never written to.
type view struct {
	c      *Cluster
	states [][]state     // in parts of statesInPart, made where one is looked at
	claims map[int][]int // node → numbers of its claims, ascending
	pools  []*poolState
	lifted map[int]bool     // claims that keep no address any more
	jobs   map[string]int32 // jobs whose tasks are counted node by node beyond Node.PerJob
}

// state is one node in a view.
type state struct {
	base     *Node
	known    bool
	cpu, mem int64            // free
	units    map[string]int64 // free; nil: as base says
	load     uint32           // see load
	tasks    int32
	jobs     []jobCount
	ports    []portUse // taken beyond base, ascending
	freed    []uint16  // taken in base and free here
	first    int32     // where the node's ports begin, as of firstPort, and 1; 0: nobody asked
	next     int       // in the order of ports, no port before this one is free
	capacity amounts
	claimed  []int // numbers of the claims that hold room here
}

type jobCount struct{ job, n int32 }

type portUse struct {
	port   uint16
	holder cluster.TaskID
}

// newView returns a view of c in which the tasks of the given jobs, and of those that claim room, are counted.
func newView(c *Cluster, jobs ...string) *view {
	v := &view{c: c, jobs: make(map[string]int32, len(jobs)+len(c.Claims))}
	for _, j := range jobs {
		v.count(j)
	}
	if len(c.Claims) == 0 {
		return v
	}
	v.claims = make(map[int][]int, len(c.Claims))
	for k := range c.Claims {
		v.count(c.Claims[k].Job)
		v.claims[c.Claims[k].Node] = append(v.claims[c.Claims[k].Node], k)
	}
	return v
}

func (v *view) count(job string) {
	if _, ok := v.jobs[job]; !ok {
		v.jobs[job] = int32(len(v.jobs))
	}
}

// need prepares g, knowing which jobs the view counts.
func (v *view) need(g *Group) *need {
	n := newNeed(g)
	n.pools = v.poolNeeds(&g.Reserve)
	n.alone = v.c.Jobs != nil && v.c.Jobs[g.Job] == 0
	if id, ok := v.jobs[g.Job]; ok {
		n.job = id
	}
	return n
}

// statesInPart is how many states are made at once: a group that is limited to a few nodes needs no room for all.
const statesInPart = 64

// at returns the state of node i, which lasts as long as the view.
func (v *view) at(i int) *state {
	if v.states == nil {
		v.states = make([][]state, (len(v.c.Nodes)+statesInPart-1)/statesInPart)
	}
	part := &v.states[i/statesInPart]
	if *part == nil {
		*part = make([]state, statesInPart)
	}
	st := &(*part)[i%statesInPart]
	if !st.known {
		v.fill(i, st)
	}
	return st
}

// full reports whether it can be seen without making a state of node i, of which there may be many, that n does not fit there. There must be no claims.
func (v *view) full(i int, n *need) bool {
	if v.made(i) {
		return false
	}
	free := &v.c.Nodes[i].Free
	return n.cpu > 0 && n.cpu > free.MilliCPU || n.mem > 0 && n.mem > free.Memory
}

// made reports whether node i has a state.
func (v *view) made(i int) bool {
	if v.states == nil {
		return false
	}
	part := v.states[i/statesInPart]
	return part != nil && part[i%statesInPart].known
}

// fill sets st to node i with the room taken off that claims hold there.
func (v *view) fill(i int, st *state) {
	b := v.c.Nodes[i]
	*st = state{base: b, known: true, cpu: b.Free.MilliCPU, mem: b.Free.Memory, tasks: int32(b.Tasks), jobs: st.jobs[:0], ports: st.ports[:0]}
	st.capacity = amounts{b.Node.Description.Capacity.MilliCPU, b.Node.Description.Capacity.Memory}
	st.reload()
	for _, k := range v.claims[i] {
		v.claim(k, st)
	}
}

// claim takes the room of claim k off st, if it is there.
func (v *view) claim(k int, st *state) {
	if u, need := v.claimUse(k); st.fits(need, st.count(need)) {
		v.hold(k, st, u, need)
	}
}

// reclaim takes the room of claim k again after unclaim, when nothing was placed in between. It does not ask whether the claim fits: its own limit may be below
// what tasks of another version of its job have filled since.
func (v *view) reclaim(k int, st *state) {
	u, need := v.claimUse(k)
	v.hold(k, st, u, need)
}

func (v *view) hold(k int, st *state, u Use, need *need) {
	st.take(u, need.job, v.claimHolder(k))
	st.claimed = append(st.claimed, k)
}

// unclaim gives back the room of claim k, and reports whether the claim held any.
func (v *view) unclaim(k int, st *state) bool {
	at := slices.Index(st.claimed, k)
	if at < 0 {
		return false
	}
	st.claimed = slices.Delete(slices.Clone(st.claimed), at, at+1)
	u, need := v.claimUse(k)
	st.give(u, need.job)
	return true
}

// claimUse returns what claim k needs beyond what the task that makes room still holds.
func (v *view) claimUse(k int) (Use, *need) {
	cl := &v.c.Claims[k]
	want := cl.Reserve
	if cl.Old != nil {
		want.Resources = beyond(want.Resources, cl.Old.Reserve.Resources)
		want.Ports = slices.DeleteFunc(slices.Clone(want.Ports), func(p cluster.Port) bool {
			return slices.ContainsFunc(cl.Old.Placement.Ports, func(g cluster.PortGrant) bool { return g.Number == p.Static })
		})
		want.MaxPerNode = 0
	}
	// Ports of any number are not claimed: which one it will be is not known, and there are many.
	want.Ports = slices.DeleteFunc(slices.Clone(want.Ports), func(p cluster.Port) bool { return p.Static == 0 })
	n := v.need(&Group{Job: cl.Job, Reserve: want})
	u := Use{Node: cl.Node, Job: cl.Job, Resources: want.Resources}
	for _, p := range want.Ports {
		u.Ports = append(u.Ports, cluster.PortGrant{Name: p.Name, Number: p.Static})
	}
	if cl.Old != nil {
		n.job = -1 // the old task is counted, and one is enough
	}
	return u, n
}

// claimHolder stands for the task that will hold what claim k keeps. No turn has revision 0.
func (v *view) claimHolder(k int) cluster.TaskID {
	return cluster.NewTaskID(v.c.Claims[k].Job, v.c.Claims[k].Slot, 0)
}

// beyond returns want - have, nothing being below 0.
func beyond(want, have cluster.Resources) cluster.Resources {
	out := cluster.Resources{MilliCPU: max(0, want.MilliCPU-have.MilliCPU), Memory: max(0, want.Memory-have.Memory)}
	for _, name := range want.UnitNames() {
		if more := want.Units[name] - have.Units[name]; more > 0 {
			if out.Units == nil {
				out.Units = make(map[string]int64, len(want.Units))
			}
			out.Units[name] = more
		}
	}
	return out
}

// count returns how many tasks of n's job are on the node.
func (st *state) count(n *need) int {
	out := 0
	if !n.alone && len(st.base.PerJob) > 0 {
		out = st.base.PerJob[n.g.Job]
	}
	if n.job >= 0 {
		for _, j := range st.jobs {
			if j.job == n.job {
				return out + int(j.n)
			}
		}
	}
	return out
}

func (st *state) add(job, by int32) {
	for k := range st.jobs {
		if st.jobs[k].job == job {
			st.jobs[k].n += by
			return
		}
	}
	st.jobs = append(st.jobs, jobCount{job, by})
}

// holder returns who has a port.
func (st *state) holder(port uint16) (cluster.TaskID, bool) {
	if id, ok := st.base.Ports[port]; ok && !slices.Contains(st.freed, port) {
		return id, true
	}
	if at, ok := st.findPort(port); ok {
		return st.ports[at].holder, true
	}
	return "", false
}

func (st *state) findPort(port uint16) (int, bool) {
	return slices.BinarySearchFunc(st.ports, port, func(p portUse, port uint16) int { return cmp.Compare(p.port, port) })
}

// unit returns how many of a named unit are free.
func (st *state) unit(name string) int64 {
	if st.units != nil {
		return st.units[name]
	}
	return st.base.Free.Units[name]
}

// fits reports whether what n needs is free on the node, where count tasks of its job are.
func (st *state) fits(n *need, count int) bool {
	if n.cpu > 0 && n.cpu > st.cpu || n.mem > 0 && n.mem > st.mem {
		return false
	}
	if limit := n.g.Reserve.MaxPerNode; limit > 0 && count >= limit {
		return false
	}
	for _, u := range n.units {
		if u.amount > st.unit(u.name) {
			return false
		}
	}
	if n.twice != 0 {
		return false
	}
	for _, p := range n.statics {
		if _, taken := st.holder(p); taken {
			return false
		}
	}
	return n.dynamic == 0 || st.dynamicFree(n)
}

// dynamicFree reports whether there are as many free ports as n needs of any number, beside those that it names.
func (st *state) dynamicFree(n *need) bool {
	if len(st.base.Ports)+len(st.ports)+len(n.statics)+n.dynamic <= portCount {
		return true
	}
	left := n.dynamic
	for at := st.next; at < portCount && left > 0; at++ {
		p := st.port(at)
		if _, taken := st.holder(p); !taken && !slices.Contains(n.statics, p) {
			left--
		}
	}
	return left == 0
}

// port returns the node's port at a place in their order.
func (st *state) port(place int) uint16 {
	if st.first == 0 {
		st.first = int32(firstPort(st.base.Node)) + 1
	}
	return portAt(int(st.first)-1, place)
}

// grant picks the ports that n gets, into out: those that it names, and for the others the first that are free. The need must fit.
func (st *state) grant(n *need, out []cluster.PortGrant) {
	at := st.next
	for k, port := range n.g.Reserve.Ports {
		out[k] = cluster.PortGrant{Name: port.Name, Number: port.Static}
		for port.Static == 0 {
			number := st.port(at)
			at++
			if _, taken := st.holder(number); !taken && !slices.Contains(n.statics, number) {
				out[k].Number = number
				break
			}
		}
	}
}

// take puts u on the node.
func (st *state) take(u Use, job int32, holder cluster.TaskID) {
	st.change(u.Resources, -1)
	st.tasks++
	if job >= 0 {
		st.add(job, 1)
	}
	for _, p := range u.Ports {
		at, _ := st.findPort(p.Number)
		st.ports = slices.Insert(st.ports, at, portUse{p.Number, holder})
	}
	if len(u.Ports) > 0 {
		for st.next < portCount {
			if _, taken := st.holder(st.port(st.next)); !taken {
				break
			}
			st.next++
		}
	}
}

// give takes u off the node again, whether it was put there in this view or before it.
func (st *state) give(u Use, job int32) {
	st.change(u.Resources, 1)
	st.tasks--
	if job >= 0 {
		st.add(job, -1)
	}
	for _, p := range u.Ports {
		if at, ok := st.findPort(p.Number); ok {
			st.ports = slices.Delete(st.ports, at, at+1)
		} else if _, ok := st.base.Ports[p.Number]; ok {
			st.freed = append(st.freed, p.Number)
		}
	}
	st.next = 0
}

func (st *state) change(r cluster.Resources, sign int64) {
	st.cpu += sign * r.MilliCPU
	st.mem += sign * r.Memory
	if len(r.Units) > 0 {
		if st.units == nil {
			if st.units = maps.Clone(st.base.Free.Units); st.units == nil {
				st.units = make(map[string]int64, len(r.Units))
			}
		}
		for _, name := range r.UnitNames() {
			st.units[name] += sign * r.Units[name]
		}
	}
	st.reload()
}

func (st *state) reload() { st.load = load(st.capacity, amounts{st.cpu, st.mem}) }

// amounts are those of which a node's load is made.
type amounts struct{ cpu, mem int64 }

// load is the larger share of processors and memory in use, in millionths.
func load(capacity, free amounts) uint32 {
	return max(share(capacity.cpu-free.cpu, capacity.cpu), share(capacity.mem-free.mem, capacity.mem))
}

// maxLoad is the load of a node that is far beyond its capacity.
const maxLoad = 1<<24 - 1

// share returns used / total in millionths, from 0 to maxLoad. Whole numbers keep it the same on every machine.
func share(used, total int64) uint32 {
	if used <= 0 {
		return 0
	}
	if total <= 0 || used/total >= maxLoad/1_000_000 {
		return maxLoad
	}
	hi, lo := bits.Mul64(uint64(used), 1_000_000)
	q, _ := bits.Div64(hi, lo, uint64(total))
	return uint32(q)
}
