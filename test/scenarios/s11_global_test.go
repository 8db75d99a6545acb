package scenarios

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/setpointd/setpoint/test/internal/bench"
)

// fiveGlobals are jobs with one task on each node, each with something that can go wrong with that.
func fiveGlobals() []bench.Job {
	return []bench.Job{
		{Name: "g1", Type: "global"},
		{Name: "g2", Type: "global", More: "  update {\n    parallelism = 1\n    monitor = \"3s\"\n  }\n"},
		{Name: "g3", Type: "global", Constraints: []string{"node.labels.zone == a"}},
		{Name: "g4", Type: "global", Port: 9},
		{Name: "g5", Type: "global", CPU: 2},
	}
}

func globalNodes() []bench.Node {
	return []bench.Node{bench.N("n1", "zone=a"), bench.N("n2", "zone=a"), bench.N("n3", "zone=a"), bench.N("n4")}
}

// A node is drained and comes back, again and again: each time everything leaves it, everything is back soon, and nowhere else anything moves.
func Test11AGlobalJobsThroughCycles(t *testing.T) {
	c := start(t, bench.Options{Nodes: globalNodes()})
	c.RunJobsWait(30*time.Second, fiveGlobals()...)
	descriptors := bench.Descriptors(c.ServerPID())
	var slowest time.Duration
	cycle := func(nodes ...string) {
		t.Helper()
		before := len(c.Lives(""))
		for _, n := range nodes {
			c.Drain(n)
		}
		want := 0
		for _, n := range nodes {
			c.DrainWait(n, 20*time.Second)
			if left := aliveOn(c, n); len(left) > 0 {
				t.Errorf("%s is said to be drained, and there are still %v", n, left)
			}
			want += wantedOn(n)
		}
		for _, n := range nodes {
			c.Activate(n)
		}
		active := time.Now()
		for _, n := range nodes {
			backOn(c, n, wantedOn(n))
		}
		slowest = max(slowest, time.Since(active))
		started := c.Lives("")[before:]
		for _, l := range started {
			if !slices.Contains(nodes, l.Node) {
				t.Errorf("%v were drained, and %s was started on %s", nodes, l.Task, l.Node)
			}
		}
		if len(started) != want {
			t.Errorf("%v were drained, and there were %d starts, want %d", nodes, len(started), want)
		}
	}
	for range scaled(1, 20) {
		cycle("n2")
	}
	for range scaled(1, 20) {
		cycle(fmt.Sprintf("n%d", rand.IntN(4)+1))
	}
	for range scaled(1, 5) {
		cycle("n1", "n3")
	}
	if now := bench.Descriptors(c.ServerPID()); now > descriptors+descriptors/10+1 {
		t.Errorf("the server had %d files open at first and has %d", descriptors, now)
	}
	t.Logf("after a drain all were back within %s", slowest.Round(time.Millisecond))
	if stalls := c.Stalls(""); len(stalls) != 0 {
		t.Errorf("stalls are left: %+v", stalls)
	}
}

func aliveOn(c *bench.Cluster, node string) []string {
	var out []string
	for _, l := range c.Alive("") {
		if l.Node == node {
			out = append(out, l.Task)
		}
	}
	return out
}

// wantedOn is how many of the five jobs a node runs.
func wantedOn(node string) int {
	if node == "n4" {
		return 4
	}
	return 5
}

// backOn waits until so many tasks run on a node, by the server's word and in truth.
func backOn(c *bench.Cluster, node string, count int) {
	c.Until(bench.Soon, fmt.Sprintf("%d tasks run on %s", count, node), func() (bool, any) {
		var running []string
		for _, task := range c.Running("") {
			if task.Node == node {
				running = append(running, task.ID)
			}
		}
		return len(running) == count && len(aliveOn(c, node)) == count, running
	})
}

// Nodes join, and one that has gone joins again under its name: each gets what it should have, and of nodes that have gone nothing is counted.
func Test11EGlobalJobsAndNodesThatJoin(t *testing.T) {
	c := start(t, bench.Options{Nodes: globalNodes()})
	c.RunJobsWait(30*time.Second, fiveGlobals()...)
	c.Join(bench.N("n5", "zone=a"))
	backOn(c, "n5", 5)
	c.Join(bench.N("n6"))
	backOn(c, "n6", 4)
	if stalls := c.Stalls(""); len(stalls) != 0 {
		t.Errorf("n6 is not in the zone, which is nothing to wait for: %+v", stalls)
	}
	if counts := c.Job("g3").Counts; counts.Eligible != 4 || counts.EligibleOf != 6 || counts.Wanted != 4 {
		t.Errorf("g3: %+v", counts)
	}

	for range 3 {
		c.Agent("n5").PowerOff()
		c.NodeState(10*time.Second, "n5", "down")
		old := c.Node("n5").ID
		c.Must("node", "decommission", "n5", "--yes")
		c.Join(bench.N("n5", "zone=a"))
		backOn(c, "n5", 5)
		named := 0
		for _, n := range c.Nodes() {
			switch {
			case n.Name == "n5" && !n.Decommissioned:
				named++
			case n.ID == old && !n.Decommissioned:
				t.Errorf("the old record is not marked: %+v", n)
			}
		}
		if named != 1 {
			t.Errorf("%d nodes are called n5", named)
		}
		for job, want := range map[string]int{"g1": 6, "g3": 4} {
			if counts := c.Job(job).Counts; counts.Wanted != want || counts.Up != want {
				t.Errorf("%s: %+v, want %d", job, counts, want)
			}
		}
		c.Must("node", "rm", old)
	}
	if nodes := c.Nodes(); len(nodes) != 6 {
		t.Errorf("%d nodes are left, want 6: %+v", len(nodes), nodes)
	}
	for _, l := range c.Lives("") {
		if l.Node != "n5" && !l.Ended.IsZero() {
			t.Errorf("what happened to n5 stopped %+v", l)
		}
	}
}
