package netns

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/test/internal/bench"
)

// The cluster's authority is replaced while a rolling update goes on and one node is cut off: the update ends as if nothing were, and the node that was away is waited
// for, and gets its certificate when it is back.
func TestTheAuthorityIsReplacedUnderLoad(t *testing.T) {
	c := start(t, bench.Options{})
	job := func(version int) bench.Job {
		return bench.Job{
			Name: "web", Count: 4, Constraints: []string{"node.name != n3"}, Sim: map[string]string{"start_delay": "500ms"},
			More: "update {\n parallelism = 1\n monitor = \"1s\"\n}", MoreTask: fmt.Sprintf("env = { V = \"%d\" }", version),
		}
	}
	c.RunJobsWait(30*time.Second, job(1), bench.Job{Name: "still", Count: 3, Command: []string{"sleep", "1000"}})
	before := pids(c)
	n3 := c.Agent("n3")
	n3.Cut()
	c.NodeState(15*time.Second, "n3", "down")
	c.RunJobs(job(2))
	c.Must("ca", "rotate")
	c.Until(20*time.Second, "those that are there have new certificates", func() (bool, any) {
		out := c.Must("ca", "show").Stdout
		return strings.Contains(out, "2 of 3 have a certificate of the new authority") && strings.Contains(out, "n3"), out
	})
	if r := c.CLI("ca", "finish"); r.Code != bench.Refused || !strings.Contains(r.Stderr, "n3") {
		t.Errorf("it is finished while n3 is away: %s", r)
	}
	n3.Mend()
	c.Until(30*time.Second, "all have new certificates", func() (bool, any) {
		out := c.Must("ca", "show").Stdout
		return strings.Contains(out, "3 of 3 have"), out
	})
	c.Must("ca", "finish")
	c.Until(60*time.Second, "the update is over", func() (bool, any) {
		for _, task := range c.Running("web") {
			if task.JobVersion != 2 {
				return false, task
			}
		}
		return len(c.Running("web")) == 4, c.Running("web")
	})
	c.Until(10*time.Second, "all are ready", func() (bool, any) { n := c.Ready(); return n == 3, n })
	now := pids(c)
	for pid, node := range before {
		if node != "n3" && now[pid] != node {
			t.Errorf("process %d of %s is gone; there are %v", pid, node, now)
		}
	}
}
