package netns

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/test/internal/bench"
)

// Three machines join and share the work; one is cut off, its tasks are replaced, and when the cable is mended what ran there meanwhile is stopped.
func TestACutCable(t *testing.T) {
	c := start(t, bench.Options{})
	c.RunJobsWait(30*time.Second, bench.Job{Name: "web", Count: 6, Command: []string{"sleep", "1000"}, Grace: "2s"})
	if got := on(c, "web"); !maps.Equal(got, map[string]int{"n1": 2, "n2": 2, "n3": 2}) {
		t.Errorf("web runs on %v", got)
	}
	before := pids(c)
	n2 := c.Agent("n2")
	n2.Cut()
	took := c.NodeState(10*time.Second, "n2", "down")
	t.Logf("down %s after the cut", took)
	c.Until(15*time.Second, "web runs on n1 and n3", func() (bool, any) {
		got := on(c, "web")
		return maps.Equal(got, map[string]int{"n1": 3, "n3": 3}), got
	})
	alone := 0
	for _, node := range pids(c) {
		if node == "n2" {
			alone++
		}
	}
	if alone != 2 {
		t.Errorf("%d tasks run on the node that is cut off, want its two", alone)
	}
	n2.Mend()
	c.NodeState(20*time.Second, "n2", "ready")
	c.Until(15*time.Second, "what ran on n2 has stopped, and the rest runs on", func() (bool, any) {
		now := pids(c)
		for pid, node := range now {
			if node == "n2" {
				return false, now
			}
			delete(before, pid)
		}
		return len(now) == 6, now
	})
	for pid, node := range before {
		if node != "n2" {
			t.Errorf("process %d of %s was stopped, and nothing was wrong with it", pid, node)
		}
	}
}

// A cable that carries in one direction only is as good as none: the node counts as down, and is back once it carries in both.
func TestOneDirectionOnly(t *testing.T) {
	c := start(t, bench.Options{})
	c.RunJobsWait(30*time.Second, bench.Job{Name: "web", Count: 3})
	n1 := c.Agent("n1")
	for what, share := range map[string][2]float64{"nothing comes in": {1, 0}, "nothing goes out": {0, 1}} {
		mend := n1.Lose(share[0], share[1])
		took := c.NodeState(15*time.Second, "n1", "down")
		c.Until(15*time.Second, what+": web runs elsewhere", func() (bool, any) {
			got := on(c, "web")
			return got["n2"]+got["n3"] == 3, got
		})
		mend()
		back := c.NodeState(30*time.Second, "n1", "ready")
		t.Logf("%s: down after %s, ready %s after it was mended", what, took, back)
		c.Until(15*time.Second, "once each", func() (bool, any) { alive := c.Alive("web"); return len(alive) == 3, alive })
	}
}

// On a bad cable everything takes longer, and nothing goes wrong: a tenth of the packets is lost in each direction, and no node counts as down.
func TestABadCable(t *testing.T) {
	c := start(t, bench.Options{Config: ""})
	mend := c.Agent("n3").Lose(0.1, 0.1)
	c.RunJobsWait(60*time.Second, bench.Job{Name: "web", Count: 6})
	c.RunJobsWait(60*time.Second, bench.Job{Name: "web", Count: 6, MoreTask: "env = { V = \"2\" }", More: "update {\n parallelism = 2\n monitor = \"1s\"\n}"})
	c.During(5*time.Second, "all are ready", func() (bool, any) { n := c.Ready(); return n == 3, n })
	mend()
	if lives := c.Lives("web"); len(lives) != 12 {
		t.Errorf("%d tasks were started, want six of each version", len(lives))
	}
}

// A cable is cut while a rolling update is at each of its phases: the update goes on when the node is gone for good or back, and never takes more down than allowed.
func TestACutDuringARollingUpdate(t *testing.T) {
	c := start(t, bench.Options{})
	job := func(version int) bench.Job {
		return bench.Job{
			Name: "web", Count: 6, MaxUnavailable: "3", Sim: map[string]string{"start_delay": "1s", "stop_delay": "1s"},
			More: "update {\n parallelism = 1\n monitor = \"1s\"\n}", MoreTask: fmt.Sprintf("env = { V = \"%d\" }", version),
		}
	}
	c.RunJobsWait(60*time.Second, job(1))
	phases := []struct {
		name string
		at   func(task bench.Task, version uint64) bool
	}{
		{"stopping", func(task bench.Task, version uint64) bool {
			return task.JobVersion < version && task.Desired.State == "shutdown" && !task.Dead
		}},
		{"starting", func(task bench.Task, version uint64) bool {
			return task.JobVersion == version && task.Observed.State != "running" && task.Node != ""
		}},
		{"up", func(task bench.Task, version uint64) bool {
			return task.JobVersion == version && task.Observed.State == "running"
		}},
	}
	for i, phase := range phases {
		version := uint64(i + 2)
		c.RunJobs(job(int(version)))
		var node string
		c.Until(30*time.Second, "a task is "+phase.name, func() (bool, any) {
			for _, task := range c.Tasks("web") {
				if phase.at(task, version) {
					node = task.Node
					return true, nil
				}
			}
			return false, c.Tasks("web")
		})
		a := c.Agent(node)
		a.Cut()
		c.NodeState(15*time.Second, node, "down")
		a.Mend()
		c.NodeState(30*time.Second, node, "ready")
		c.Until(90*time.Second, "the update is over", func() (bool, any) {
			for _, task := range c.Running("web") {
				if task.JobVersion != version {
					return false, task
				}
			}
			return len(c.Running("web")) == 6 && len(c.Alive("web")) == 6, c.Alive("web")
		})
		t.Logf("cut while a task was %s on %s", phase.name, node)
	}
}

// The server is away for a while: tasks run on, and nothing is started again when it is back.
func TestTheServerIsAway(t *testing.T) {
	c := start(t, bench.Options{})
	c.RunJobsWait(30*time.Second, bench.Job{Name: "web", Count: 6, Command: []string{"sleep", "1000"}})
	before := pids(c)
	c.KillServer()
	c.Pass(8 * time.Second)
	if now := pids(c); !maps.Equal(now, before) {
		t.Errorf("without a server %v became %v", before, now)
	}
	c.StartServer()
	c.Until(20*time.Second, "all nodes are ready", func() (bool, any) { n := c.Ready(); return n == 3, n })
	c.Pass(3 * time.Second)
	if now := pids(c); !maps.Equal(now, before) {
		t.Errorf("when the server was back %v became %v", before, now)
	}
	if records := c.Records("web"); len(records) != 6 {
		t.Errorf("%d tasks were made, want 6", len(records))
	}
}

// Agents are replaced by another version, one after the other: no task is touched, and the nodes say the new version.
func TestAgentsAreUpgraded(t *testing.T) {
	c := start(t, bench.Options{})
	next := programs.Version(t, "9.9.9")
	c.RunJobsWait(30*time.Second, bench.Job{Name: "web", Count: 6, Command: []string{"sleep", "1000"}})
	before := pids(c)
	for _, n := range bench.Ns(3) {
		c.Agent(n.Name).Upgrade(next)
		c.Until(15*time.Second, n.Name+" says its new version", func() (bool, any) {
			out := c.Must("node", "inspect", n.Name).Stdout
			return strings.Contains(out, "9.9.9"), out
		})
	}
	if now := pids(c); !maps.Equal(now, before) || len(before) != 6 {
		t.Errorf("%v became %v", before, now)
	}
	c.Must("job", "stop", "web")
	c.Until(15*time.Second, "the new agents stop what the old ones started", func() (bool, any) { now := pids(c); return len(now) == 0, now })
}

// Over a line on which everything takes three tenths of a second in each direction, everything works, and no node counts as silent.
func TestALongLine(t *testing.T) {
	c := start(t, bench.Options{Relayed: []string{"n3"}})
	c.Relay("n3").Delay(300 * time.Millisecond)
	revision := c.Status().Revision
	job := bench.Job{Name: "web", Count: 6, More: "update {\n parallelism = 2\n monitor = \"1s\"\n}"}
	c.RunJobsWait(60*time.Second, job)
	job.MoreTask = "env = { V = \"2\" }"
	c.RunJobsWait(60*time.Second, job)
	c.KillServer()
	c.StartServer()
	c.Until(10*time.Second, "all are ready", func() (bool, any) { n := c.Ready(); return n == 3, n })
	for _, e := range c.EventsFrom(revision, "") {
		if e.Kind == "node_state" && strings.Contains(e.Text, "down") {
			t.Errorf("%+v", e)
		}
	}
	if got := on(c, "web"); !maps.Equal(got, map[string]int{"n1": 2, "n2": 2, "n3": 2}) {
		t.Errorf("web runs on %v", got)
	}
	if lives := c.Lives("web"); len(lives) != 12 {
		t.Errorf("%d tasks were started, want six of each version", len(lives))
	}
}
