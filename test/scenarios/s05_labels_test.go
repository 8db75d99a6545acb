package scenarios

import (
	"testing"
	"time"

	"github.com/setpointd/setpoint/test/internal/bench"
)

// A label is taken away and given back: what ran stops politely, waits and says why, and runs again. That costs no restart.
func Test05ALabelTakenAwayAndGivenBack(t *testing.T) {
	c := start(t, bench.Options{Nodes: []bench.Node{bench.N("n1", "test=activated")}})
	c.RunJobsWait(20*time.Second, bench.Job{
		Name: "job", Count: 5, Constraints: []string{"node.labels.test == activated"}, MaxUnavailable: `"100%"`,
		More: "  restart {\n    attempts = 1\n    window   = \"10m\"\n  }\n",
	})

	c.Label("n1", "test-")
	c.Until(10*time.Second, "all five wait for the label", func() (bool, any) {
		tasks := c.Live("job")
		for _, task := range tasks {
			if !task.Waiting() || len(task.Stalls) != 1 {
				return false, tasks
			}
			if f := task.Stalls[0].Facts; task.Stalls[0].Code != "constraint" || f.Nodes != 1 || f.Counts()["constraint"] != 1 {
				return false, tasks
			}
		}
		return len(tasks) == 5 && len(c.Alive("job")) == 0, tasks
	})
	for _, l := range c.Lives("job") {
		if l.StopAsked.IsZero() || l.StopGrace != 10*time.Second || l.Signal != "TERM" || l.Ended.Sub(l.StopAsked) < 200*time.Millisecond {
			t.Errorf("not stopped politely: %+v", l)
		}
	}
	c.Pass(scaled(4*time.Second, 30*time.Second))
	if starts := len(c.Lives("job")); starts != 5 {
		t.Errorf("%d starts while there was no node", starts)
	}

	c.Label("n1", "test=activated")
	c.RunningCount(10*time.Second, "job", 5)
	c.NoStall(time.Second, "job")
	for _, s := range c.Job("job").Slots {
		if s.Restarts != 0 || s.Backoff != 0 {
			t.Errorf("slot %s has spent %d restarts, back-off %d", s.Key, s.Restarts, s.Backoff)
		}
	}
	if starts := len(c.Lives("job")); starts != 10 {
		t.Errorf("%d starts, want 10", starts)
	}
}
