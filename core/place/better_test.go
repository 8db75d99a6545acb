package place

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// holding is a cluster of nodes n1, n2, … with 8 cores, on each of which so many tasks of web with a core each run. The zones go with the nodes.
func holding(zones string, counts ...int) Cluster {
	var c Cluster
	for i, count := range counts {
		n := &cluster.Node{ID: cluster.NodeID(fmt.Sprintf("id%d", i+1))}
		n.Spec = cluster.NodeSpec{Name: fmt.Sprintf("n%d", i+1), Availability: cluster.Active}
		if zones != "" {
			n.Spec.Labels = map[string]string{"zone": zones[i : i+1]}
		}
		n.Status.State = cluster.NodeReady
		n.Description.Capacity = cluster.Resources{MilliCPU: 8000}
		c.Nodes = append(c.Nodes, &Node{
			Node: n, Free: cluster.Resources{MilliCPU: 8000 - 1000*int64(count)}, Tasks: count, PerJob: map[string]int{"web": count}, Ports: map[uint16]cluster.TaskID{},
		})
	}
	return c
}

// web is the group of a task of web.
func web(edit func(*cluster.JobSpec)) Group {
	g := one("web", cpu(1000))
	g.Spec = &cluster.JobSpec{}
	if edit != nil {
		edit(g.Spec)
	}
	return g
}

// from is what a task of web on a node takes.
func from(node int) Use { return Use{Node: node - 1, Job: "web", Resources: cpu(1000).Resources} }

func TestBetter(t *testing.T) {
	zones := func(s *cluster.JobSpec) { s.Spread = []cluster.Spread{{Attribute: "node.labels.zone"}} }
	shares := func(s *cluster.JobSpec) {
		s.Spread = []cluster.Spread{{Attribute: "node.labels.zone", Targets: []cluster.SpreadTarget{{Value: "a", Percent: 75}, {Value: "b", Percent: 25}}}}
	}
	binpack := func(s *cluster.JobSpec) { s.Strategy = cluster.StrategyBinpack }
	for _, c := range []struct {
		name    string
		cluster Cluster
		group   Group
		from    int
		want    string // "": it stays
	}{
		{"two more than another", holding("", 3, 1), web(nil), 1, "n2"},
		{"one more than another", holding("", 2, 1), web(nil), 1, ""},
		{"from where fewest are", holding("", 1, 3), web(nil), 1, ""},
		{"to where fewest are", holding("", 4, 2, 0, 1), web(nil), 1, "n3"},
		{"packing", holding("", 3, 1), web(binpack), 1, ""},
		{"packing within zones", holding("aab", 2, 2, 1), web(func(s *cluster.JobSpec) { zones(s); binpack(s) }), 1, "n3"},
		{"zones are even", holding("aab", 1, 1, 2), web(zones), 3, ""},
		{"a zone has two more", holding("aab", 1, 1, 4), web(zones), 3, "n1"},
		{"zones as even as can be", holding("aab", 2, 1, 2), web(zones), 3, ""},
		{"shares are met", holding("ab", 6, 2), web(shares), 1, ""},
		{"a share is passed", holding("ab", 4, 4), web(shares), 2, "n1"},
		{"no room elsewhere", func() Cluster {
			c := holding("", 3, 0)
			c.Nodes[1].Free = cluster.Resources{MilliCPU: 500}
			return c
		}(), web(nil), 1, ""},
		{"room that is kept for another", func() Cluster {
			c := holding("", 3, 0)
			c.Nodes[1].Free = cluster.Resources{MilliCPU: 1000}
			c.Claims = []Claim{{Job: "other", Slot: "1", Node: 1, Reserve: cpu(1000)}}
			return c
		}(), web(nil), 1, ""},
		{"what is on its way counts", func() Cluster {
			c := holding("", 3, 0)
			c.Claims = []Claim{{Job: "web", Slot: "9", Node: 1, Reserve: cpu(1000)}, {Job: "web", Slot: "8", Node: 1, Reserve: cpu(1000)}}
			return c
		}(), web(nil), 1, ""},
		{"its node is paused", func() Cluster {
			c := holding("", 3, 0)
			c.Nodes[0].Node.Spec.Availability = cluster.Pause
			return c
		}(), web(nil), 1, ""},
		{"a node is ranked higher", holding("", 0, 3), func() Group {
			g := web(nil)
			f := Filter{Name: "constraint", Allowed: NewBitmap(2), Ranks: []int8{10, 0}}
			f.Allowed.Set(0)
			f.Allowed.Set(1)
			g.Filters = []Filter{f}
			return g
		}(), 2, "n1"},
		{"a node is ranked lower", holding("", 0, 3), func() Group {
			g := web(nil)
			f := Filter{Name: "constraint", Allowed: NewBitmap(2), Ranks: []int8{-10, 0}}
			f.Allowed.Set(0)
			f.Allowed.Set(1)
			g.Filters = []Filter{f}
			return g
		}(), 2, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			if i, ok := Better(c.cluster, c.group, from(c.from)); ok {
				got = c.cluster.Nodes[i].Node.Spec.Name
			}
			if got != c.want {
				t.Errorf("to %q, want %q", got, c.want)
			}
		})
	}
}

// TestBetterEnds moves tasks as long as there is a better place, which comes to an end with each node having as many as any other.
func TestBetterEnds(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		counts := rapid.SliceOfN(rapid.IntRange(0, 8), 1, 6).Draw(r, "tasks")
		c := holding("", counts...)
		moves := 0
		for moved := true; moved; {
			moved = false
			for i := range counts {
				if c.Nodes[i].PerJob["web"] == 0 {
					continue
				}
				to, ok := Better(c, web(nil), from(i+1))
				if !ok {
					continue
				}
				if moves++; moves > 8*len(counts) {
					r.Fatalf("it does not end: %v", counts)
				}
				c.Nodes[i].PerJob["web"]--
				c.Nodes[i].Free.MilliCPU += 1000
				c.Nodes[to].PerJob["web"]++
				c.Nodes[to].Free.MilliCPU -= 1000
				moved = true
			}
		}
		var left []int
		for i := range counts {
			left = append(left, c.Nodes[i].PerJob["web"])
		}
		if slices.Max(left)-slices.Min(left) > 1 {
			r.Fatalf("%v became %v", counts, left)
		}
	})
}
