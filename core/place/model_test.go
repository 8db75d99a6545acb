package place

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// model is placing written the plain way: every task looks at every node, and every node is compared with every other by the rules as they are worded.
type model struct {
	c     Cluster
	nodes []*modelNode
	freed bool
}

type modelNode struct {
	*Node
	free   cluster.Resources
	tasks  int
	perJob map[string]int
	ports  map[uint16]cluster.TaskID
	claims []int
}

func newModel(c Cluster) *model {
	m := &model{c: c, nodes: make([]*modelNode, len(c.Nodes))}
	for i, n := range c.Nodes {
		if n != nil {
			m.nodes[i] = &modelNode{Node: n, free: n.Free, tasks: n.Tasks, perJob: maps.Clone(n.PerJob), ports: maps.Clone(n.Ports)}
			if m.nodes[i].perJob == nil {
				m.nodes[i].perJob = map[string]int{}
			}
			if m.nodes[i].ports == nil {
				m.nodes[i].ports = map[uint16]cluster.TaskID{}
			}
		}
	}
	for k, cl := range c.Claims {
		if m.nodes[cl.Node] != nil {
			m.claim(k)
		}
	}
	return m
}

// net is what a claim needs beyond what its old task holds.
func (m *model) net(k int) (cluster.Resources, []uint16, int) {
	cl := m.c.Claims[k]
	r, one := cl.Reserve.Resources, 1
	var ports []uint16
	for _, p := range cl.Reserve.Ports {
		if p.Static != 0 {
			ports = append(ports, p.Static)
		}
	}
	if cl.Old != nil {
		one = 0
		old := cl.Old.Reserve.Resources
		r = cluster.Resources{MilliCPU: max(0, r.MilliCPU-old.MilliCPU), Memory: max(0, r.Memory-old.Memory), Units: maps.Clone(r.Units)}
		for u := range r.Units {
			r.Units[u] = max(0, r.Units[u]-old.Units[u])
		}
		ports = slices.DeleteFunc(ports, func(p uint16) bool {
			return slices.ContainsFunc(cl.Old.Placement.Ports, func(g cluster.PortGrant) bool { return g.Number == p })
		})
	}
	return r, ports, one
}

func (m *model) claim(k int) {
	cl := m.c.Claims[k]
	n := m.nodes[cl.Node]
	r, ports, one := m.net(k)
	if !n.free.Fits(r) || one > 0 && cl.Reserve.MaxPerNode > 0 && n.perJob[cl.Job] >= cl.Reserve.MaxPerNode {
		return
	}
	for k, p := range ports {
		if _, taken := n.ports[p]; taken || slices.Contains(ports[:k], p) {
			return
		}
	}
	m.hold(k)
}

func (m *model) hold(k int) {
	cl := m.c.Claims[k]
	n := m.nodes[cl.Node]
	r, ports, one := m.net(k)
	n.claims = append(n.claims, k)
	n.free, n.tasks = n.free.Sub(r), n.tasks+1
	n.perJob[cl.Job] += one
	for _, p := range ports {
		n.ports[p] = cluster.NewTaskID(cl.Job, cl.Slot, 0)
	}
}

func (m *model) unclaim(k int) {
	cl := m.c.Claims[k]
	n := m.nodes[cl.Node]
	r, ports, one := m.net(k)
	n.claims = slices.DeleteFunc(n.claims, func(c int) bool { return c == k })
	n.free, n.tasks = n.free.Add(r), n.tasks-1
	n.perJob[cl.Job] -= one
	for _, p := range ports {
		delete(n.ports, p)
	}
}

// exclusion is the first reason of a node, worked out from the words of the design; ok if there is none.
func (m *model) exclusion(g *Group, i int) (e cluster.Exclusion, ok bool) {
	n := m.nodes[i]
	e.Source = "core"
	switch {
	case n.Node.Node.Status.State == cluster.NodeDown:
		e.Code = cluster.CodeNodeDown
	case n.Node.Node.Status.State == cluster.NodeSilent:
		e.Code = cluster.CodeNodeSilent
	case n.Node.Node.Spec.Availability == cluster.Pause:
		e.Code = cluster.CodeNodePaused
	case n.Node.Node.Spec.Availability == cluster.Drain:
		e.Code = cluster.CodeNodeDraining
	case n.Blocked != "":
		e.Code, e.Detail = cluster.CodeWaitingForAgent, n.Blocked
	}
	if e.Code != "" {
		return e, false
	}
	for _, f := range g.Filters {
		e.Source = f.Name
		if f.Pending.Get(i) {
			e.Code, e.Detail = cmp.Or(f.Away, cluster.CodePluginPending), f.Detail
			return e, false
		}
		if !f.Allowed.Get(i) {
			e.Code, e.Detail = f.Reason(i)
			return e, false
		}
	}
	e.Source = "core"
	if lacking := n.free.Lacking(g.Reserve.Resources); len(lacking) > 0 {
		e.Code, e.Detail = cluster.CodeInsufficientResources, lacking[0]
		return e, false
	}
	var statics []uint16
	dynamic := 0
	for _, p := range g.Reserve.Ports {
		if p.Static == 0 {
			dynamic++
		} else {
			statics = append(statics, p.Static)
		}
	}
	slices.Sort(statics)
	for k, p := range statics {
		if _, taken := n.ports[p]; taken || slices.Contains(statics[k+1:], p) {
			e.Code, e.Detail = cluster.CodePortTaken, strconv.Itoa(int(p))
			return e, false
		}
	}
	for p := FirstPort; p <= LastPort && dynamic > 0; p++ {
		if _, taken := n.ports[p]; !taken && !slices.Contains(statics, p) {
			dynamic--
		}
	}
	if dynamic > 0 {
		e.Code, e.Detail = cluster.CodePortTaken, DetailDynamic
		return e, false
	}
	if limit := g.Reserve.MaxPerNode; limit > 0 && n.perJob[g.Job] >= limit {
		e.Code = cluster.CodeOnePerNode
		return e, false
	}
	return cluster.Exclusion{}, true
}

func (m *model) considered(g *Group) []int {
	var out []int
	for i, n := range m.nodes {
		if n != nil && !n.Node.Node.Spec.Decommissioned && (g.Nodes == nil || slices.Contains(g.Nodes, i)) {
			out = append(out, i)
		}
	}
	return out
}

// compare orders two nodes for a task: negative if i is wanted more than j.
func (m *model) compare(g *Group, t *cluster.Task, i, j int) int {
	a, b := m.nodes[i], m.nodes[j]
	avoid := func(n *modelNode) int {
		if t.Avoid != "" && n.Node.Node.ID == t.Avoid {
			return 1
		}
		return 0
	}
	rank := func(i int) (sum int) {
		for _, f := range g.Filters {
			if i < len(f.Ranks) {
				sum += int(f.Ranks[i])
			}
		}
		return sum
	}
	if c := cmp.Or(cmp.Compare(avoid(a), avoid(b)), cmp.Compare(rank(j), rank(i))); c != 0 {
		return c
	}
	for _, s := range g.Spec.Spread {
		x, xLast := m.fullness(g, s, i)
		y, yLast := m.fullness(g, s, j)
		if xLast != yLast {
			return cmp.Compare(fmt.Sprint(xLast), fmt.Sprint(yLast)) // false before true
		}
		if c := x.Cmp(y); c != 0 {
			return c
		}
	}
	load := func(n *modelNode) int64 {
		capacity, out := n.Node.Node.Description.Capacity, int64(0)
		for _, x := range [][2]int64{{capacity.MilliCPU - n.free.MilliCPU, capacity.MilliCPU}, {capacity.Memory - n.free.Memory, capacity.Memory}} {
			switch {
			case x[0] <= 0:
			case x[1] <= 0:
				out = maxLoad
			default:
				out = max(out, min(maxLoad, x[0]*1_000_000/x[1]))
			}
		}
		return out
	}
	byName := cmp.Or(cmp.Compare(a.Node.Node.Spec.Name, b.Node.Node.Spec.Name), cmp.Compare(a.Node.Node.ID, b.Node.Node.ID))
	if g.Spec.Strategy == cluster.StrategyBinpack {
		return cmp.Or(cmp.Compare(load(b), load(a)), cmp.Compare(b.tasks, a.tasks), byName)
	}
	return cmp.Or(cmp.Compare(a.perJob[g.Job], b.perJob[g.Job]), cmp.Compare(load(a), load(b)), cmp.Compare(a.tasks, b.tasks), byName)
}

// fullness is (tasks + 1/2) / share of the branch of node i, and whether the branch has no share at all.
func (m *model) fullness(g *Group, s cluster.Spread, i int) (*big.Rat, bool) {
	value := func(n *modelNode) string {
		v, has := attribute(n.Node.Node, s.Attribute)
		return fmt.Sprint(has, v)
	}
	mine, tasks := value(m.nodes[i]), 0
	others := map[string]bool{}
	share := map[string]*big.Rat{}
	rest := 100
	for _, t := range s.Targets {
		share["true"+t.Value] = big.NewRat(int64(t.Percent), 1)
		rest -= t.Percent
	}
	for k, n := range m.nodes {
		if n == nil || n.Node.Node.Spec.Decommissioned {
			continue
		}
		v := value(n)
		if share[v] == nil && slices.Contains(m.considered(g), k) {
			others[v] = true
		}
		if v == mine && n.Node.Node.Status.State != cluster.NodeDown && n.Node.Node.Spec.Availability != cluster.Drain {
			tasks += n.perJob[g.Job]
		}
	}
	part := share[mine]
	if part == nil {
		part = big.NewRat(int64(max(0, rest)), int64(len(others)))
	}
	if part.Sign() == 0 {
		return big.NewRat(int64(2*tasks+1), 2), true
	}
	return new(big.Rat).Quo(big.NewRat(int64(2*tasks+1), 2), part), false
}

// task places one task and reports whether a node took it.
func (m *model) task(g *Group, t *cluster.Task, out *Result) bool {
	claim := slices.IndexFunc(m.c.Claims, func(cl Claim) bool { return cl.Job == t.Job && cl.Slot == t.Slot })
	held := claim >= 0 && m.nodes[m.c.Claims[claim].Node] != nil && slices.Contains(m.nodes[m.c.Claims[claim].Node].claims, claim)
	if held {
		m.unclaim(claim)
	}
	best := -1
	for _, i := range m.considered(g) {
		if _, ok := m.exclusion(g, i); ok && (best < 0 || m.compare(g, t, i, best) < 0) {
			best = i
		}
	}
	if best < 0 {
		if held {
			m.hold(claim)
		}
		return false
	}
	m.freed = m.freed || held
	n, p := m.nodes[best], Placement{Task: t.ID, Node: best}
	used := map[uint16]bool{}
	for _, port := range g.Reserve.Ports {
		used[port.Static] = true
	}
	for _, port := range g.Reserve.Ports {
		number := port.Static
		for at := 0; number == 0; at++ {
			free := portAt(firstPort(n.Node.Node), at)
			if _, taken := n.ports[free]; !taken && !used[free] {
				number, used[free] = free, true
			}
		}
		p.Ports = append(p.Ports, cluster.PortGrant{Name: port.Name, Number: number})
	}
	for _, port := range p.Ports {
		n.ports[port.Number] = t.ID
	}
	n.free = n.free.Sub(g.Reserve.Resources)
	n.tasks++
	n.perJob[g.Job]++
	out.Placements = append(out.Placements, p)
	return true
}

// facts counts the first reasons of a group.
func (m *model) facts(g *Group) (cluster.Facts, int) {
	out, fits := cluster.Facts{}, 0
	for _, i := range m.considered(g) {
		out.Nodes++
		e, ok := m.exclusion(g, i)
		if ok {
			fits++
			continue
		}
		e.Count = 1
		if k := slices.IndexFunc(out.Excluded, func(x cluster.Exclusion) bool { x.Count = 1; return x == e }); k >= 0 {
			out.Excluded[k].Count++
		} else {
			out.Excluded = append(out.Excluded, e)
		}
	}
	return out, fits
}

type modelStall struct {
	key     string
	waiting []cluster.TaskID
	facts   cluster.Facts
	fits    int
}

// modelPlace returns what Place should: placements of each group in order, and for each stalled group its facts, not sorted.
func modelPlace(c Cluster, groups []Group) ([]Placement, []modelStall) {
	m := newModel(c)
	groups = slices.Clone(groups)
	slices.SortFunc(groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.oldest(), b.oldest()), cmp.Compare(a.Key, b.Key))
	})
	results, waiting := make([]Result, len(groups)), make([][]*cluster.Task, len(groups))
	for k := range groups {
		waiting[k] = groups[k].Tasks
	}
	for m.freed = true; m.freed; {
		m.freed = false
		for k := range groups {
			var left []*cluster.Task
			for _, t := range waiting[k] {
				if !m.task(&groups[k], t, &results[k]) {
					left = append(left, t)
				}
			}
			waiting[k] = left
		}
	}
	var placed []Placement
	var stalls []modelStall
	for k := range groups {
		placed = append(placed, results[k].Placements...)
		if len(waiting[k]) > 0 {
			s := modelStall{key: groups[k].Key, waiting: ids(waiting[k])}
			s.facts, s.fits = m.facts(&groups[k])
			stalls = append(stalls, s)
		}
	}
	return placed, stalls
}
