package scenarios

import (
	"fmt"
	"testing"
	"time"

	"github.com/setpointd/setpoint/test/internal/bench"
)

// The only node that two jobs can use is off. One of them is edited meanwhile, in a way that has nothing to do with its waiting. When the node is back both
// run, at the same time: an edit must not lose a waiting task.
func Test02EditOfAWaitingJob(t *testing.T) {
	labelled := func(label string) func(*bench.Job) {
		return func(j *bench.Job) { j.More = fmt.Sprintf("  labels = { note = %q }\n", label) }
	}
	edits := []struct {
		name  string
		brief bool // played in brief too
		typ   string
		edit  func(c *bench.Cluster, run func(change func(*bench.Job)))
	}{
		{"a label", true, "", func(_ *bench.Cluster, run func(func(*bench.Job))) { run(labelled("edited")) }},
		{"a label and a killed server", true, "", func(c *bench.Cluster, run func(func(*bench.Job))) {
			run(labelled("edited"))
			c.KillServer()
			c.StartServer()
		}},
		{"a label of a global job", false, "global", func(_ *bench.Cluster, run func(func(*bench.Job))) { run(labelled("edited")) }},
		{"ten labels", false, "", func(_ *bench.Cluster, run func(func(*bench.Job))) {
			for i := range 10 {
				run(labelled(fmt.Sprint(i)))
			}
		}},
		{"the restart policy", false, "", func(_ *bench.Cluster, run func(func(*bench.Job))) {
			run(func(j *bench.Job) { j.More = "  restart {\n    attempts = 7\n  }\n" })
		}},
		{"the update's limits", false, "", func(_ *bench.Cluster, run func(func(*bench.Job))) {
			run(func(j *bench.Job) { j.More = "  update {\n    monitor = \"2s\"\n    parallelism = 3\n  }\n" })
		}},
		{"the count, there and back", false, "", func(c *bench.Cluster, _ func(func(*bench.Job))) {
			c.Must("job", "scale", "a", "2")
			c.Must("job", "scale", "a", "1")
		}},
	}
	for _, tt := range edits {
		if !tt.brief && !full() {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			c := start(t, bench.Options{Nodes: []bench.Node{bench.N("n1", "ssd=1"), bench.N("n2")}})
			a := bench.Job{Name: "a", Type: tt.typ, Constraints: []string{"node.labels.ssd == 1"}}
			b := a
			b.Name = "b"
			c.RunJobsWait(20*time.Second, a, b)
			c.Agent("n1").PowerOff()
			off := time.Now()
			c.NodeState(10*time.Second, "n1", "down")
			if tt.typ == "" {
				for _, job := range []string{"a", "b"} {
					waitsFor(c, job, map[string]int{"constraint": 1, "node_down": 1})
				}
			}
			tt.edit(c, func(change func(*bench.Job)) {
				changed := a
				change(&changed)
				c.RunJobs(changed)
			})
			for range 3 { // turns that have nothing to do with it
				c.RunJobs(bench.Job{Name: "trivial"})
				c.Must("job", "rm", "trivial", "--wait", "10s")
			}
			c.Pass(time.Until(off.Add(scaled(8*time.Second, 30*time.Second))))

			before := len(c.Lives(""))
			c.Agent("n1").PowerOn()
			first := c.RunningCount(10*time.Second, "a", 1)
			if second := c.RunningCount(2*time.Second, "b", 1); second > 2*time.Second {
				t.Errorf("a ran after %s, b %s later", first, second)
			}
			for _, job := range []string{"a", "b"} {
				c.Until(time.Second, job+" has one record that lives", func() (bool, any) {
					live := c.Live(job)
					return len(live) == 1 && live[0].Node == "n1", live
				})
				c.NoStall(time.Second, job)
			}
			c.Pass(scaled(3*time.Second, 10*time.Second))
			if starts := c.Lives("")[before:]; len(starts) != 2 {
				t.Errorf("started after the return: %+v", starts)
			}
		})
	}
}

// waitsFor waits until the one task of a job that waits says why, with these counts.
func waitsFor(c *bench.Cluster, job string, want map[string]int) {
	c.Until(bench.Soon, fmt.Sprintf("a task of %s waits because of %v", job, want), func() (bool, any) {
		waiting := 0
		for _, task := range c.Live(job) {
			if !task.Waiting() {
				continue
			}
			waiting++
			if len(task.Stalls) != 1 || fmt.Sprint(task.Stalls[0].Facts.Counts()) != fmt.Sprint(want) {
				return false, task
			}
		}
		return waiting == 1, waiting
	})
}
