package scenarios

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/test/internal/bench"
)

// massSilence returns the cluster's stall about nodes that are silent at once, or nil.
func massSilence(c *bench.Cluster) *bench.Stall {
	for _, s := range c.Stalls("") {
		if s.Code == "mass_silence" {
			return &s
		}
	}
	return nil
}

// suspends waits until it is said that so many nodes are silent.
func suspends(c *bench.Cluster, silent int) {
	want := fmt.Sprintf("%d of 10 nodes are silent", silent)
	c.Until(bench.Soon, "it is said that "+want, func() (bool, any) {
		s := massSilence(c)
		return s != nil && s.Subject.Kind == "cluster" && strings.Contains(s.Message, want) && strings.Contains(s.Message, "replacing is suspended"), s
	})
}

// untouched fails the test if anything of a job was stopped, or started beside what there was.
func untouched(t *testing.T, c *bench.Cluster, job string, lives int) {
	t.Helper()
	all := c.Lives(job)
	if len(all) != lives {
		t.Errorf("%d tasks of %s were started, want the %d that there were", len(all), job, lives)
	}
	for _, l := range all {
		if !l.StopAsked.IsZero() || !l.Ended.IsZero() {
			t.Errorf("stopped: %+v", l)
		}
	}
}

// When all fall silent at once it is the network: nothing is replaced, and of those that do not come back only they are.
func Test08AAllAreSilentAtOnce(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(10)})
	c.RunJobsWait(30*time.Second, bench.Job{Name: "web", Count: 30})
	even := map[string]int{}
	for _, n := range bench.Ns(10) {
		even[n.Name] = 3
	}
	onNodes(c, "web", even)
	silence := func() time.Time {
		for _, n := range bench.Ns(10) {
			c.Agent(n.Name).Silence()
		}
		return time.Now()
	}
	for range scaled(1, 3) {
		began := silence()
		suspends(c, 10)
		c.Pass(time.Until(began.Add(scaled(8*time.Second, 30*time.Second))))
		for _, n := range bench.Ns(10) {
			c.Agent(n.Name).Resume()
		}
		c.Until(bench.Soon, "all are ready, and nothing is suspended", func() (bool, any) { s := massSilence(c); return s == nil && c.Ready() == 10, s })
		c.Pass(2 * time.Second)
		untouched(t, c, "web", 30)
	}

	// D. Two of them never come back.
	began := silence()
	suspends(c, 10)
	c.Pass(time.Until(began.Add(scaled(6*time.Second, 30*time.Second))))
	for _, n := range bench.Ns(8) {
		c.Agent(n.Name).Resume()
	}
	took := c.Until(15*time.Second, "what ran on n9 and n10 runs elsewhere", func() (bool, any) {
		on := map[string]int{}
		for _, task := range c.Running("web") {
			on[task.Node]++
		}
		sum := 0
		for _, n := range on {
			sum += n
		}
		return sum == 30 && on["n9"]+on["n10"] == 0, on
	})
	t.Logf("the two that stayed away were replaced after %s", took)
	if s := massSilence(c); s != nil {
		t.Errorf("it is still said: %+v", s)
	}
	for _, l := range c.Lives("web") {
		if l.Node != "n9" && l.Node != "n10" && !l.Ended.IsZero() {
			t.Errorf("stopped on a node that came back: %+v", l)
		}
	}
	if n := len(c.Lives("web")); n != 36 {
		t.Errorf("%d tasks were started, want 30 and 6 replacements", n)
	}
}

// Some fall silent for good: they are replaced, node after node.
func Test08BSomeAreReplacedNodeByNode(t *testing.T) {
	pace := scaled(3*time.Second, 5*time.Second)
	c := start(t, bench.Options{Nodes: bench.Ns(10), Config: fmt.Sprintf("replace {\n  nodes_per = %q\n}\n", pace)})
	c.RunJobsWait(30*time.Second, bench.Job{Name: "web", Count: 30})
	// C. One is replaced soon.
	c.Agent("n10").Silence()
	c.Until(10*time.Second, "what ran on n10 runs elsewhere", func() (bool, any) { return runElsewhere(c, 30, "n10") })
	c.Pass(pace)

	cut := []string{"n1", "n2", "n3", "n4"}
	ran := map[string][]string{} // slots by node
	for _, task := range c.Running("web") {
		ran[task.Node] = append(ran[task.Node], task.Slot)
	}
	before := len(c.Lives("web"))
	for _, name := range cut {
		c.Agent(name).Silence()
	}
	began := time.Now()
	took := c.Until(40*time.Second, "what ran on the four runs elsewhere", func() (bool, any) {
		if s := massSilence(c); s != nil {
			t.Errorf("four of nine are not the network: %+v", s)
		}
		return runElsewhere(c, 30, cut...)
	})
	if least := 3 * pace; took < least || took > 40*time.Second {
		t.Errorf("it took %s; three times %s lie between four nodes", took, pace)
	}
	// When each node's tasks began elsewhere.
	first := map[string]time.Duration{}
	for _, l := range c.Lives("web")[before:] {
		for _, name := range cut {
			if at := l.Started.Sub(began); slices.Contains(ran[name], l.Slot) && (first[name] == 0 || at < first[name]) {
				first[name] = at
			}
		}
	}
	order := slices.Sorted(maps.Values(first))
	t.Logf("replaced after %v, all after %s", order, took)
	for i := 1; i < len(order); i++ {
		if gap := order[i] - order[i-1]; gap < pace-500*time.Millisecond {
			t.Errorf("a node was replaced %s after the one before; the pace is %s", gap, pace)
		}
	}
	if len(order) != 4 {
		t.Errorf("replaced: %v", first)
	}
}

// runElsewhere reports whether so many tasks of web run, none of them on the nodes.
func runElsewhere(c *bench.Cluster, count int, nodes ...string) (bool, any) {
	on, sum := map[string]int{}, 0
	for _, task := range c.Running("web") {
		on[task.Node]++
		sum++
	}
	for _, n := range nodes {
		sum -= on[n]
	}
	return sum == count, on
}
