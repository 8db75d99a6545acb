package scenarios

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/test/internal/bench"
)

// Why a task waits is complete, right, fresh and quiet: ten nodes, of which each refuses it for a reason of its own, and reasons that change.
func Test04ExplanationIsCompleteRightAndFresh(t *testing.T) {
	c := start(t, bench.Options{Nodes: tenNodes()})
	var jobs []bench.Job
	for _, n := range []string{"n5", "n6", "n7"} {
		jobs = append(jobs, bench.Job{Name: "hold-" + n, CPU: 3.5, Constraints: []string{"node.name == " + n}})
	}
	jobs = append(jobs,
		bench.Job{Name: "p", Port: 8080, Constraints: []string{"node.name == n10"}},
		bench.Job{Name: "p4", Port: 8080, Constraints: []string{"node.name == n4"}})
	c.RunJobsWait(30*time.Second, jobs...)
	c.Drain("n8")
	c.Agent("n9").PowerOff()
	c.NodeState(10*time.Second, "n9", "down")
	c.Until(bench.Soon, "n8 is drained", func() (bool, any) {
		d := c.Node("n8").Drain
		return d != nil && d.State == "drained", d
	})

	// A. Within 2 s everything is said, and the sum is exact.
	created := time.Now()
	c.RunJobs(bench.Job{Name: "q", CPU: 1, Port: 8080, Constraints: []string{"node.labels.disk == ssd"}})
	counts(c, "q", map[string]int{"node_draining": 1, "node_down": 1, "constraint": 4, "insufficient_resources": 3, "port_taken": 1})
	if took := time.Since(created); took > 2*time.Second {
		t.Errorf("the stall was complete after %s", took)
	}
	first := oneStall(t, c, "q")
	named(t, first, map[string][]string{
		"node_draining": {"n8"}, "node_down": {"n9"}, "constraint": {"n1", "n2", "n3", "n4"}, "insufficient_resources": {"n5", "n6", "n7"}, "port_taken": {"n10"},
	})
	why := c.Why("q/1")
	for _, part := range []string{"node.labels.disk == ssd", "want 1", "best free 0.5", "8080", "p/1"} {
		if !strings.Contains(why.Sentence, part) {
			t.Errorf("the sentence does not say %q: %s", part, why.Sentence)
		}
	}
	if strings.Contains(why.Sentence, "…") || strings.Contains(why.Sentence, "...") {
		t.Errorf("the sentence is cut: %s", why.Sentence)
	}
	var nodes []string
	for _, n := range why.Nodes {
		nodes = append(nodes, n.Node)
		if len(n.Reasons) == 0 {
			t.Errorf("node %s has no reason", n.Node)
		}
	}
	if len(nodes) != 10 || len(slices.Compact(slices.Sorted(slices.Values(nodes)))) != 10 {
		t.Errorf("each node once: %v", nodes)
	}
	text := c.Must("task", "why", "q/1").Stdout
	if parts := append(nodes, "node.labels.disk == ssd", "8080", "p/1"); !containsAll(text, parts) {
		t.Errorf("the text form does not name all of %q:\n%s", parts, text)
	}
	neverASuccess(t, c, "q")
	if r := c.CLI("job", "start", "q", "--wait", scaled(time.Second, 5*time.Second).String()); r.Code != bench.Stalled { // E.
		t.Errorf("want code 3: %s", r)
	}

	// B. Each change is seen within 2 s; the waiting is as old as it was, the reason is new.
	c.Label("n4", "disk=ssd")
	counts(c, "q", map[string]int{"node_draining": 1, "node_down": 1, "constraint": 3, "insufficient_resources": 3, "port_taken": 2})
	second := oneStall(t, c, "q")
	c.Drain("n1")
	counts(c, "q", map[string]int{"node_draining": 2, "node_down": 1, "constraint": 2, "insufficient_resources": 3, "port_taken": 2})
	third := oneStall(t, c, "q")
	if !second.Since.Equal(first.Since) || !third.Since.Equal(first.Since) {
		t.Errorf("it waits since %s, then %s, then %s", first.Since, second.Since, third.Since)
	}
	if !second.Changed.After(first.Changed) || !third.Changed.After(second.Changed) {
		t.Errorf("its reason changed at %s, then %s, then %s", first.Changed, second.Changed, third.Changed)
	}

	// C. The holder of the port goes: the task runs, the stall is gone, and nothing more is said.
	c.RemoveJob("p")
	c.RunningCount(bench.Soon, "q", 1)
	c.NoStall(time.Second, "q")
	if on := c.Running("q")[0].Node; on != "n10" {
		t.Errorf("it runs on %s", on)
	}
	from := c.Status().Revision + 1
	c.Pass(scaled(5*time.Second, time.Minute))
	if events := c.EventsFrom(from, "q"); len(events) != 0 {
		t.Errorf("it runs, and still this is said: %+v", events)
	}
	if starts := c.Lives("q"); len(starts) != 1 {
		t.Errorf("it was started %d times", len(starts))
	}
}

// What no node could ever run is said to be that, no command calls it a success, and a command that waits for it ends in time and says so.
func Test04DImpossibleForAllNodes(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(2)})
	r := c.RunJobsCode(2*time.Second, bench.Job{Name: "r", CPU: 64})
	if r.Code != bench.Stalled || r.Took() < 2*time.Second || r.Took() > 4*time.Second {
		t.Errorf("want code 3 after 2 s: %s", r)
	}
	if !strings.Contains(r.Stderr, "insufficient_resources") {
		t.Errorf("it does not say why: %s", r)
	}
	why := c.Why("r/1")
	if why.Exceeds != "cpu" {
		t.Errorf("it is not flagged that no node could ever give 64 CPU: %+v", why)
	}
	if text := c.Must("task", "why", "r/1").Stdout; !strings.Contains(text, "64") {
		t.Errorf("the text form does not say how much is wanted:\n%s", text)
	}
	if j := c.Job("r"); j.Counts.Up != 0 {
		t.Errorf("the job is %+v", j)
	}
	neverASuccess(t, c, "r")
	if text := c.Must("stalls").Stdout; !strings.Contains(text, "more cpu than any node has") {
		t.Errorf("the list of stalls does not say that no node could ever do it:\n%s", text)
	}
}

// neverASuccess checks that nothing calls a job that waits a success.
func neverASuccess(t *testing.T, c *bench.Cluster, job string) {
	t.Helper()
	if state := c.Job(job).State; state != "stalled" {
		t.Errorf("the state of %s is %q", job, state)
	}
	for _, args := range [][]string{{"job", "ls"}, {"job", "inspect", job}, {"task", "ls", "--job", job}} {
		for line := range strings.SplitSeq(c.Must(args...).Stdout, "\n") {
			about := args[1] != "ls" || strings.HasPrefix(line, job+" ") || strings.HasPrefix(line, job+"/")
			for _, word := range []string{"running", "complete", "healthy", "success", "ok"} {
				if about && slices.Contains(strings.Fields(line), word) {
					t.Errorf("%v says %q: %s", args, word, line)
				}
			}
		}
	}
}

// Labels that change each second while three hundred tasks wait: what changes nothing for them is no event, what does is one now and then, and neither memory
// nor the time of an answer grows.
func Test04FStorm(t *testing.T) {
	c := start(t, bench.Options{Nodes: tenNodes()})
	var jobs []bench.Job
	for _, n := range []string{"n5", "n6", "n7"} {
		jobs = append(jobs, bench.Job{Name: "hold-" + n, CPU: 3.5, Constraints: []string{"node.name == " + n}})
	}
	for job, n := range map[string]string{"p": "n10", "p4": "n4", "p2": "n2"} {
		jobs = append(jobs, bench.Job{Name: job, Port: 8080, Constraints: []string{"node.name == " + n}})
	}
	c.RunJobsWait(30*time.Second, jobs...)
	c.Drain("n8")
	c.Agent("n9").PowerOff()
	c.NodeState(10*time.Second, "n9", "down")
	const waiting = 300
	c.RunJobs(bench.Job{Name: "q", Count: waiting, CPU: 1, Port: 8080, Constraints: []string{"node.labels.disk == ssd"}})
	counts := map[string]int{"node_draining": 1, "node_down": 1, "constraint": 4, "insufficient_resources": 3, "port_taken": 1}
	c.Until(10*time.Second, "three hundred tasks wait", func() (bool, any) {
		for _, task := range c.Live("q") {
			if len(task.Stalls) != 1 || !maps.Equal(task.Stalls[0].Facts.Counts(), counts) {
				return false, task
			}
		}
		return len(c.Live("q")) == waiting, nil
	})

	seconds := scaled(8, 60)
	about := func(from uint64) map[string]int { // events of tasks, and of what waits for all of a job, by what they are about
		out := map[string]int{}
		for _, e := range c.EventsFrom(from, "q") {
			out[e.Subject.Kind+" "+e.Subject.ID]++
		}
		return out
	}
	flip := func(labels ...string) {
		c.Label("n2", labels[0])
		if took := c.Must("task", "ls", "--all").Took(); took > time.Second {
			t.Errorf("the list of tasks took %s", took)
		}
	}
	from := c.Status().Revision + 1
	each(c, seconds, func(i int) { flip(fmt.Sprintf("colour=c%d", i)) })
	if events := about(from); len(events) != 0 {
		t.Errorf("a label that nobody asks for, and %v", events)
	}

	from = c.Status().Revision + 1
	var half bench.Usage
	each(c, seconds, func(i int) {
		flip([]string{"disk=ssd", "disk=hdd"}[i%2])
		if i == seconds/2 {
			half = c.Usage()
		}
	})
	if now := c.Usage(); now.RSS > half.RSS+half.RSS/10 {
		t.Errorf("the server had %d MiB in memory in the middle, and has %d", half.RSS>>20, now.RSS>>20)
	}
	all := 0
	for what, n := range about(from) {
		all += n
		if strings.HasPrefix(what, "task ") && n > seconds/10+1 {
			t.Errorf("%d events of %s in %d s", n, what, seconds)
		}
	}
	if all > 2100*seconds/60 {
		t.Errorf("%d events in %d s", all, seconds)
	}
	t.Logf("%d events in %d s", all, seconds)
	if starts := len(c.Lives("q")); starts != 0 {
		t.Errorf("%d of q were started", starts)
	}
}

// each does something once a second.
func each(c *bench.Cluster, seconds int, do func(i int)) {
	began := time.Now()
	for i := range seconds {
		do(i)
		c.Pass(time.Until(began.Add(time.Duration(i+1) * time.Second)))
	}
}

func containsAll(text string, parts []string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
}

func tenNodes() []bench.Node {
	var out []bench.Node
	for i := range 10 {
		disk := "disk=ssd"
		if i < 4 {
			disk = "disk=hdd"
		}
		out = append(out, bench.N(fmt.Sprintf("n%d", i+1), disk))
	}
	return out
}

// counts waits 2 s for a job's stall to have the counts, and their sum to be the number of nodes.
func counts(c *bench.Cluster, job string, want map[string]int) {
	c.Until(2*time.Second, fmt.Sprintf("%s waits because of %v", job, want), func() (bool, any) {
		stalls := c.Stalls(job)
		if len(stalls) != 1 {
			return false, stalls
		}
		sum := 0
		for _, n := range stalls[0].Facts.Counts() {
			sum += n
		}
		return sum == stalls[0].Facts.Nodes && maps.Equal(stalls[0].Facts.Counts(), want), stalls
	})
}

func oneStall(t *testing.T, c *bench.Cluster, job string) bench.Stall {
	t.Helper()
	stalls := c.Stalls(job)
	if len(stalls) != 1 {
		t.Fatalf("want one stall, not %+v", stalls)
	}
	return stalls[0]
}

// named checks which nodes each reason of a stall excludes.
func named(t *testing.T, s bench.Stall, want map[string][]string) {
	t.Helper()
	for _, e := range s.Facts.Excluded {
		if got := slices.Sorted(slices.Values(e.Nodes)); !slices.Equal(got, want[e.Code]) {
			t.Errorf("%s excludes %v, want %v", e.Code, got, want[e.Code])
		}
	}
}
