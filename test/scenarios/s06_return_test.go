package scenarios

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/test/internal/bench"
)

// A node is lost and comes back with its processes alive. What ran there is replaced where it can be; on its return everything runs once, what could not be
// replaced is what it was, and a port is never given twice.
func Test06ANodeReturnsWithItsProcesses(t *testing.T) {
	c := start(t, bench.Options{Nodes: []bench.Node{bench.N("n1", "edge=1"), bench.N("n2"), bench.N("n3"), bench.N("n4")}})
	c.RunJobsWait(30*time.Second,
		bench.Job{Name: "web", Count: 8, CPU: 1},
		bench.Job{Name: "p", Port: 80, Constraints: []string{"node.labels.edge == 1"}, Command: []string{"sleep", "1000"}, Grace: "2s"})
	onNodes(c, "web", map[string]int{"n1": 2, "n2": 2, "n3": 2, "n4": 2})
	old := processesOf(c, "p")
	if len(old) != 1 {
		t.Fatalf("p runs as %+v", old)
	}
	port80Once := func() {
		holders := 0
		for _, task := range c.Live("p") {
			for _, port := range task.Ports {
				if task.Node == "n1" && port.Number == 80 {
					holders++
				}
			}
		}
		if holders > 1 {
			t.Errorf("port 80 of n1 is granted %d times", holders)
		}
	}

	n1 := c.Agent("n1")
	n1.Silence()
	silent := time.Now()
	c.NodeState(6*time.Second, "n1", "down")
	down := time.Since(silent)
	if down < 2*time.Second || down > 5*time.Second {
		t.Errorf("n1 was down after %s of silence; the grace is 3 s", down)
	}
	// What was last seen stays as it is; beside it stands what is inferred.
	if lost := lostOn(c, "n1", "web"); len(lost) != 2 || lost[0].Observed.State != "running" || lost[0].Phase != "lost" || lost[0].Condition.Reason != "node n1 is down" {
		t.Errorf("web on n1: %+v", lost)
	}
	c.Until(2*time.Second, "p waits for a node with the label", func() (bool, any) {
		stalls := c.Stalls("p")
		return len(stalls) == 1 && maps.Equal(stalls[0].Facts.Counts(), map[string]int{"node_down": 1, "constraint": 3}), stalls
	})
	c.Until(time.Until(silent.Add(14*time.Second)), "web runs on the three others", func() (bool, any) {
		port80Once()
		on := map[string]int{}
		for _, task := range c.Running("web") {
			on[task.Node]++
		}
		return slices.Equal(slices.Sorted(maps.Values(on)), []int{2, 3, 3}) && on["n1"] == 0, on
	})

	c.Pass(time.Until(silent.Add(scaled(12*time.Second, 20*time.Second))))
	n1.Resume()
	returned := time.Now()
	c.Until(10*time.Second, "eight web and one p are alive", func() (bool, any) {
		port80Once()
		alive := c.Alive("web")
		return len(alive) == 8 && len(processesOf(c, "p")) == 1 && len(c.Running("web")) == 8 && len(c.Running("p")) == 1, alive
	})
	t.Logf("all was in order %s after the return", time.Since(returned).Round(time.Millisecond))
	// It stays like that.
	c.During(3*time.Second, "eight web and one p are alive", func() (bool, any) {
		port80Once()
		web, p := c.Alive("web"), processesOf(c, "p")
		return len(web) == 8 && len(p) == 1, []any{web, p}
	})
	if now := processesOf(c, "p"); now[0] != old[0] {
		t.Errorf("p was %+v and is %+v: the process that was there had the port and the node all the time", old[0], now[0])
	}
	distinctSlots(t, c.Live("web"))
	for _, l := range c.Lives("web") {
		if l.Node == "n1" && !l.Ended.IsZero() && l.Ended.Sub(l.Started) < 5*time.Second {
			t.Errorf("started on n1 only to be stopped: %+v", l)
		}
	}
	if stalls := c.Stalls(""); len(stalls) != 0 {
		t.Errorf("stalls are left: %+v", stalls)
	}

	// D. It can be scaled and updated as if nothing had happened.
	c.MustWithin(40*time.Second, "job", "scale", "web", "9", "--wait", "20s")
	c.RunningCount(bench.Soon, "web", 9)
	distinctSlots(t, c.Live("web"))
	c.RunJobsWait(90*time.Second, bench.Job{
		Name: "web", Count: 9, CPU: 1, MaxUnavailable: "3", MoreTask: "    env = { EDITION = \"second\" }\n",
		More: "  update {\n    monitor = \"1s\"\n    parallelism = 3\n  }\n",
	})
	version := c.Job("web").Version
	for _, task := range c.Running("web") {
		if task.JobVersion != version {
			t.Errorf("%s is of version %d, and the job of %d", task.ID, task.JobVersion, version)
		}
	}
	if running := len(c.Running("web")); running != 9 {
		t.Errorf("%d of 9 run after the update", running)
	}
	distinctSlots(t, c.Live("web"))
}

// A node that is lost and comes back again and again: each time everything runs once in the end, and records do not pile up.
func Test06BAgainAndAgain(t *testing.T) {
	c := start(t, bench.Options{Nodes: []bench.Node{bench.N("n1", "edge=1"), bench.N("n2"), bench.N("n3"), bench.N("n4")}})
	const history = 2
	limit := fmt.Sprintf("  history_limit = %d\n", history)
	c.RunJobsWait(30*time.Second,
		bench.Job{Name: "web", Count: 8, CPU: 1, More: limit},
		bench.Job{Name: "p", Port: 80, Constraints: []string{"node.labels.edge == 1"}, Command: []string{"sleep", "1000"}, Grace: "2s", More: limit})
	n1 := c.Agent("n1")
	for round := range scaled(2, 10) {
		began := time.Now()
		n1.Silence()
		c.NodeState(6*time.Second, "n1", "down")
		c.RunningCount(time.Until(began.Add(14*time.Second)), "web", 8)
		c.Pass(time.Until(began.Add(scaled(0, 20*time.Second))))
		n1.Resume()
		c.Until(10*time.Second, fmt.Sprintf("round %d: eight web and one p are alive", round), func() (bool, any) {
			alive, p := c.Alive("web"), processesOf(c, "p")
			return len(alive) == 8 && len(p) == 1 && len(c.Running("web")) == 8 && len(c.Running("p")) == 1, []any{alive, p}
		})
		c.Pass(time.Until(began.Add(scaled(0, 30*time.Second))))
		for _, job := range []string{"web", "p"} {
			dead := map[string]int{}
			for _, task := range c.Records(job) {
				if task.Dead {
					dead[task.Slot]++
				}
			}
			for slot, n := range dead {
				if n > history {
					t.Errorf("round %d: slot %s of %s has %d records of the past", round, slot, job, n)
				}
			}
		}
	}
	if alive, p := c.Alive("web"), processesOf(c, "p"); len(alive) != 8 || len(p) != 1 {
		t.Errorf("in the end %v and %v are alive", alive, p)
	}
	if stalls := c.Stalls(""); len(stalls) != 0 {
		t.Errorf("stalls are left: %+v", stalls)
	}
}

// The node comes back at the worst moments for what is to replace its task elsewhere. In the end there is one, on the agents' word, and nothing waits.
func Test06CReturnsWhile(t *testing.T) {
	for _, tt := range []struct {
		name  string
		brief bool
		delay string // of the start
		fails bool   // once it is started elsewhere
		until func(t *testing.T, c *bench.Cluster)
		kept  string // the node on which it runs in the end
	}{
		{name: "the replacement waits", brief: true, kept: "n1", until: func(t *testing.T, c *bench.Cluster) {
			c.Stall(bench.Soon, "p", "port_taken")
		}},
		{name: "the replacement starts", brief: true, delay: "5s", kept: "n1", until: func(t *testing.T, c *bench.Cluster) {
			c.Until(bench.Soon, "the replacement starts on n2", func() (bool, any) {
				live := c.Live("p")
				return slices.ContainsFunc(live, func(x bench.Task) bool { return x.Node == "n2" && x.Observed.State == "starting" }), live
			})
		}},
		{name: "the replacement runs", kept: "n2", until: func(t *testing.T, c *bench.Cluster) { c.RunningCount(10*time.Second, "p", 1) }},
		{name: "the replacement has just failed", fails: true, kept: "n1", until: func(t *testing.T, c *bench.Cluster) {
			c.Stall(10*time.Second, "p", "restart_delay")
		}},
		{name: "the replacement was stopped", kept: "n1", until: func(t *testing.T, c *bench.Cluster) {
			c.RunningCount(10*time.Second, "p", 1)
			c.DrainWait("n2", 20*time.Second)
		}},
	} {
		if !tt.brief && !full() {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			c := start(t, bench.Options{Nodes: []bench.Node{bench.N("n1", "edge=1"), bench.N("n2", "edge=0"), bench.N("n3"), bench.N("n4")}})
			broken := filepath.Join(c.Dir, "broken")
			job := bench.Job{
				Name: "p", Port: 80, Constraints: []string{"node.labels.edge == 1"}, Grace: "2s", Sim: map[string]string{},
				More: "  restart {\n    delay = \"30s\"\n    max_delay = \"30s\"\n  }\n",
			}
			if tt.delay != "" {
				job.Sim["start_delay"] = tt.delay
			}
			if tt.fails {
				job.Command = []string{"sh", "-c", "test -e " + broken + " && exit 1; exec sleep 1000"}
			}
			c.RunJobsWait(30*time.Second, job)
			if tt.name == "the replacement waits" {
				c.RunJobsWait(20*time.Second, bench.Job{Name: "holder", Port: 80, Constraints: []string{"node.name == n2"}})
			}
			c.Label("n2", "edge=1")
			if err := os.WriteFile(broken, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			old := aliveOf(c, "p")

			n1 := c.Agent("n1")
			n1.Silence()
			c.NodeState(6*time.Second, "n1", "down")
			tt.until(t, c)
			n1.Resume()
			c.Until(10*time.Second, "one p is alive, by the agents' word and the server's", func() (bool, any) {
				alive := aliveOf(c, "p")
				return len(alive) == 1 && len(c.Running("p")) == 1, alive
			})
			c.During(scaled(3*time.Second, 10*time.Second), "it stays so", func() (bool, any) {
				alive := aliveOf(c, "p")
				return len(alive) == 1 && len(c.Running("p")) == 1, alive
			})
			if on := c.Running("p")[0].Node; on != tt.kept {
				t.Errorf("it runs on %s, want %s", on, tt.kept)
			}
			if now := aliveOf(c, "p")[0]; tt.kept == "n1" && now != old[0] {
				stopsFirst(t, c.Lives("p"), old[0], now)
			}
			if stalls := c.Stalls("p"); len(stalls) != 0 {
				t.Errorf("stalls are left: %+v", stalls)
			}
		})
	}
}

// stopsFirst checks that one task had ended before another was started.
func stopsFirst(t *testing.T, lives []bench.Life, first, second string) {
	t.Helper()
	var ended, started time.Time
	for _, l := range lives {
		switch l.Task {
		case first:
			ended = l.Ended
		case second:
			started = l.Started
		}
	}
	if ended.IsZero() || !started.After(ended) {
		t.Errorf("%s ended at %s, and %s was started at %s", first, ended, second, started)
	}
}

// aliveOf returns the tasks of a job that are alive, whatever drives them.
func aliveOf(c *bench.Cluster, job string) []string {
	var out []string
	for _, l := range c.Alive(job) {
		out = append(out, l.Task)
	}
	for _, p := range processesOf(c, job) {
		out = append(out, p.Task)
	}
	return out
}

func processesOf(c *bench.Cluster, job string) []bench.Process {
	var out []bench.Process
	for _, p := range c.Processes() {
		if len(p.Task) > len(job) && p.Task[:len(job)+1] == job+"/" {
			out = append(out, p)
		}
	}
	return out
}

// onNodes waits until so many tasks of a job run on each node.
func onNodes(c *bench.Cluster, job string, want map[string]int) {
	c.Until(bench.Soon, fmt.Sprintf("%s runs on %v", job, want), func() (bool, any) {
		on := map[string]int{}
		for _, task := range c.Running(job) {
			on[task.Node]++
		}
		return maps.Equal(on, want), on
	})
}

func lostOn(c *bench.Cluster, node, job string) []bench.Task {
	var out []bench.Task
	for _, task := range c.Live(job) {
		if task.Node == node && task.Condition.State == "lost" {
			out = append(out, task)
		}
	}
	return out
}

func distinctSlots(t *testing.T, tasks []bench.Task) {
	t.Helper()
	slots := map[string]string{}
	for _, task := range tasks {
		if other := slots[task.Slot]; other != "" {
			t.Errorf("%s and %s have the same slot", task.ID, other)
		}
		slots[task.Slot] = task.ID
	}
}

// Nodes are lost one after another: what ran there spreads over what is left, and the one that has come back is not left out.
func Test06ELossAfterLossIsSpread(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(4)})
	c.RunJobsWait(20*time.Second, bench.Job{Name: "w", Count: 16})
	onNodes(c, "w", map[string]int{"n1": 4, "n2": 4, "n3": 4, "n4": 4})
	c.Agent("n1").Silence()
	c.NodeState(6*time.Second, "n1", "down")
	spread(c, "w", 16, "n2", "n3", "n4")
	c.Agent("n1").Resume()
	c.Until(10*time.Second, "what was replaced has ended on n1", func() (bool, any) {
		on := aliveCounts(c, "w")
		return on["n1"] == 0, on
	})
	c.Agent("n2").Silence()
	c.NodeState(6*time.Second, "n2", "down")
	spread(c, "w", 16, "n1", "n3", "n4")
	c.Agent("n2").Resume()
	c.Until(10*time.Second, "16 are alive", func() (bool, any) {
		on := aliveCounts(c, "w")
		return on["n2"] == 0 && on["n1"]+on["n3"]+on["n4"] == 16, on
	})
}

// spread waits until all tasks of a job run on three nodes, five or six on each.
func spread(c *bench.Cluster, job string, all int, nodes ...string) {
	c.Until(10*time.Second, fmt.Sprintf("%d tasks are spread over %v", all, nodes), func() (bool, any) {
		on, sum := map[string]int{}, 0
		for _, task := range c.Running(job) {
			on[task.Node]++
		}
		for _, n := range nodes {
			sum += on[n]
			if on[n] < all/3 || on[n] > all/3+1 {
				return false, on
			}
		}
		return sum == all, on
	})
}

// A node that is lost is declared gone for good and its record dropped. When its agent speaks again it is refused, and ends what it runs.
func Test06FGoneForGood(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(4), Unchecked: []string{"V5"}}) // what runs on n4 is known to nobody for a moment
	c.RunJobsWait(20*time.Second, bench.Job{Name: "web", Count: 8, CPU: 1}, bench.Job{Name: "g", Type: "global", Command: []string{"sleep", "1000"}, Grace: "2s"})
	n4 := c.Agent("n4")
	n4.Silence()
	c.NodeState(6*time.Second, "n4", "down")
	c.Must("node", "decommission", "n4", "--yes")
	c.RunningCount(10*time.Second, "web", 8)
	c.Must("node", "rm", "n4")
	c.Until(10*time.Second, "nothing names n4", func() (bool, any) {
		for _, n := range c.Nodes() {
			if n.Name == "n4" {
				return false, n
			}
		}
		for _, task := range c.Tasks("") {
			if task.Node == "n4" || !task.Dead && task.Node == "" {
				return false, task
			}
		}
		stalls := c.Stalls("")
		return len(stalls) == 0, stalls
	})
	n4.Resume()
	c.Until(10*time.Second, "the agent of n4 has ended what it ran", func() (bool, any) {
		on := aliveCounts(c, "web")
		left := slices.DeleteFunc(c.Processes(), func(p bench.Process) bool { return p.Node != "n4" })
		return on["n4"] == 0 && len(left) == 0, []any{on, left}
	})
	if nodes := c.Nodes(); len(nodes) != 3 {
		t.Errorf("n4 is back: %+v", nodes)
	}
	if said, err := os.ReadFile(filepath.Join(c.Dir, "server.log")); err != nil || !strings.Contains(string(said), "agent of an unwanted node turned away") {
		t.Errorf("the server's log does not say that it turned the agent of n4 away (%v)", err)
	}
	if running := c.Running("web"); len(running) != 8 {
		t.Errorf("%d web run", len(running))
	}
}
