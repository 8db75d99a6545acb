package plugins

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/test/internal/bench"
)

// names are the plugins that are run.
var names = []string{"cel", "cron", "new-drainer", "new-filter", "new-job-type", "one-per"}

func start(t *testing.T) *bench.Cluster {
	t.Helper()
	dir := os.Getenv("SETPOINT_PLUGINS")
	if dir == "" {
		t.Skip("SETPOINT_PLUGINS names no directory with built plugins")
	}
	bin, err := bench.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var config strings.Builder
	for _, name := range names {
		fmt.Fprintf(&config, "plugin %q {\n  path = %q\n}\n", name, filepath.Join(dir, name))
	}
	return bench.Start(t, bin, bench.Options{
		Nodes: []bench.Node{bench.N("n1", "rack=r1"), bench.N("n2", "rack=r1"), bench.N("n3", "rack=r2")}, Config: config.String(),
	})
}

func block(plugin string, settings ...string) string {
	return fmt.Sprintf("plugin %q {\n%s\n}\n", plugin, strings.Join(settings, "\n"))
}

// slots returns the slots of a job's running tasks with their nodes, sorted.
func slots(c *bench.Cluster, job string) []string {
	var out []string
	for _, task := range c.Running(job) {
		out = append(out, task.Slot+" on "+task.Node)
	}
	slices.Sort(out)
	return out
}

func await(c *bench.Cluster, job string, want ...string) {
	c.Until(15*time.Second, fmt.Sprintf("%s runs as %v", job, want), func() (bool, any) {
		got := slots(c, job)
		return slices.Equal(got, want), got
	})
}

func TestPluginsOfOthers(t *testing.T) {
	c := start(t)
	c.Until(15*time.Second, "all plugins run", func() (bool, any) {
		running := 0
		for _, p := range c.Plugins() {
			if slices.Contains(names, p.Name) && p.State == "running" {
				running++
			}
		}
		return running == len(names), c.Plugins()
	})
	submitted := time.Now()
	c.RunJobs(bench.Job{Name: "clock", Type: "cron", Command: []string{"/bin/date"}, More: block("cron", `schedule = "* * * * *"`)})

	for _, test := range []struct {
		name string
		run  func(*testing.T, *bench.Cluster)
	}{{"cel", cel}, {"one-per", onePer}, {"new filter", newFilter}, {"new job type", newJobType}, {"new drainer", newDrainer}, {"refused at submit", refused}} {
		t.Run(test.name, func(t *testing.T) { test.run(t, c) })
	}

	if os.Getenv("SETPOINT_SCENARIOS") != "full" { // it takes up to a minute
		c.During(time.Second, "the clock waits for its time without a stall", func() (bool, any) {
			stalls := c.Stalls("clock")
			return len(stalls) == 0, stalls
		})
		return
	}
	c.Until(75*time.Second, "the first run of the clock is complete", func() (bool, any) {
		tasks := c.Tasks("clock")
		return slices.ContainsFunc(tasks, func(task bench.Task) bool {
			at, err := time.Parse("2006-01-02T15:04Z", task.Slot)
			return err == nil && at.After(submitted) && at.Sub(submitted) <= time.Minute && task.Phase == "complete"
		}), tasks
	})
}

func cel(t *testing.T, c *bench.Cluster) {
	c.RunJobs(bench.Job{Name: "picky", More: block("cel", `expr = "node.labels.rack == 'r2' && has(node.labels.disk)"`)})
	stall := c.Stall(10*time.Second, "picky", "constraint")
	if got := stall.Facts.Counts(); got["constraint"] != 3 {
		t.Errorf("excluded %v, want three nodes", got)
	}
	c.Label("n3", "disk=ssd")
	await(c, "picky", "1 on n3")
}

func onePer(_ *testing.T, c *bench.Cluster) {
	c.RunJobs(bench.Job{Name: "cache", Type: "one-per", More: block("one-per", `attribute = "node.labels.rack"`)})
	c.Until(15*time.Second, "one task in each rack", func() (bool, any) {
		got := slots(c, "cache")
		return len(got) == 2 && (got[0] == "r1 on n1" || got[0] == "r1 on n2") && got[1] == "r2 on n3", got
	})
	c.Label("n2", "rack=r9")
	c.Until(15*time.Second, "a third task in the new rack", func() (bool, any) {
		got := slots(c, "cache")
		return slices.Equal(got, []string{"r1 on n1", "r2 on n3", "r9 on n2"}), got
	})
}

func newFilter(_ *testing.T, c *bench.Cluster) {
	c.RunJobs(bench.Job{Name: "filtered", More: block("new-filter", `value = "gold"`)})
	c.Stall(10*time.Second, "filtered", "new-filter.unmet")
	c.Label("n2", "tier=gold")
	await(c, "filtered", "1 on n2")
}

func newJobType(_ *testing.T, c *bench.Cluster) {
	c.RunJobs(bench.Job{Name: "each", Type: "new-job-type", More: block("new-job-type", `each = 2`)})
	c.RunningCount(15*time.Second, "each", 6)
}

func newDrainer(t *testing.T, c *bench.Cluster) {
	c.RunJobs(bench.Job{Name: "patient", More: block("cel", `expr = "node.name == 'n1'"`) + block("new-drainer", `wait = "3s"`)})
	await(c, "patient", "1 on n1")
	c.Drain("n1")
	began := time.Now()
	c.Stall(3*time.Second, "patient", "new-drainer.waits")
	c.Until(15*time.Second, "the task leaves", func() (bool, any) { return len(c.Running("patient")) == 0, c.Tasks("patient") })
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("the task left after %s, want it kept for 3 s", took)
	}
	c.Activate("n1")
}

func refused(t *testing.T, c *bench.Cluster) {
	for text, want := range map[string]string{
		block("cel", `expr = "node.labels.rack = 1"`):   "Syntax error",
		block("new-filter", `valeu = "gold"`):           `unknown setting "valeu", did you mean "value"?`,
		block("cron", `schedule = "tomorrow at eight"`): `"tomorrow at eight" is no schedule`,
	} {
		file := filepath.Join(t.TempDir(), "job.hcl")
		jobType := "replicated"
		if strings.Contains(text, "cron") {
			jobType = "cron"
		}
		if err := os.WriteFile(file, []byte(bench.Job{Name: "wrong", Type: jobType, More: text}.HCL()), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := c.CLI("job", "run", file); r.Code != bench.Refused || !strings.Contains(r.Stdout+r.Stderr, want) {
			t.Errorf("%s\nis answered with %s\nwant %s", text, r, want)
		}
	}
}
