package scenarios

import (
	"fmt"
	"testing"
	"time"

	"github.com/setpointd/setpoint/test/internal/bench"
)

// anEdit changes a job in a way that has nothing to do with where it may run.
type anEdit struct {
	name   string
	typ    string
	during bool // during the outage; else before it
	brief  bool // played in brief too
	edit   func(c *bench.Cluster, run func(change func(*bench.Job)))
}

// edits are those of a waiting job, each once before and once during the outage.
func edits() []anEdit {
	labelled := func(label string) func(*bench.Job) {
		return func(j *bench.Job) { j.More += fmt.Sprintf("  labels = { note = %q }\n", label) }
	}
	kinds := []anEdit{
		{name: "a label", brief: true, edit: func(_ *bench.Cluster, run func(func(*bench.Job))) { run(labelled("edited")) }},
		{name: "a label of a global job", typ: "global", brief: true, edit: func(_ *bench.Cluster, run func(func(*bench.Job))) { run(labelled("edited")) }},
		{name: "a label and a killed server", brief: true, edit: func(c *bench.Cluster, run func(func(*bench.Job))) {
			run(labelled("edited"))
			c.KillServer()
			c.StartServer()
		}},
		{name: "ten labels", edit: func(_ *bench.Cluster, run func(func(*bench.Job))) {
			for i := range 10 {
				run(labelled(fmt.Sprint(i)))
			}
		}},
		{name: "the restart policy", edit: func(_ *bench.Cluster, run func(func(*bench.Job))) {
			run(func(j *bench.Job) { j.More += "  restart {\n    attempts = 7\n  }\n" })
		}},
		{name: "the update's limits", edit: func(_ *bench.Cluster, run func(func(*bench.Job))) {
			run(func(j *bench.Job) { j.More += "  update {\n    monitor = \"2s\"\n    parallelism = 3\n  }\n" })
		}},
		{name: "the count, there and back", edit: func(c *bench.Cluster, _ func(func(*bench.Job))) {
			c.Must("job", "scale", "a", "2")
			c.Must("job", "scale", "a", "1")
		}},
	}
	var out []anEdit
	for _, e := range kinds {
		before, during := e, e
		during.during = true
		before.brief = e.brief && e.typ != ""
		out = append(out, before, during)
	}
	return out
}

// The only node that two jobs can use is off. One of them is edited, in a way that has nothing to do with its waiting. When the node is back both run, at the
// same time: an edit must not lose a waiting task.
func Test02EditOfAWaitingJob(t *testing.T) {
	for _, e := range edits() {
		if !e.brief && !full() {
			continue
		}
		when := "before"
		if e.during {
			when = "during"
		}
		t.Run(e.name+" "+when+" the outage", func(t *testing.T) { editOfAWaitingJob(t, e) })
	}
}

func editOfAWaitingJob(t *testing.T, e anEdit) {
	c := start(t, bench.Options{Nodes: []bench.Node{bench.N("n1", "ssd=1"), bench.N("n2")}})
	a := bench.Job{Name: "a", Type: e.typ, Constraints: []string{"node.labels.ssd == 1"}}
	b := a
	b.Name = "b"
	c.RunJobsWait(20*time.Second, a, b)
	edit := func(change func(*bench.Job)) {
		changed := a
		change(&changed)
		c.RunJobs(changed)
	}
	if !e.during {
		e.edit(c, edit)
		c.RunningCount(bench.Soon, "a", 1)
	}

	c.Agent("n1").PowerOff()
	off := time.Now()
	at := func(brief, whole time.Duration) { c.Pass(time.Until(off.Add(scaled(brief, whole)))) }
	c.NodeState(10*time.Second, "n1", "down")
	waiting := map[string]string{}
	for _, job := range []string{"a", "b"} {
		if e.typ == "" {
			waiting[job] = waitsFor(c, job, map[string]int{"constraint": 1, "node_down": 1})
		} else {
			c.Stall(bench.Soon, job, "node_down")
		}
	}
	at(0, 10*time.Second)
	if e.during {
		e.edit(c, edit)
	}
	for _, later := range []time.Duration{12 * time.Second, 15 * time.Second, 20 * time.Second} { // turns that have nothing to do with it
		at(0, later)
		c.RunJobs(bench.Job{Name: "trivial"})
		c.Must("job", "rm", "trivial", "--wait", "10s")
	}
	at(8*time.Second, 30*time.Second)

	before := c.Lives("")
	c.Agent("n1").PowerOn()
	c.RunningCount(10*time.Second, "a", 1)
	c.RunningCount(2*time.Second, "b", 1)
	for _, job := range []string{"a", "b"} {
		c.Until(time.Second, job+" has one record that lives", func() (bool, any) {
			live := c.Live(job)
			return len(live) == 1 && live[0].Node == "n1", live
		})
		c.NoStall(time.Second, job)
		if id := c.Live(job)[0].ID; waiting[job] != "" && id != waiting[job] {
			for _, task := range c.Records(job) {
				if task.ID == waiting[job] {
					t.Errorf("%s waited, %s runs, and there is still a record of the first: %+v", waiting[job], id, task)
				}
			}
		}
	}
	c.Pass(scaled(3*time.Second, 10*time.Second))
	starts := c.Lives("")[len(before):]
	if len(starts) != 2 || starts[0].Job == starts[1].Job {
		t.Fatalf("started after the return: %+v", starts)
	}
	if apart := starts[1].Started.Sub(starts[0].Started); apart > 2*time.Second {
		t.Errorf("%s and %s started %s after each other", starts[0].Task, starts[1].Task, apart)
	}
}

// waitsFor waits until the one task of a job that waits says why, with these counts, and returns its id.
func waitsFor(c *bench.Cluster, job string, want map[string]int) string {
	id := ""
	c.Until(bench.Soon, fmt.Sprintf("a task of %s waits because of %v", job, want), func() (bool, any) {
		waiting := 0
		for _, task := range c.Live(job) {
			if !task.Waiting() {
				continue
			}
			waiting++
			id = task.ID
			if len(task.Stalls) != 1 || fmt.Sprint(task.Stalls[0].Facts.Counts()) != fmt.Sprint(want) {
				return false, task
			}
		}
		return waiting == 1, waiting
	})
	return id
}
