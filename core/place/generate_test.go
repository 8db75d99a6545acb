package place

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// world is a small cluster with groups, full of ties, shortages and clashes.
type world struct {
	Cluster Cluster
	Groups  []Group
}

const gib = 1 << 30

func oneOf[T any](t *rapid.T, label string, of ...T) T { return rapid.SampledFrom(of).Draw(t, label) }

func drawWorld(t *rapid.T) world {
	var w world
	used := rapid.IntRange(0, 9).Draw(t, "nodes")
	for i := range used {
		if rapid.IntRange(0, 9).Draw(t, "unused") == 0 {
			w.Cluster.Nodes = append(w.Cluster.Nodes, nil)
			continue
		}
		w.Cluster.Nodes = append(w.Cluster.Nodes, drawNode(t, i))
	}
	for k := range rapid.IntRange(1, 4).Draw(t, "groups") {
		w.Groups = append(w.Groups, drawGroup(t, k, len(w.Cluster.Nodes)))
	}
	if len(w.Cluster.Nodes) > 0 {
		for k := range rapid.IntRange(0, 3).Draw(t, "claims") {
			w.Cluster.Claims = append(w.Cluster.Claims, drawClaim(t, k, len(w.Cluster.Nodes)))
		}
	}
	return w
}

func drawResources(t *rapid.T, scale int64) cluster.Resources {
	r := cluster.Resources{MilliCPU: scale * oneOf[int64](t, "cpu", 0, 500, 1000, 1000), Memory: scale * oneOf[int64](t, "memory", 0, gib, gib, 2*gib)}
	if rapid.IntRange(0, 3).Draw(t, "units") == 0 {
		r.Units = map[string]int64{oneOf(t, "unit", "gpu", "disk"): oneOf[int64](t, "amount", 0, 1, 2)}
	}
	return r
}

func drawNode(t *rapid.T, i int) *Node {
	n := &cluster.Node{ID: cluster.NodeID(fmt.Sprintf("id%d", i))}
	n.Spec.Name = fmt.Sprintf("n%d", rapid.IntRange(0, 99).Draw(t, "name"))
	n.Spec.Labels = map[string]string{"disk": oneOf(t, "disk", "ssd", "hdd")}
	if zone := oneOf(t, "zone", "a", "b", "c", ""); zone != "" {
		n.Spec.Labels["zone"] = zone
	}
	n.Spec.Availability = oneOf(t, "availability", cluster.Active, cluster.Active, cluster.Active, cluster.Active, cluster.Pause, cluster.Drain)
	n.Spec.Decommissioned = rapid.IntRange(0, 14).Draw(t, "decommissioned") == 0
	n.Description.OS = oneOf(t, "os", "linux", "darwin")
	n.Status.State = oneOf(t, "state", cluster.NodeReady, cluster.NodeReady, cluster.NodeReady, cluster.NodeReady, cluster.NodeSilent, cluster.NodeDown)
	n.Description.Capacity = drawResources(t, 4)
	used := drawResources(t, oneOf[int64](t, "used", 0, 1, 3))
	out := &Node{Node: n, Free: n.Description.Capacity.Sub(used), PerJob: map[string]int{}, Ports: map[uint16]cluster.TaskID{}}
	for _, job := range []string{"web", "api"} {
		if k := oneOf(t, "tasks", 0, 0, 1, 2); k > 0 {
			out.PerJob[job] = k
			out.Tasks += k
		}
	}
	out.Tasks += oneOf(t, "more tasks", 0, 0, 3)
	for _, p := range []uint16{80, 443, FirstPort, FirstPort + 2} {
		if rapid.IntRange(0, 4).Draw(t, "port") == 0 {
			out.Ports[p] = cluster.NewTaskID("old", cluster.SlotKey(n.ID), 1)
		}
	}
	if rapid.IntRange(0, 19).Draw(t, "full") == 0 { // all but a few ports
		for p := FirstPort + 3; p <= LastPort; p++ {
			out.Ports[p] = "old/x/1"
		}
	}
	if rapid.IntRange(0, 9).Draw(t, "blocked") == 0 {
		out.Blocked = "2 stray processes"
	}
	return out
}

func drawReserve(t *rapid.T) cluster.Reserve {
	r := cluster.Reserve{Resources: drawResources(t, 1), MaxPerNode: oneOf(t, "limit", 0, 0, 1, 2)}
	for k := range oneOf(t, "ports", 0, 0, 1, 2, 3) {
		r.Ports = append(r.Ports, cluster.Port{Name: fmt.Sprintf("p%d", k), Static: oneOf[uint16](t, "static", 0, 0, 80, 443, FirstPort+1)})
	}
	return r
}

func drawGroup(t *rapid.T, k, nodes int) Group {
	g := Group{Key: fmt.Sprintf("g%d", k), Job: oneOf(t, "job", "web", "api", "new"), Reserve: drawReserve(t), Priority: oneOf(t, "priority", 50, 50, 90)}
	spec := &cluster.JobSpec{Name: g.Job, Strategy: oneOf(t, "strategy", cluster.StrategySpread, cluster.StrategySpread, cluster.StrategyBinpack)}
	for range oneOf(t, "spread", 0, 0, 1, 1, 2) {
		s := cluster.Spread{Attribute: oneOf(t, "attribute", "node.labels.zone", "node.labels.zone", "node.os", "node.name", "node.unheard")}
		for _, v := range oneOf(t, "targets", nil, nil, []string{"a"}, []string{"a", "b"}, []string{"linux", "a"}) {
			s.Targets = append(s.Targets, cluster.SpreadTarget{Value: v, Percent: oneOf(t, "percent", 0, 30, 70, 100)})
		}
		spec.Spread = append(spec.Spread, s)
	}
	g.Spec = spec
	if nodes > 0 && rapid.IntRange(0, 3).Draw(t, "limited") == 0 {
		g.Nodes = rapid.SliceOfN(rapid.IntRange(0, nodes-1), 0, 4).Draw(t, "to")
		if g.Nodes == nil {
			g.Nodes = []int{}
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "able") == 0 {
		g.Filters = append(g.Filters, drawAbility(t, nodes))
	}
	for _, name := range []string{"constraint", "zoning"} {
		if rapid.Bool().Draw(t, "filter") {
			g.Filters = append(g.Filters, drawFilter(t, name, nodes))
		}
	}
	for j := range rapid.IntRange(0, 6).Draw(t, "waiting") {
		slot := cluster.SlotKey(fmt.Sprintf("%d.%d", k, j))
		task := &cluster.Task{ID: cluster.NewTaskID(g.Job, slot, 9), Job: g.Job, Slot: slot, CreatedRev: cluster.Revision(rapid.IntRange(1, 3).Draw(t, "created"))}
		if rapid.IntRange(0, 2).Draw(t, "failed") == 0 {
			task.Avoid = cluster.NodeID(fmt.Sprintf("id%d", rapid.IntRange(0, max(1, nodes)).Draw(t, "avoid")))
		}
		g.Tasks = append(g.Tasks, task)
	}
	return g
}

// drawAbility is a filter of the core, which has always judged all nodes and ranks none.
func drawAbility(t *rapid.T, nodes int) Filter {
	f := Filter{Name: cluster.SourceCore, Allowed: NewBitmap(nodes), Reason: func(i int) (cluster.Code, string) {
		if i%2 == 0 {
			return cluster.CodeNoSecrets, ""
		}
		return cluster.CodeNoDriver, cluster.DriverDocker
	}}
	for i := range nodes {
		if rapid.IntRange(0, 3).Draw(t, "can") > 0 {
			f.Allowed.Set(i)
		}
	}
	return f
}

func drawFilter(t *rapid.T, name string, nodes int) Filter {
	f := Filter{Name: name, Allowed: NewBitmap(nodes), Pending: NewBitmap(nodes)}
	codes := make([]cluster.Code, nodes+8) // room for nodes that join later
	for i := range codes {
		codes[i] = oneOf(t, "code", cluster.CodeConstraint, cluster.CodeConstraint, "zoning.outside")
	}
	for i := range nodes {
		if rapid.IntRange(0, 4).Draw(t, "allowed") > 0 {
			f.Allowed.Set(i)
		}
		if rapid.IntRange(0, 9).Draw(t, "pending") == 0 {
			f.Pending.Set(i)
		}
	}
	f.Reason = func(i int) (cluster.Code, string) {
		return codes[i], "node.labels.disk == ssd"
	}
	if rapid.Bool().Draw(t, "away") {
		f.Away, f.Detail = cluster.CodePluginTimeout, "no answer after 2s"
	}
	if rapid.Bool().Draw(t, "ranks") {
		f.Ranks = rapid.SliceOfN(rapid.SampledFrom([]int8{0, 0, 10, -100, 100}), 0, nodes).Draw(t, "rank")
	}
	return f
}

func drawClaim(t *rapid.T, k, nodes int) Claim {
	cl := Claim{
		Job: oneOf(t, "claim of", "web", "api", "new"), Slot: cluster.SlotKey(fmt.Sprintf("%d.%d", oneOf(t, "group", 0, 0, 1), k)),
		Node: rapid.IntRange(0, nodes-1).Draw(t, "claim on"), Reserve: drawReserve(t),
	}
	if rapid.IntRange(0, 2).Draw(t, "old") == 0 {
		cl.Old = &cluster.Task{ID: cluster.NewTaskID(cl.Job, cl.Slot, 3), Job: cl.Job, Slot: cl.Slot, Reserve: drawReserve(t)}
		for _, p := range cl.Old.Reserve.Ports {
			cl.Old.Placement.Ports = append(cl.Old.Placement.Ports, cluster.PortGrant{Name: p.Name, Number: max(p.Static, 80)})
		}
	}
	return cl
}

// permute returns the same world with nodes at other indexes and groups in another order, and where each index went.
func (w world) permute(t *rapid.T) (world, []int) {
	n := len(w.Cluster.Nodes)
	to := rapid.Permutation(sequence(n)).Draw(t, "node order")
	out := world{Cluster: Cluster{Nodes: make([]*Node, n)}}
	for i, node := range w.Cluster.Nodes {
		out.Cluster.Nodes[to[i]] = node
	}
	for _, cl := range w.Cluster.Claims {
		cl.Node = to[cl.Node]
		out.Cluster.Claims = append(out.Cluster.Claims, cl)
	}
	from := make([]int, n)
	for i := range to {
		from[to[i]] = i
	}
	move := func(b Bitmap) Bitmap {
		moved := NewBitmap(n)
		for i := range b.All() {
			moved.Set(to[i])
		}
		return moved
	}
	for _, g := range w.Groups {
		if g.Nodes != nil {
			moved := []int{}
			for _, i := range g.Nodes {
				moved = append(moved, to[i])
			}
			g.Nodes = moved
		}
		g.Filters = slices.Clone(g.Filters)
		for k := range g.Filters {
			f := &g.Filters[k]
			reason, ranks := f.Reason, f.Ranks
			f.Allowed, f.Pending = move(f.Allowed), move(f.Pending)
			f.Reason = func(i int) (cluster.Code, string) { return reason(from[i]) }
			if ranks != nil {
				f.Ranks = make([]int8, n)
				for i, r := range ranks {
					f.Ranks[to[i]] = r
				}
			}
		}
		out.Groups = append(out.Groups, g)
	}
	order := rapid.Permutation(sequence(len(w.Groups))).Draw(t, "group order")
	shuffled := make([]Group, len(out.Groups))
	for k := range out.Groups {
		shuffled[order[k]] = out.Groups[k]
	}
	out.Groups = shuffled
	return out, from
}

func sequence(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}
