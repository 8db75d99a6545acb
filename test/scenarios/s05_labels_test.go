package scenarios

import (
	"encoding/json"
	"fmt"
	"slices"
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

// A label goes from one node of three and then from the others: tasks move within the job's limit, and when all labels are back they are spread again.
func Test05BMovesKeepTheLimit(t *testing.T) {
	c := start(t, bench.Options{Nodes: []bench.Node{bench.N("n1", "zone=a"), bench.N("n2", "zone=a"), bench.N("n3", "zone=a"), bench.N("n4")}})
	c.RunJobsWait(20*time.Second, bench.Job{Name: "web", Count: 6, Constraints: []string{"node.labels.zone == a"}, MaxUnavailable: "2"})
	onNodes(c, "web", map[string]int{"n1": 2, "n2": 2, "n3": 2})

	began := time.Now()
	c.Label("n1", "zone-")
	c.Until(20*time.Second, "web runs three times on n2 and on n3", func() (bool, any) {
		on := aliveCounts(c, "web")
		return on["n2"] == 3 && on["n3"] == 3 && len(on) == 2 && len(c.Running("web")) == 6, on
	})
	if fewest := bench.FewestAlive(c.Lives("web"), began, time.Now()); fewest < 4 {
		t.Errorf("%d of 6 ran at a time; 2 may be away", fewest)
	}

	c.Label("n2", "zone-")
	c.Label("n3", "zone-")
	c.Pass(scaled(4*time.Second, 30*time.Second))
	if fewest := bench.FewestAlive(c.Lives("web"), began, time.Now()); fewest < 4 {
		t.Errorf("%d of 6 ran at a time; 2 may be away, and no more can come up", fewest)
	}
	for _, n := range []string{"n1", "n2", "n3"} {
		c.Label(n, "zone=a")
	}
	c.RunningCount(15*time.Second, "web", 6)
	on := aliveCounts(c, "web")
	for _, n := range []string{"n1", "n2", "n3"} {
		if on[n] < 1 || on[n] > 3 {
			t.Errorf("spread as %v", on)
		}
	}
	c.NoStall(bench.Soon, "web")
}

func aliveCounts(c *bench.Cluster, job string) map[string]int {
	on := map[string]int{}
	for _, l := range c.Alive(job) {
		on[l.Node]++
	}
	return on
}

// What a job asks for now counts, not what it asked for when its tasks started; and the label command says beforehand which tasks it moves.
func Test05CThePresentRuleCounts(t *testing.T) {
	c := start(t, bench.Options{Nodes: []bench.Node{bench.N("n1", "a=1", "b=1"), bench.N("n2", "a=1", "b=1")}})
	job := bench.Job{Name: "web", Count: 2, Constraints: []string{"node.labels.a == 1"}}
	c.RunJobsWait(20*time.Second, job)
	onNodes(c, "web", map[string]int{"n1": 1, "n2": 1})
	job.Constraints = []string{"node.labels.b == 1"}
	c.RunJobsWait(20*time.Second, job)
	if moves := moves(t, c, "n1", "a-"); len(moves) != 0 {
		t.Errorf("a label that nobody asks for any more moves %v", moves)
	}
	c.Label("n1", "a-")
	c.During(scaled(2*time.Second, 10*time.Second), "nothing happens", func() (bool, any) {
		lives := c.Lives("web")
		return len(lives) == 2 && len(c.Alive("web")) == 2, lives
	})

	want := ""
	for _, task := range c.Running("web") {
		if task.Node == "n1" {
			want = task.ID
		}
	}
	if moves := moves(t, c, "n1", "b-"); !slices.Equal(moves, []string{want}) {
		t.Errorf("it is said to move %v, want %s", moves, want)
	}
	began := time.Now()
	c.Label("n1", "b-")
	onNodes(c, "web", map[string]int{"n2": 2})
	if fewest := bench.FewestAlive(c.Lives("web"), began, time.Now()); fewest < 1 {
		t.Error("none ran for a time; one of two may be away")
	}
	if starts := len(c.Lives("web")); starts != 3 {
		t.Errorf("%d starts, want 3", starts)
	}
}

// moves returns which running tasks a change of labels would move.
func moves(t *testing.T, c *bench.Cluster, node, label string) []string {
	t.Helper()
	r := c.CLI("node", "label", node, label, "--dry-run", "-o", "json") // its exit code says whether something would stall
	var said struct {
		Moves []string `json:"moves"`
	}
	if err := json.Unmarshal([]byte(r.Stdout), &said); err != nil {
		t.Fatalf("%v: %s", err, r)
	}
	if text := c.CLI("node", "label", node, label, "--dry-run").Stdout; len(said.Moves) > 0 && !containsAll(text, said.Moves) {
		t.Errorf("the text form does not name %v: %s", said.Moves, text)
	}
	return said.Moves
}

// A label that comes and goes twice a second: when that ends everything settles, and meanwhile no task is worn out by it.
func Test05EFlappingLabel(t *testing.T) {
	c := start(t, bench.Options{Nodes: []bench.Node{bench.N("n1", "ssd=1"), bench.N("n2")}})
	c.RunJobsWait(20*time.Second, bench.Job{Name: "web", Count: 2, Constraints: []string{"node.labels.ssd == 1"}, MaxUnavailable: "1"})
	for range scaled(6, 20) {
		c.Label("n1", "ssd-")
		c.Pass(500 * time.Millisecond)
		c.Label("n1", "ssd=1")
		c.Pass(500 * time.Millisecond)
	}
	took := c.RunningCount(15*time.Second, "web", 2)
	c.NoStall(time.Second, "web")
	lives := c.Lives("web")
	t.Logf("settled %s after the last change, %d starts in all", took.Round(time.Millisecond), len(lives))
	c.During(3*time.Second, "it stays so", func() (bool, any) {
		now := c.Lives("web")
		return len(now) == len(lives), fmt.Sprint(now)
	})
}
