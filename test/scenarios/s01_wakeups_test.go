package scenarios

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/test/internal/bench"
)

// Whoever waits is asked again when anything relevant changes, and nobody needs to ask again for it.

// A task waits for what another one holds. It starts once that one was seen to stop: not before, and at once.
func Test01AFreedResources(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(1)})
	c.RunJobsWait(20*time.Second, bench.Job{Name: "big", CPU: 3, Sim: map[string]string{"stop_delay": "3s"}})
	c.RunJobs(bench.Job{Name: "small", CPU: 2})
	stall := c.Stall(bench.Soon, "small", "insufficient_resources")
	if e := stall.Facts.Excluded; stall.Facts.Nodes != 1 || len(e) != 1 || e[0].Count != 1 || e[0].Detail != "cpu" {
		t.Errorf("facts: %+v", stall.Facts)
	}
	if why := c.Why("small/1"); !strings.Contains(why.Sentence, "want 2") || !strings.Contains(why.Sentence, "free 1") {
		t.Errorf("it does not say that 2 CPU are wanted and 1 is free: %s", why.Sentence)
	}

	c.RemoveJob("big")
	c.RunningCount(10*time.Second, "small", 1)
	if took := c.NoStall(bench.Soon, "small"); took > time.Second {
		t.Errorf("the stall stood for %s after the task ran", took)
	}
	big, small := only(t, c.Lives("big")), only(t, c.Lives("small"))
	if stopped := big.Ended.Sub(big.StopAsked); stopped < 2900*time.Millisecond {
		t.Errorf("big stopped within %s, and its stop takes 3 s", stopped)
	}
	if after := small.Started.Sub(big.Ended); after < 0 || after > 5*time.Second {
		t.Errorf("small started %s after big's stop", after)
	}
}

func only(t *testing.T, lives []bench.Life) bench.Life {
	t.Helper()
	if len(lives) != 1 {
		t.Fatalf("want one life, not %+v", lives)
	}
	return lives[0]
}

// Room for 80 of 100 jobs, and a node joins: the other 20 start, and the 80 never notice.
func Test01BNewCapacity(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(2)})
	var jobs []bench.Job
	for i := range 100 {
		jobs = append(jobs, bench.Job{Name: fmt.Sprintf("j%d", i)})
	}
	c.RunJobs(jobs...)
	c.Until(20*time.Second, "80 run and 20 wait", func() (bool, any) {
		running, waiting := len(c.Running("")), 0
		for _, task := range c.Live("") {
			if task.Waiting() && len(task.Stalls) == 1 && task.Stalls[0].Code == "insufficient_resources" {
				waiting++
			}
		}
		return running == 80 && waiting == 20, []int{running, waiting}
	})
	before := c.Lives("")
	if len(before) != 80 {
		t.Fatalf("%d tasks were started, want 80", len(before))
	}

	began := time.Now()
	c.Join(bench.N("n3"))
	joined := time.Now()
	c.RunningCount(15*time.Second, "", 100)
	if took := time.Since(joined); took > 10*time.Second {
		t.Errorf("100 ran %s after the node had joined", took)
	}
	after := c.Lives("")
	if len(after) != 100 {
		t.Errorf("%d starts in all, want 100", len(after))
	}
	for _, l := range after[min(80, len(after)):] {
		if l.Node != "n3" || l.Started.Before(began) {
			t.Errorf("started besides: %+v", l)
		}
	}
	for _, l := range after {
		if !l.StopAsked.IsZero() || !l.Ended.IsZero() {
			t.Errorf("stopped: %+v", l)
		}
	}
	if stalls := c.Stalls(""); len(stalls) != 0 {
		t.Errorf("stalls are left: %+v", stalls)
	}
}

// A global job misses one node because another job fills it, says so with the node's name, and comes there when that job goes.
func Test01CPerNodeTask(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(2)})
	c.RunJobsWait(20*time.Second, bench.Job{Name: "a", CPU: 4, Constraints: []string{"node.name == n1"}})
	c.RunJobs(bench.Job{Name: "log", Type: "global", CPU: 1})
	stall := c.Stall(bench.Soon, "log", "insufficient_resources")
	if e := stall.Facts.Excluded; stall.Facts.Nodes != 1 || len(e) != 1 || !slices.Equal(e[0].Nodes, []string{"n1"}) {
		t.Errorf("it waits for n1 alone, and says %+v", stall.Facts)
	}
	c.RunningCount(bench.Soon, "log", 1)

	c.RemoveJob("a")
	c.RunningCount(bench.Soon, "log", 2)
	c.NoStall(time.Second, "log")
}

// The constraint plugin takes two seconds for an answer, and the label that the answer is about changes meanwhile. No other event follows, and the task
// must run all the same.
func Test01DChangeDuringSlowDecision(t *testing.T) {
	b := programs.Binaries(t)
	c := start(t, bench.Options{Nodes: bench.Ns(2), Config: fmt.Sprintf(`plugin "constraint" {
  path    = %q
  args    = ["constraint", "-match-delay", "1s"]
  timeout = "20s"
}`, b.Plugin)})
	rounds, worst := scaled(2, 50), time.Duration(0)
	for round := range rounds {
		job := fmt.Sprintf("x%d", round)
		c.RunJobs(bench.Job{Name: job, Constraints: []string{"node.labels.ssd == 1"}})
		c.Pass(time.Duration(rand.Int64N(int64(2 * time.Second))))
		c.Label("n2", "ssd=1")
		worst = max(worst, c.RunningCount(9*time.Second, job, 1))
		c.RemoveJob(job)
		c.Label("n2", "ssd-")
		c.Until(15*time.Second, "nothing is left of the round", func() (bool, any) {
			tasks := c.Tasks(job)
			return len(tasks) == 0 && len(c.Alive("")) == 0, tasks
		})
	}
	t.Logf("%d of %d ran, the slowest %s after the label was set", rounds, rounds, worst.Round(time.Millisecond))
}

// The filter refuses the job itself as it is, wherever it might run. Once the job has the label that the filter wants, it runs, and nobody needs to do more.
func Test01EWaitingJobChanges(t *testing.T) {
	b := programs.Binaries(t)
	c := start(t, bench.Options{Nodes: bench.Ns(2), Config: pluginBlock("constraint", b.Plugin, []string{"constraint", "-needs", "ok=1"}, "")})
	job := bench.Job{Name: "x"}
	c.RunJobs(job)
	stall := c.Stall(bench.Soon, "x", "constraint")
	if stall.Facts.Counts()["constraint"] != 2 {
		t.Errorf("facts: %+v", stall.Facts)
	}
	waiting := c.Live("x")
	c.Pass(scaled(3*time.Second, 20*time.Second))
	job.More = "  labels = { ok = \"1\" }\n"
	c.RunJobs(job)
	c.RunningCount(bench.Soon, "x", 1)
	c.NoStall(time.Second, "x")
	if now := c.Live("x"); len(now) != 1 || len(waiting) != 1 || now[0].ID != waiting[0].ID {
		t.Errorf("%+v waited, and %+v runs", waiting, now)
	}
}
