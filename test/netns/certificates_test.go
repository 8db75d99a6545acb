package netns

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/test/internal/bench"
)

const day = 24 * time.Hour

// Certificates are valid for 90 days and renewed after 60. All clocks are put on by that while a rolling update goes on: who is there renews his certificate by
// himself, and no task is touched; who was cut off until it had expired is the same node again, by its
// join token and its old key, and its tasks go on.
func TestCertificatesExpire(t *testing.T) {
	// V3 and V6 go by times that agents and the server write, which jump with their clocks.
	c := start(t, bench.Options{Nodes: []bench.Node{}, Clocked: programs.Clocked(t), Config: unconfined(), Unchecked: []string{"V3", "V6"}})
	for _, n := range bench.Ns(3) {
		c.JoinLate(n, 0)
	}
	c.Until(20*time.Second, "all are ready", func() (bool, any) { n := c.Ready(); return n == 3, n })
	job := func(version int) bench.Job {
		return bench.Job{
			Name: "web", Count: 4, Constraints: []string{"node.name != n3"}, Command: []string{"sleep", "1001"},
			More: "update {\n parallelism = 1\n monitor = \"1s\"\n}", MoreTask: fmt.Sprintf("env = { V = \"%d\" }", version),
		}
	}
	c.RunJobsWait(30*time.Second, job(1), bench.Job{Name: "still", Count: 3, Command: []string{"sleep", "1000"}},
		bench.Job{Name: "waits", Constraints: []string{"node.name == n3"}, Command: []string{"sleep", "1003"}, More: `on_lost = "wait"`})
	before := map[int]string{} // of still
	for _, p := range c.Processes() {
		if strings.HasPrefix(p.Task, "still/") {
			before[p.PID] = p.Node
		}
	}
	if len(before) != 3 {
		t.Fatalf("still runs as %v", before)
	}
	agents := []*bench.Agent{c.Agent("n1"), c.Agent("n2")}
	n3 := c.Agent("n3")
	n3.Cut()
	c.NodeState(15*time.Second, "n3", "down")
	c.Until(15*time.Second, "what ran on n3 runs elsewhere", func() (bool, any) { got := on(c, "still"); return got["n1"]+got["n2"] == 3, got })

	c.RunJobs(job(2))
	shift := func(by time.Duration) {
		c.ShiftClock(by)
		for _, a := range append(agents, n3) {
			a.ShiftClock(by)
		}
	}
	shift(61 * day)
	c.Until(40*time.Second, "those that are there have renewed their certificates", func() (bool, any) {
		for _, a := range agents {
			if !strings.Contains(a.Log(), "certificate renewed") {
				return false, a.Node.Name
			}
		}
		return true, nil
	})
	shift(100 * day) // the first certificates have expired
	for _, a := range agents {
		a.Kill()
		a.Restart() // with the new ones
	}
	c.Until(60*time.Second, "the update is over, and all that can be are ready", func() (bool, any) {
		running := c.Running("web")
		for _, task := range running {
			if task.JobVersion != 2 {
				return false, task
			}
		}
		return len(running) == 4 && c.Ready() == 2, running
	})
	now := pids(c)
	for pid, node := range before {
		if node != "n3" && now[pid] != node {
			t.Errorf("process %d of %s is gone; there are %v", pid, node, now)
		}
	}

	kept, id := processOf(c, "waits"), c.Node("n3").ID
	if kept == 0 {
		t.Fatal("the task that waits for n3 does not run there any more")
	}
	n3.Mend() // its configuration names a join token
	c.NodeState(30*time.Second, "n3", "ready")
	if log := n3.Log(); !strings.Contains(log, "joined again as the same node") {
		t.Errorf("the agent does not say how it came back:\n%s", log)
	}
	if now := c.Node("n3").ID; now != id {
		t.Errorf("n3 is node %s, and was %s", now, id)
	}
	if now := processOf(c, "waits"); now != kept {
		t.Errorf("the task that waited is process %d, and was %d", now, kept)
	}
	c.RunJobsWait(20*time.Second, bench.Job{Name: "new", Constraints: []string{"node.name == n3"}, Command: []string{"sleep", "1002"}})
}

// processOf returns the process of a job's only task; 0 if there is none.
func processOf(c *bench.Cluster, job string) int {
	for _, p := range c.Processes() {
		if strings.HasPrefix(p.Task, job+"/") {
			return p.PID
		}
	}
	return 0
}

// unconfined is the configuration of plugins that can read the clock which the server has.
func unconfined() string {
	var config strings.Builder
	for _, name := range []string{"constraint", "drain", "global"} {
		fmt.Fprintf(&config, "plugin %q {\n  sandbox = \"off\"\n}\n", name)
	}
	return config.String()
}
