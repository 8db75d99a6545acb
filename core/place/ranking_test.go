package place

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/setpointd/setpoint/sdk/cluster"
)

func TestARankingThatIsKeptIsAsIfMadeAnew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Cluster
		var r Ranking
		name := 0
		add := func() {
			name++
			n := &cluster.Node{ID: cluster.NodeID(fmt.Sprintf("id%d", name)), Spec: cluster.NodeSpec{Name: fmt.Sprintf("n%d", name*7%11), Availability: cluster.Active}, Status: cluster.NodeStatus{State: cluster.NodeReady}}
			n.Description.Capacity = cluster.Resources{MilliCPU: 4000, Memory: 4 * gib}
			c.Nodes = append(c.Nodes, &Node{Node: n, Free: n.Description.Capacity})
		}
		for range rapid.IntRange(0, 200).Draw(t, "nodes") {
			add()
		}
		for range rapid.IntRange(1, 20).Draw(t, "rounds") {
			for range rapid.IntRange(0, 6).Draw(t, "changes") {
				if len(c.Nodes) == 0 || rapid.IntRange(0, 20).Draw(t, "another") == 0 {
					add()
					r.Reset()
					continue
				}
				i := rapid.IntRange(0, len(c.Nodes)-1).Draw(t, "node")
				switch n := c.Nodes[i]; rapid.IntRange(0, 3).Draw(t, "change") {
				case 0:
					n.Blocked = rapid.SampledFrom([]string{"", "full"}).Draw(t, "blocked")
				case 1:
					n.Free.Memory = int64(rapid.IntRange(0, 4).Draw(t, "memory")) * gib
				default:
					n.Free.MilliCPU, n.Tasks = int64(rapid.IntRange(-1, 4).Draw(t, "cpu"))*1000, rapid.IntRange(0, 3).Draw(t, "tasks")
				}
				r.Changed(i)
			}
			with := kept(c)
			r.Refresh(&with)
			if !slices.Equal(r.nodes, with.Ranking.nodes) {
				t.Fatalf("kept %v, made anew %v", r.nodes, with.Ranking.nodes)
			}
		}
	})
}
