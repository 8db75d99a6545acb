package scenarios

import (
	"encoding/json"
	"slices"
	"strings"
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

// The label command says how many running tasks the edit will stop, and which, and so does its dry run, which changes nothing.
func Test05DTheLabelCommandWarns(t *testing.T) {
	c := start(t, bench.Options{Nodes: []bench.Node{bench.N("n1", "ssd=1"), bench.N("n2", "ssd=1")}})
	c.RunJobsWait(20*time.Second,
		bench.Job{Name: "web", Count: 6, Constraints: []string{"node.labels.ssd == 1"}},
		bench.Job{Name: "g", Type: "global", Constraints: []string{"node.labels.ssd == 1"}},
		bench.Job{Name: "other", Count: 2},
		bench.Job{Name: "stays", Count: 2, Constraints: []string{"node.labels.ssd == 1"}, More: "  on_drift = \"keep\"\n"})
	onNodes(c, "web", map[string]int{"n1": 3, "n2": 3})
	want := []string{}
	for _, task := range c.Running("") {
		if task.Node == "n1" && (task.Job == "web" || task.Job == "g") {
			want = append(want, task.ID)
		}
	}
	slices.Sort(want)
	if len(want) != 4 {
		t.Fatalf("on n1 there are %v", want)
	}

	said := moves(t, c, "n1", "ssd-")
	slices.Sort(said)
	if !slices.Equal(said, want) {
		t.Errorf("the dry run says that it moves %v, want %v", said, want)
	}
	if text := c.CLI("node", "label", "n1", "ssd-", "--dry-run").Stdout; !strings.Contains(text, "4 running tasks") {
		t.Errorf("the dry run does not say how many: %s", text)
	}
	c.During(2*time.Second, "the dry run changes nothing", func() (bool, any) {
		lives := c.Lives("")
		return c.Node("n1").Labels["ssd"] == "1" && len(c.Alive("")) == len(lives), lives
	})
	if text := c.Must("node", "label", "n1", "ssd-").Stdout; !strings.Contains(text, "4 running tasks") || !containsAll(text, want) {
		t.Errorf("the command does not say that it moves %v: %s", want, text)
	}
	c.Until(20*time.Second, "these four have stopped, and no other", func() (bool, any) {
		var ended []string
		for _, l := range c.Lives("") {
			if !l.Ended.IsZero() {
				ended = append(ended, l.Task)
			}
		}
		slices.Sort(ended)
		return slices.Equal(ended, want) && len(c.Running("web")) == 6, ended
	})
}

// A label that comes and goes twice a second: each slot is stopped and started once in five seconds at the most, and when the label stays all is settled soon.
func Test05EFlappingLabel(t *testing.T) {
	c := start(t, bench.Options{Nodes: []bench.Node{bench.N("n1", "ssd=1"), bench.N("n2")}})
	c.RunJobsWait(20*time.Second,
		bench.Job{Name: "web", Count: 2, Constraints: []string{"node.labels.ssd == 1"}, MaxUnavailable: "1"},
		bench.Job{Name: "g", Type: "global", Constraints: []string{"node.labels.ssd == 1"}})
	c.Pass(bench.Soon) // what was placed just now keeps still anyway
	began := time.Now()
	for i := range scaled(20, 40) {
		c.Pass(time.Until(began.Add(time.Duration(i) * 500 * time.Millisecond)))
		c.Label("n1", []string{"ssd-", "ssd=1"}[i%2])
	}
	ended := time.Now()
	c.Until(15*time.Second, "web and g run, and nothing is in the way of anything", func() (bool, any) {
		stalls := c.Stalls("")
		return len(c.Running("web")) == 2 && len(c.Running("g")) == 1 && len(stalls) == 0, stalls
	})
	lives := c.Lives("")
	t.Logf("settled %s after the last change, %d starts in all", time.Since(ended).Round(time.Millisecond), len(lives))
	c.During(scaled(3*time.Second, 10*time.Second), "it stays so", func() (bool, any) {
		now := c.Lives("")
		return len(now) == len(lives) && len(c.Alive("")) == 3, now
	})
	apart(t, c.Lives(""), bench.Soon-500*time.Millisecond)
	if all := c.Lives("web"); len(all) < 4 {
		t.Errorf("nothing was ever moved: %+v", all)
	}
}

// apart checks that a slot's starts, and its orders to stop, are so far apart.
func apart(t *testing.T, lives []bench.Life, least time.Duration) {
	t.Helper()
	before := map[string]bench.Life{}
	for _, l := range lives {
		slot := l.Job + "/" + l.Slot
		if last, is := before[slot]; is {
			if gap := l.Started.Sub(last.Started); gap < least {
				t.Errorf("slot %s was started twice within %s: %+v, %+v", slot, gap, last, l)
			}
			if gap := l.StopAsked.Sub(last.StopAsked); !l.StopAsked.IsZero() && gap < least {
				t.Errorf("slot %s was stopped twice within %s: %+v, %+v", slot, gap, last, l)
			}
		}
		before[slot] = l
	}
}
