package scenarios

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/test/internal/bench"
)

// twelve are n1 to n12, of which only n7 is of class x.
func twelve() []bench.Node {
	nodes := bench.Ns(12)
	nodes[6] = bench.N("n7", "class=x")
	return nodes
}

// A global job that only one node of twelve may run is complete with that one, from its plan to its update.
func Test12AOneEligibleOfTwelve(t *testing.T) {
	c := start(t, bench.Options{Nodes: twelve()})
	job := bench.Job{Name: "s", Type: "global", Constraints: []string{"node.labels.class == x"}}

	plan := c.Plan(job)
	if plan.Code != bench.Done || !strings.Contains(plan.Stdout, "create 1") {
		t.Errorf("the plan is one task more, and nothing stalls: %s", plan)
	}
	r := c.RunJobsCode(30*time.Second, job)
	if r.Code != bench.Done || !containsAll(r.Stdout, []string{"1/1 up", "1 eligible of 12"}) {
		t.Errorf("want code 0 and 1 of 12: %s", r)
	}
	alone := func(version uint64) {
		t.Helper()
		tasks := c.Live("s")
		if len(tasks) != 1 || tasks[0].Node != "n7" || !tasks[0].Running() || tasks[0].JobVersion != version {
			t.Errorf("want one task, on n7, of version %d: %+v", version, tasks)
		}
		for _, task := range c.Tasks("s") {
			if task.Node != "n7" {
				t.Errorf("a record for another node: %+v", task)
			}
		}
		if stalls := c.Stalls("s"); len(stalls) != 0 {
			t.Errorf("stalls: %+v", stalls)
		}
		if counts := c.Job("s").Counts; counts.Wanted != 1 || counts.Up != 1 || counts.Eligible != 1 || counts.EligibleOf != 12 {
			t.Errorf("counts: %+v", counts)
		}
	}
	alone(1)
	if list := c.Must("job", "ls").Stdout; !strings.Contains(list, "1/1") {
		t.Errorf("the list does not say 1/1:\n%s", list)
	}

	job.MoreTask = "    env = { V = \"2\" }\n"
	r = c.RunJobsCode(30*time.Second, job)
	if r.Code != bench.Done || r.Took() > 15*time.Second {
		t.Errorf("the update waits for somebody else: %s", r)
	}
	alone(2)
	if u := c.Job("s").Update; u == nil || u.State != "completed" || u.Total != 1 || u.Moved != 1 || u.Waiting != 0 {
		t.Errorf("the update: %+v", u)
	}
}

// A global job that no node may run is neither wrong nor does it wait, and it follows the labels.
func Test12BNothingEligible(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(4)})
	job := bench.Job{Name: "z", Type: "global", Constraints: []string{"node.labels.class == none"}}
	none := func(r bench.Result) {
		t.Helper()
		if r.Code != bench.Done || r.Took() > bench.Soon || !strings.Contains(r.Stdout, "0 eligible of 4") {
			t.Errorf("want code 0 soon and 0 eligible: %s", r)
		}
		if tasks, stalls := c.Live("z"), c.Stalls("z"); len(tasks) != 0 || len(stalls) != 0 {
			t.Errorf("tasks %+v, stalls %+v", tasks, stalls)
		}
	}
	none(c.RunJobsCode(30*time.Second, job))
	job.More = "  labels = { team = \"a\" }\n"
	none(c.RunJobsCode(30*time.Second, job))

	c.Label("n3", "class=none")
	c.RunningCount(bench.Soon, "z", 1)
	if on := c.Running("z")[0].Node; on != "n3" {
		t.Errorf("it runs on %s", on)
	}
	c.Label("n3", "class-")
	c.Until(bench.Soon, "z has stopped on n3", func() (bool, any) { alive := c.Alive("z"); return len(alive) == 0, alive })
	c.Until(bench.Soon, "z is at 0/0", func() (bool, any) {
		j := c.Job("z")
		return j.Counts.Wanted == 0 && j.Counts.Up == 0 && j.Counts.Eligible == 0 && j.State == "empty" && len(j.Stalls) == 0, j
	})
}

// What waits on a node for room, and then may not run there at all, waits no more.
func Test12CWaitingThenExcluded(t *testing.T) {
	c := start(t, bench.Options{Nodes: []bench.Node{bench.N("n1"), bench.N("n2", "big=1")}})
	c.RunJobs(bench.Job{Name: "w", Type: "global", Constraints: []string{"node.labels.big == 1"}, CPU: 8})
	stall := c.Stall(bench.Soon, "w", "insufficient_resources")
	if !containsAll(stall.Message, []string{"n2"}) && !slices.ContainsFunc(stall.Facts.Excluded, func(e bench.Exclusion) bool { return slices.Equal(e.Nodes, []string{"n2"}) }) {
		t.Errorf("it does not name n2: %+v", stall)
	}
	c.Label("n2", "big-")
	c.NoStall(bench.Soon, "w")
	c.Until(bench.Soon, "no record is left", func() (bool, any) { tasks := c.Live("w"); return len(tasks) == 0, tasks })
	if j := c.Job("w"); j.State != "empty" || j.Counts.Wanted != 0 {
		t.Errorf("the job: %+v", j)
	}
}

// One node of three cannot take a new version. Its old one runs on; with pause the update waits for somebody, with continue it is over without that node.
// When there is room, the node follows: by itself with continue, and once the update is resumed with pause.
func Test12DOneNodeCannotTakeTheNewVersion(t *testing.T) {
	deadline := scaled(4*time.Second, 10*time.Second)
	var nodes []bench.Node
	for i, zone := range []string{"pause", "pause", "pause", "continue", "continue", "continue"} {
		nodes = append(nodes, bench.N(fmt.Sprintf("n%d", i+1), "zone="+zone))
	}
	c := start(t, bench.Options{Nodes: nodes})
	pausing, going := partial{c, "pause", "n2", "fill2", deadline}, partial{c, "continue", "n5", "fill5", deadline}
	var jobs []bench.Job
	for _, p := range []partial{pausing, going} {
		jobs = append(jobs, bench.Job{Name: p.fill, CPU: 2.5, Constraints: []string{"node.name == " + p.node}}, p.job(1))
	}
	c.RunJobsWait(20*time.Second, jobs...)

	codes := make(chan bench.Result, 1)
	go func() { codes <- going.update() }()
	paused := pausing.update()
	ended := <-codes
	pausing.isPartial(t, paused)
	going.isPartial(t, ended)
	c.Stall(time.Second, pausing.action, "update_paused")
	if u := c.Job(pausing.action).Update; u.State != "paused" || !containsAll(u.Message, []string{"n2", "want 2", "1.5"}) {
		t.Errorf("the update is %+v", u)
	}
	if stall := c.Stall(time.Second, pausing.action, "update_paused"); !containsAll(stall.Message, []string{"n2", "want 2", "1.5"}) || !strings.Contains(stall.Clears, "resume") {
		t.Errorf("its stall does not name n2 and CPU 2 > 1.5, or what to do: %+v", stall)
	}
	if u := c.Job(going.action).Update; u.State != "completed" || u.Message != "completed, 1 not updated" || u.NotUpdated != 1 {
		t.Errorf("the update is %+v", u)
	}
	if stall := c.Stall(time.Second, going.action, "insufficient_resources"); !containsAll(stall.Message, []string{"n5", "want 2", "1.5"}) {
		t.Errorf("its stall does not name n5 and CPU 2 > 1.5: %+v", stall)
	}

	// E. There is room.
	c.RemoveJob("fill2")
	c.RemoveJob("fill5")
	going.follows()
	c.Pass(time.Second)
	pausing.oldStays(t)
	c.MustWithin(40*time.Second, "job", "resume", pausing.action, "--wait", "20s")
	pausing.follows()
}

// partial is a global job in a zone of three nodes, one of which cannot take its second version, since another job fills it.
type partial struct {
	c          *bench.Cluster
	action     string // on failure; the job's and the zone's name
	node, fill string
	deadline   time.Duration
}

func (p partial) job(version int) bench.Job {
	return bench.Job{
		Name: p.action, Type: "global", CPU: float64(version), Constraints: []string{"node.labels.zone == " + p.action},
		More: fmt.Sprintf("  update {\n    monitor = \"1s\"\n    progress_deadline = %q\n    on_failure = %q\n  }\n", p.deadline.String(), p.action),
	}
}

func (p partial) update() bench.Result { return p.c.RunJobsCode(p.deadline+15*time.Second, p.job(2)) }

// isPartial checks that the command has said soon after the deadline that the node is not updated and why, and that it runs what it ran.
func (p partial) isPartial(t *testing.T, r bench.Result) {
	t.Helper()
	if r.Code != bench.Failed || r.Took() < p.deadline || r.Took() > p.deadline+10*time.Second {
		t.Errorf("want code 4 once the progress deadline is over: %s", r)
	}
	if !containsAll(r.Stderr, []string{p.node, "want 2", "1.5"}) {
		t.Errorf("the command does not say what is not updated and why: %s", r)
	}
	p.oldStays(t)
}

// oldStays checks that two nodes run the second version and that the first has never stopped on the third.
func (p partial) oldStays(t *testing.T) {
	t.Helper()
	running := p.c.Running(p.action)
	if len(running) != 3 {
		t.Errorf("these run: %+v", running)
	}
	for _, x := range running {
		if want := uint64(2); x.JobVersion != want && x.Node != p.node || x.Node == p.node && x.JobVersion != 1 {
			t.Errorf("on %s version %d runs", x.Node, x.JobVersion)
		}
	}
	if lives := livesOn(p.c, p.action, p.node); len(lives) != 1 || !lives[0].StopAsked.IsZero() {
		t.Errorf("on %s there were %+v", p.node, lives)
	}
}

// follows waits until the third node runs the second version too, and the update says that nothing is left.
func (p partial) follows() {
	p.c.Until(2*bench.Soon, p.node+" follows", func() (bool, any) {
		running := p.c.Running(p.action)
		return len(running) == 3 && !slices.ContainsFunc(running, func(x bench.Task) bool { return x.JobVersion != 2 }), running
	})
	p.c.NoStall(time.Second, p.action)
	p.c.Until(bench.Soon, "nothing is left of the update", func() (bool, any) {
		u := p.c.Job(p.action).Update
		return u.State == "completed" && u.Message == "completed" && u.NotUpdated == 0 && u.Waiting == 0, u
	})
}
