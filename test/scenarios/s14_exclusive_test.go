package scenarios

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/setpointd/setpoint/test/internal/bench"
)

// orders are the lines of a job block with which its updates go.
func ordered(order string, more string) string {
	return fmt.Sprintf("  update {\n    order   = %q\n    monitor = \"1s\"\n    %s\n  }\n", order, more)
}

// next is a job with another environment: a new version of what runs.
func next(j bench.Job, version int) bench.Job {
	j.MoreTask = fmt.Sprintf("    env = { V = \"%d\" }\n", version)
	return j
}

// gap is how long nothing of a job with one slot ran from its first start on.
func gap(lives []bench.Life) time.Duration {
	var longest time.Duration
	for i := 1; i < len(lives); i++ {
		longest = max(longest, lives[i].Started.Sub(lives[i-1].Ended))
	}
	return longest
}

// A job that holds something of which there is one: the new version can only come once the old one has gone. Start-first falls back to that and says so.
func Test14AOneOfAKind(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(4)})
	stopFirst, startFirst := ordered("stop-first", ""), ordered("start-first", "")
	jobs := []bench.Job{
		{Name: "port-stop", Port: 80, More: stopFirst},
		{Name: "port-start", Port: 80, More: startFirst},
		{Name: "cpu-stop", CPU: 3, More: stopFirst},
		{Name: "cpu-start", CPU: 3, More: startFirst},
	}
	for i := range jobs {
		jobs[i].Constraints = []string{fmt.Sprintf("node.name == n%d", i+1)}
	}
	c.RunJobsWait(20*time.Second, jobs...)
	from := c.Status().Revision + 1
	began := time.Now()
	for i := range jobs {
		jobs[i] = next(jobs[i], 2)
	}
	c.RunJobs(jobs...)
	for _, job := range jobs {
		c.Until(10*time.Second, "the new version of "+job.Name+" runs, and the update is complete", func() (bool, any) {
			running, u := c.Running(job.Name), c.Job(job.Name).Update
			return len(running) == 1 && running[0].JobVersion == 2 && u.State == "completed", running
		})
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s took %s", job.Name, took)
		}
		if lives := c.Lives(job.Name); len(lives) != 2 || gap(lives) > 3*time.Second || gap(lives) < 0 {
			t.Errorf("there were %+v, with %s between them", lives, gap(lives))
		}
		if said := saysFallback(c, from, job.Name); said != strings.HasSuffix(job.Name, "-start") {
			t.Errorf("%s: that it stops first is said: %t", job.Name, said)
		}
		if stalls := c.Stalls(job.Name); len(stalls) != 0 {
			t.Errorf("stalls are left: %+v", stalls)
		}
	}
}

// saysFallback reports whether an event since a revision says that a job's task stops before its replacement starts, and why.
func saysFallback(c *bench.Cluster, from uint64, job string) bool {
	return slices.ContainsFunc(c.EventsFrom(from, job), func(e bench.Event) bool {
		return e.Kind == "task_desired" && strings.Contains(e.Text, "stops first, since its replacement fits only without it")
	})
}

// Each node has as many tasks of the job as the job allows: each move stops first, one at a time.
func Test14BAsManyAsANodeMayHave(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(2)})
	job := bench.Job{Name: "m", Count: 4, More: "  max_per_node = 2\n" + ordered("start-first", "")}
	c.RunJobsWait(20*time.Second, job)
	onNodes(c, "m", map[string]int{"n1": 2, "n2": 2})
	from := c.Status().Revision + 1
	began := time.Now()
	c.RunJobsWait(30*time.Second, next(job, 2))
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
	versions(t, c, "m", 4, 2)
	if fewest := bench.FewestAlive(c.Lives("m"), began, time.Now()); fewest < 3 {
		t.Errorf("%d of 4 ran at a time", fewest)
	}
	if !saysFallback(c, from, "m") {
		t.Error("that tasks stop first is not said")
	}

	// F. A process ends by itself while the job is restarted: the limit of two on a node holds.
	most := neverMore(t, c, "m", 2, func() {
		job.Command = []string{"/bin/sleep", "1000"}
		c.RunJobsWait(30*time.Second, next(job, 3))
		for range scaled(1, 5) {
			processes := c.Processes()
			if err := syscall.Kill(processes[0].PID, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
			c.Wait(40*time.Second, "job", "restart", "m")
			c.RunningCount(2*bench.Soon, "m", 4)
		}
	})
	if most > 2 {
		t.Errorf("%d tasks of m ran on one node", most)
	}
	c.Until(bench.Soon, "two on each node", func() (bool, any) {
		on := map[string]int{}
		for _, p := range c.Processes() {
			on[p.Node]++
		}
		return on["n1"] == 2 && on["n2"] == 2, on
	})
}

// neverMore looks again and again how many tasks of a job are alive on one node while something goes on, and returns the most that it saw.
func neverMore(t *testing.T, c *bench.Cluster, job string, limit int, meanwhile func()) int {
	t.Helper()
	done := make(chan int)
	stop := make(chan struct{})
	go func() {
		most := 0
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			on := map[string]int{}
			for _, l := range c.Alive(job) {
				on[l.Node]++
			}
			for _, p := range c.Processes() {
				on[p.Node]++
			}
			for _, n := range on {
				most = max(most, n)
			}
			select {
			case <-stop:
				done <- most
				return
			case <-tick.C:
			}
		}
	}()
	meanwhile()
	close(stop)
	return <-done
}

// versions checks that so many tasks of a job run, all of one version.
func versions(t *testing.T, c *bench.Cluster, job string, count int, version uint64) {
	t.Helper()
	running := c.Running(job)
	if len(running) != count || slices.ContainsFunc(running, func(x bench.Task) bool { return x.JobVersion != version }) {
		t.Errorf("want %d tasks of version %d: %+v", count, version, running)
	}
}

// A node is away, so two of six tasks wait. An update moves the four that run, and is complete; the two wait with the new version.
func Test14CUpdateWhileSomeWait(t *testing.T) {
	var nodes []bench.Node
	codes := map[string]string{"drained": "node_draining", "paused": "node_paused", "down": "node_down"}
	zones := []string{"drained", "paused", "down"}
	for i, zone := range zones {
		for k := range 3 {
			nodes = append(nodes, bench.N(fmt.Sprintf("n%d", 3*i+k+1), "zone="+zone))
		}
	}
	c := start(t, bench.Options{Nodes: nodes})
	c.Drain("n3")
	c.Pause("n6")
	c.Agent("n9").PowerOff()
	c.NodeState(10*time.Second, "n9", "down")
	jobs := make([]bench.Job, len(zones))
	for i, zone := range zones {
		jobs[i] = bench.Job{
			Name: zone, Count: 6, MaxUnavailable: "3", Constraints: []string{"node.labels.zone == " + zone}, More: "  max_per_node = 2\n" + ordered("start-first", ""),
		}
	}
	waiting := func(job string, version uint64) {
		t.Helper()
		var seen []bench.Task
		for _, x := range c.Live(job) {
			if x.Waiting() {
				seen = append(seen, x)
			}
		}
		if len(seen) != 2 {
			t.Fatalf("want two that wait: %+v", seen)
		}
		for _, x := range seen {
			if len(x.Stalls) != 1 || x.JobVersion != version {
				t.Fatalf("want one stall, and version %d: %+v", version, x)
			}
			want := map[string]int{codes[job]: 1, "one_per_node": 2, "constraint": 6}
			if job != "down" { // that n9 is down comes before that it is in another zone
				want["node_down"], want["constraint"] = 1, 5
			}
			if job != "drained" {
				want["node_draining"], want["constraint"] = 1, want["constraint"]-1
			}
			if job != "paused" {
				want["node_paused"], want["constraint"] = 1, want["constraint"]-1
			}
			if got := x.Stalls[0].Facts.Counts(); !maps.Equal(got, want) {
				t.Errorf("it waits because of %v, want %v", got, want)
			}
		}
	}
	c.RunJobs(jobs...)
	for _, zone := range zones {
		c.RunningCount(2*bench.Soon, zone, 4)
		waiting(zone, 1)
	}
	began := time.Now()
	for i := range jobs {
		jobs[i] = next(jobs[i], 2)
	}
	c.RunJobs(jobs...)
	for _, zone := range zones {
		c.Until(40*time.Second, "the update is complete with two that wait", func() (bool, any) {
			u := c.Job(zone).Update
			return u != nil && u.State == "completed" && u.Message == "completed, 2 waiting" && u.Waiting == 2, u
		})
		versions(t, c, zone, 4, 2)
		waiting(zone, 2)
		if state := c.Job(zone).State; state != "stalled" {
			t.Errorf("the job's state is %q", state)
		}
	}
	t.Logf("complete after %s", time.Since(began).Round(time.Millisecond))
}

// Two jobs want the same port on different nodes, and both have it; a third one waits for the one whose node it wants.
func Test14EPortsAreOfANode(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(2)})
	c.RunJobsWait(20*time.Second,
		bench.Job{Name: "one", Port: 443, Constraints: []string{"node.name == n1"}}, bench.Job{Name: "two", Port: 443, Constraints: []string{"node.name == n2"}})
	c.RunJobs(bench.Job{Name: "three", Port: 443, Constraints: []string{"node.name == n1"}})
	stall := c.Stall(bench.Soon, "three", "port_taken")
	if counts := stall.Facts.Counts(); counts["port_taken"] != 1 || counts["constraint"] != 1 {
		t.Errorf("it waits because of %v", counts)
	}
	why := c.Why("three/1")
	if holder := c.Running("one")[0].ID; !containsAll(why.Sentence, []string{"443", "n1", strings.Join(strings.Split(holder, "/")[:2], "/")}) {
		t.Errorf("it does not name port, node and holder %s: %s", holder, why.Sentence)
	}
	c.RemoveJob("one")
	c.RunningCount(bench.Soon, "three", 1)
	c.NoStall(time.Second, "three")
}
