package place

import (
	"fmt"
	"testing"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// busy returns a cluster of n nodes in ten zones, on each of which tasks of some other jobs run.
func busy(n int) Cluster {
	c := Cluster{Nodes: make([]*Node, n)}
	for i := range n {
		node := &cluster.Node{ID: cluster.NodeID(fmt.Sprintf("id%d", i))}
		node.Spec = cluster.NodeSpec{Name: fmt.Sprintf("node-%05d", i), Availability: cluster.Active, Labels: map[string]string{"zone": fmt.Sprint(i % 10)}}
		node.Status.State = cluster.NodeReady
		node.Description.Capacity = cluster.Resources{MilliCPU: 64_000, Memory: 256 * gib}
		out := &Node{Node: node, PerJob: map[string]int{}, Ports: map[uint16]cluster.TaskID{}}
		for j := range 8 {
			out.PerJob[fmt.Sprintf("old-%d", (i+j)%50)]++
			out.Tasks++
		}
		out.Free = node.Description.Capacity.Sub(cluster.Resources{MilliCPU: int64(100 * (i % 7)), Memory: gib})
		c.Nodes[i] = out
	}
	c.Order = NameOrder(c.Nodes)
	return c
}

// waiting returns groups with the same number of tasks, allowed by a filter on all nodes but every tenth.
func waiting(c Cluster, groups, tasks int, change func(k int, g *Group)) []Group {
	allowed := NewBitmap(len(c.Nodes))
	for i := range c.Nodes {
		if i%10 != 3 {
			allowed.Set(i)
		}
	}
	out := make([]Group, groups)
	for k := range out {
		job := fmt.Sprintf("job-%d", k)
		g := Group{Key: job, Job: job, Spec: &cluster.JobSpec{}, Filters: []Filter{{Name: "constraint", Allowed: allowed}}}
		g.Reserve.Resources = cluster.Resources{MilliCPU: 100, Memory: 64 << 20}
		for j := range tasks {
			slot := cluster.SlotKey(fmt.Sprint(j))
			g.Tasks = append(g.Tasks, &cluster.Task{ID: cluster.NewTaskID(job, slot, 7), Job: job, Slot: slot, CreatedRev: 7})
		}
		if change != nil {
			change(k, &g)
		}
		out[k] = g
	}
	return out
}

func BenchmarkPlace(b *testing.B) {
	ports := func(_ int, g *Group) { g.Reserve.Ports = []cluster.Port{{Name: "http"}} }
	zones := func(_ int, g *Group) { g.Spec.Spread = []cluster.Spread{{Attribute: "node.labels.zone"}} }
	binpack := func(_ int, g *Group) { g.Spec.Strategy = cluster.StrategyBinpack }
	for _, bench := range []struct {
		name                 string
		nodes, groups, tasks int
		change               func(int, *Group)
	}{
		{"spread/nodes=100/groups=10/tasks=1000", 100, 10, 100, nil},
		{"spread/nodes=1000/groups=20/tasks=10000", 1000, 20, 500, nil},
		{"spread/nodes=10000/groups=100/tasks=100000", 10000, 100, 1000, nil},
		{"binpack/nodes=10000/groups=100/tasks=100000", 10000, 100, 1000, binpack},
		{"zones/nodes=10000/groups=100/tasks=100000", 10000, 100, 1000, zones},
		{"ports/nodes=10000/groups=100/tasks=100000", 10000, 100, 1000, ports},
		{"pinned/nodes=10000/groups=10000/tasks=10000", 10000, 10000, 1, func(k int, g *Group) { g.Nodes = []int{k}; g.Job, g.Filters = "edge", nil }},
		{"single/nodes=10000/groups=1000/tasks=1000", 10000, 1000, 1, nil},
	} {
		b.Run(bench.name, func(b *testing.B) {
			c := kept(busy(bench.nodes)) // as the engine has it
			groups := waiting(c, bench.groups, bench.tasks, bench.change)
			placed := 0
			for b.Loop() {
				placed += len(Place(c, groups).Placements)
			}
			if want := b.N * bench.groups * bench.tasks; placed != want {
				b.Fatalf("placed %d, want %d", placed, want)
			}
			b.ReportMetric(float64(placed)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}

// BenchmarkStalled is one turn in which 100 groups wait in vain, each looked at in full or only where ten nodes changed.
func BenchmarkStalled(b *testing.B) {
	c := busy(10000)
	groups := waiting(c, 100, 100, func(_ int, g *Group) { g.Reserve.Resources.MilliCPU = 1_000_000 })
	b.Run("full", func(b *testing.B) {
		for b.Loop() {
			if r := Place(c, groups); len(r.Stalled) != len(groups) {
				b.Fatal("not all are stalled")
			}
		}
	})
	b.Run("recheck", func(b *testing.B) {
		standing := Place(c, groups).Stalled
		changed := []int{5, 77, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 9999}
		for b.Loop() {
			for k := range standing {
				if s := Recheck(c, groups[k], standing[k].Standing, changed); s.Fits() {
					b.Fatal("fits")
				}
			}
		}
	})
	b.Run("explain", func(b *testing.B) {
		for b.Loop() {
			Describe(c, groups[0])
		}
	})
}
