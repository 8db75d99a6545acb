package scenarios

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/test/internal/bench"
)

// crash is the script of a task that ends with code 1 so long after its start.
func crash(after string) map[string]string {
	return map[string]string{"start_delay": "0s", "run_for": after, "exit_code": "1"}
}

// starts returns when the tasks of a job started.
func starts(c *bench.Cluster, job string) []time.Time {
	var out []time.Time
	for _, l := range c.Lives(job) {
		out = append(out, l.Started)
	}
	return out
}

// Limits on restarts that could never count are refused, with the reason.
func Test16ALimitsThatCannotCountAreRefused(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(1)})
	for name, test := range map[string]struct {
		restart string
		says    []string
	}{
		"the delay alone is as long as the window": {`delay = "10s"
    window = "10s"
    attempts = 3`, []string{"restart", "10s", "attempts = 3", "window"}},
		"so many delays do not fit into the window": {`delay = "4s"
    window = "10s"
    attempts = 10`, []string{"restart", "4s", "attempts = 10", "window"}},
		"the delay shrinks": {`delay = "10s"
    max_delay = "5s"`, []string{"max_delay", "10s", "5s"}},
		"nothing of the kind": {`condition = "sometimes"`, []string{"condition", "sometimes", "on-failure"}},
	} {
		r := c.RunJobsCode(time.Second, bench.Job{Name: "r", Sim: crash("200ms"), More: "restart {\n" + test.restart + "\n}"})
		if r.Code != bench.Refused || !containsAll(r.Stderr, test.says) {
			t.Errorf("%s: to be refused with %q: %s", name, test.says, r)
		}
	}
	if tasks := c.Tasks(""); len(tasks) != 0 {
		t.Errorf("what was refused has tasks: %+v", tasks)
	}
}

// A job that crashes is started as often as it may be within the window and then waits, saying so; whoever waits for it is told that it failed.
func Test16BABudgetIsUsedUp(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(1)})
	window := scaled(10*time.Second, time.Minute)
	r := c.RunJobsCode(time.Minute, bench.Job{Name: "b", Sim: crash("200ms"), More: fmt.Sprintf("restart {\n delay = \"1s\"\n max_delay = \"1s\"\n window = %q\n attempts = 3\n}", window)})
	if r.Code != bench.Failed || r.Took() > 15*time.Second {
		t.Errorf("to be told soon that it failed: %s", r)
	}
	if !containsAll(r.Stderr, []string{"restart budget used", "3"}) {
		t.Errorf("it does not say why it failed: %s", r)
	}
	began := starts(c, "b")
	if len(began) != 4 {
		t.Fatalf("it was started %d times: %v", len(began), began)
	}
	stall := c.Stall(bench.Soon, "b", "restart_budget_used")
	again := began[1].Add(window)
	if !strings.Contains(stall.Message, fmt.Sprintf("restart budget used, 3 in %s", window)) {
		t.Errorf("it does not say how much of what: %q", stall.Message)
	}
	if !containsAll(stall.Clears, []string{"a new version", "job restart"}) || !names(stall.Clears, again) {
		t.Errorf("it does not say that it goes on at %s, or after what: %q", again.UTC().Format(time.TimeOnly), stall.Clears)
	}
	// It says the same until the first restart leaves the window, and then there is one more start.
	c.During(time.Until(again.Add(-time.Second)), "it waits, since it began to", func() (bool, any) {
		now := c.Stalls("b")
		return len(now) == 1 && now[0].Since.Equal(stall.Since) && now[0].Message == stall.Message && len(c.Lives("b")) == 4, now
	})
	c.Until(3*time.Second, "it is started again", func() (bool, any) { return len(c.Lives("b")) == 5, starts(c, "b") })
	if last := starts(c, "b")[4]; last.Before(again.Add(-time.Second)) {
		t.Errorf("it was started at %s, before %s", last, again)
	}
}

// names reports whether a text names a time of day, to a second.
func names(text string, at time.Time) bool {
	for d := -1; d <= 1; d++ {
		if strings.Contains(text, at.Add(time.Duration(d)*time.Second).UTC().Format(time.TimeOnly)) {
			return true
		}
	}
	return false
}

// An operator gives the budget back; an edit that changes nothing of the task does not.
func Test16CARestartGivesTheBudgetBack(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(1)})
	job := bench.Job{Name: "c", Sim: crash("200ms"), More: "restart {\n delay = \"500ms\"\n attempts = 1\n window = \"0s\"\n}"}
	c.RunJobs(job)
	usedUp := func(want int) {
		t.Helper()
		c.Until(10*time.Second, fmt.Sprintf("it was started %d times and waits", want), func() (bool, any) {
			stalls := c.Stalls("c")
			return len(c.Lives("c")) == want && len(stalls) == 1 && stalls[0].Code == "restart_budget_used", stalls
		})
		c.During(2*time.Second, "it stays like that", func() (bool, any) { return len(c.Lives("c")) == want, starts(c, "c") })
	}
	usedUp(2)
	c.Must("job", "restart", "c")
	usedUp(4)
	job.More += "\nlabels = { team = \"a\" }\n"
	c.RunJobs(job)
	if v := c.Job("c").Version; v < 3 {
		t.Errorf("the label made no version: %d", v)
	}
	usedUp(4)
}

// A job that crashes for ever leaves no more than its history, and listing it stays quick.
func Test16DHistoryIsBounded(t *testing.T) {
	// What happened is kept for those who watch, for so long: the state grows until that is reached.
	c := start(t, bench.Options{Nodes: bench.Ns(1), Config: `store "bbolt" {
  retention {
    age = "30s"
  }
}`})
	delay := scaled(300*time.Millisecond, time.Second)
	c.RunJobs(bench.Job{Name: "d", Sim: crash("200ms"), More: fmt.Sprintf("history_limit = 5\nrestart {\n delay = %q\n max_delay = %q\n window = \"24h\"\n attempts = 1440\n}", delay, delay)})
	minute := scaled(4*time.Second, time.Minute)
	var sizes []int64
	var lists []time.Duration
	for range 5 {
		sizes = append(sizes, c.StateSize())
		c.During(minute, "at most five dead records are kept", func() (bool, any) {
			dead := 0
			all, took := c.Listed("d")
			lists = append(lists, took)
			for _, task := range all {
				if task.GetDead() {
					dead++
				}
			}
			return dead <= 5, all
		})
	}
	sizes = append(sizes, c.StateSize())
	if n := len(c.Lives("d")); n < 8 {
		t.Errorf("only %d starts", n)
	}
	slices.Sort(lists)
	if usual := lists[len(lists)/2]; usual > 100*time.Millisecond { // single ones may wait for what else runs here
		t.Errorf("a list took %s, the slowest %s", usual, lists[len(lists)-1])
	}
	first, last := sizes[1]-sizes[0], sizes[5]-sizes[4]
	t.Logf("sizes %v; lists took %s, the slowest %s", sizes, lists[len(lists)/2], lists[len(lists)-1])
	if full() && last > first/10 {
		t.Errorf("the state grew by %d in the first minute and by %d in the fifth: %v", first, last, sizes)
	}
}

// What is lost or drained is replaced, and nothing of that counts as a restart.
func Test16ELossAndDrainSpendNothing(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(2)})
	c.RunJobsWait(10*time.Second, bench.Job{Name: "e", More: "restart {\n attempts = 3\n window = \"0s\"\n}"})
	spent := func() {
		t.Helper()
		for _, s := range c.Job("e").Slots {
			if s.Restarts != 0 || s.Backoff != 0 {
				t.Errorf("restarts were spent: %+v", s)
			}
		}
		if stalls := c.Stalls("e"); len(stalls) != 0 {
			t.Errorf("it waits: %+v", stalls)
		}
	}
	where := func() string { return c.Running("e")[0].Node }
	for range scaled(2, 5) {
		node := where()
		c.Agent(node).Silence()
		silent := time.Now()
		c.Until(12*time.Second, "it runs elsewhere", func() (bool, any) {
			running := c.Running("e")
			return len(running) == 1 && running[0].Node != node, running
		})
		c.Pass(time.Until(silent.Add(scaled(5*time.Second, 10*time.Second))))
		c.Agent(node).Resume()
		c.NodeState(10*time.Second, node, "ready")
		c.Until(10*time.Second, "one is alive", func() (bool, any) { return len(c.Alive("e")) == 1 && len(c.Running("e")) == 1, c.Alive("e") })
		spent()
	}
	for range scaled(2, 5) {
		node := where()
		c.DrainWait(node, 20*time.Second)
		c.Until(bench.Soon, "it runs elsewhere", func() (bool, any) {
			running := c.Running("e")
			return len(running) == 1 && running[0].Node != node, running
		})
		c.Activate(node)
		spent()
	}
}

// A node that refuses every start is asked ever more rarely, and what it said last is there to be read.
func Test16FRefusalsAreTriedEverMoreRarely(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(1)})
	c.RunJobs(bench.Job{
		Name: "f", Type: "global", Sim: map[string]string{"reject": "the disk of this node is full"},
		More: "history_limit = 20\nrestart {\n delay = \"1s\"\n max_delay = \"10s\"\n}",
	})
	long, most := scaled(12*time.Second, time.Minute), scaled(5, 10)
	c.During(long, fmt.Sprintf("it is tried at most %d times", most), func() (bool, any) {
		n := len(c.Rejections("f"))
		return n <= most, n
	})
	tries := c.Rejections("f")
	if len(tries) < 3 {
		t.Errorf("it was tried at %v only", tries)
	}
	for i := 2; i < len(tries); i++ {
		if gap, before := tries[i].Sub(tries[i-1]), tries[i-1].Sub(tries[i-2]); gap < min(before, 9*time.Second) {
			t.Errorf("the gap of %s follows one of %s", gap, before)
		}
	}
	stalls := c.Stalls("f")
	if len(stalls) != 1 || stalls[0].Code != "restart_delay" || !strings.Contains(stalls[0].Message, "the disk of this node is full") {
		t.Errorf("what the node said last is not in the stall: %+v", stalls)
	}
	for _, args := range [][]string{{"task", "ls", "--job", "f"}, {"job", "why", "f"}, {"task", "inspect", c.Tasks("f")[0].ID}} {
		if r := c.Must(args...); !strings.Contains(r.Stdout, "the disk of this node is full") {
			t.Errorf("what the node said last is not in %s", r)
		}
	}
}

// A job that crashes without any delay, beside a thousand tasks that wait, keeps nobody from a healthy job.
func Test16GACrashingJobDelaysNobody(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(1), SampleEvery: scaled(200*time.Millisecond, time.Second)})
	c.RunJobs(
		bench.Job{Name: "crash", Sim: crash("200ms"), More: "restart {\n delay = \"0s\"\n max_delay = \"0s\"\n}"},
		bench.Job{Name: "wait", Count: scaled(200, 1000), Constraints: []string{"node.labels.none == 1"}})
	c.Until(20*time.Second, "all wait", func() (bool, any) {
		counts := c.Job("wait").Counts
		return counts.Stalled == scaled(200, 1000), counts
	})
	for i := range scaled(2, 10) {
		name := fmt.Sprintf("healthy%d", i)
		created := time.Now()
		c.RunJobs(bench.Job{Name: name})
		c.RunningCount(bench.Soon, name, 1)
		t.Logf("%s ran after %s", name, time.Since(created).Round(10*time.Millisecond))
		c.Pass(scaled(time.Second, 3*time.Second))
	}
	c.Until(bench.Soon, "it crashes on", func() (bool, any) { n := len(c.Lives("crash")); return n > 10, n })
}

// Fifty thousand dead records, each with a kilobyte of what went wrong, are in nobody's way, and leave at once when they are not to be kept.
func Test16HManyDeadRecords(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(2), SampleEvery: scaled(time.Second, 5*time.Second), Unchecked: []string{"V7 memory"}})
	slots, each := scaled(100, 200), scaled(20, 250)
	text := strings.Repeat("no such file. ", 1+1024/14)
	job := bench.Job{
		Name: "bulk", Count: slots, CPU: 0.01, Sim: map[string]string{"start_delay": "0s", "reject": text},
		More: fmt.Sprintf("history_limit = 1000\nrestart {\n delay = \"0s\"\n max_delay = \"0s\"\n attempts = %d\n window = \"0s\"\n}", each-1),
	}
	c.RunJobs(job)
	took := c.Until(scaled(time.Minute, 10*time.Minute), "every slot has used up its restarts", func() (bool, any) {
		used := 0
		for _, s := range c.Stalls("bulk") {
			if s.Code == "restart_budget_used" {
				used++
			}
		}
		return used == slots, used
	})
	t.Logf("%d records after %s; the state has %d bytes", slots*each, took, c.StateSize())

	records := func() map[string]int { // by node
		t.Helper()
		on := map[string]int{}
		all, took := c.Listed("bulk")
		for _, task := range all {
			on[task.GetNode()]++
			if !task.GetDead() || len(task.GetObserved().GetErr()) < 1024 {
				t.Fatalf("%s does not say what went wrong: %d bytes", task.GetId(), len(task.GetObserved().GetErr()))
			}
		}
		t.Logf("%d records were listed in %s", len(all), took)
		return on
	}
	on := records()
	if on["n1"]+on["n2"] != slots*each {
		t.Errorf("%v are listed, of %d", on, slots*each)
	}
	if n := len(c.AllTasks("bulk")); n != slots*each {
		t.Errorf("task ls --all lists %d", n)
	}
	if n := len(c.Tasks("bulk")); n != slots {
		t.Errorf("task ls lists %d; each slot has one that ended last", n)
	}
	c.RunJobsWait(bench.Soon, bench.Job{Name: "healthy"})

	// A server that starts, and an agent that comes back, know all of it.
	c.KillServer()
	c.StartServer()
	c.Agent("n1").Kill()
	c.Agent("n1").Restart()
	c.Until(20*time.Second, "both nodes are ready", func() (bool, any) {
		nodes := c.Nodes()
		return len(nodes) == 2 && nodes[0].State == "ready" && nodes[1].State == "ready", nodes
	})
	c.RunJobsWait(bench.Soon, bench.Job{Name: "healthy2"})

	// A node that leaves takes its records along.
	c.Agent("n2").PowerOff()
	c.NodeState(10*time.Second, "n2", "down")
	c.Must("node", "decommission", "n2", "--yes")
	c.Must("node", "rm", "n2")
	c.Until(20*time.Second, "nothing names n2", func() (bool, any) {
		now := records()
		return now["n2"] == 0 && now[""] == 0, now
	})

	// Watchers see each record leave.
	from := c.Status().Revision
	left := 0
	for _, n := range records() {
		left += n
	}
	job.More = strings.Replace(job.More, "history_limit = 1000", "history_limit = 1", 1)
	c.RunJobs(job)
	took = c.Until(time.Minute, "at most one record of a slot is left", func() (bool, any) {
		all, _ := c.Listed("bulk")
		return len(all) <= slots, len(all)
	})
	t.Logf("%d records left within %s", left, took)
	gone := map[string]bool{}
	for _, e := range c.EventsFrom(from+1, "bulk") {
		if e.Kind == "task_removed" {
			gone[e.Task] = true
		}
	}
	if len(gone) < left-slots {
		t.Errorf("%d records left, and watchers saw %d", left-slots, len(gone))
	}
	c.RunJobsWait(bench.Soon, bench.Job{Name: "healthy3"})
}

// Records leave with the slots that they are of; and what cannot start leaves before what runs.
func Test16IWhatScalingDownKeeps(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(3)})
	job := bench.Job{Name: "i", Count: 5, More: "update {\n parallelism = 5\n monitor = \"1s\"\n}"}
	for v := range 4 {
		job.MoreTask = fmt.Sprintf("env = { V = \"%d\" }", v)
		c.RunJobsWait(40*time.Second, job)
	}
	records := 0
	for _, task := range c.AllTasks("i") {
		if task.Dead {
			records++
		}
	}
	if records != 15 {
		t.Errorf("three updates of five slots left %d records", records)
	}
	c.Must("job", "scale", "i", "1")
	c.Until(bench.Soon, "records of the slot that remains are left", func() (bool, any) {
		all := c.AllTasks("i")
		slots := map[string]int{}
		for _, task := range all {
			slots[task.Slot]++
		}
		return len(slots) == 1 && len(all) == 4, all
	})

	// The first of three cannot start: its node is lost, and there is no other for it.
	c.RunJobsWait(20*time.Second, bench.Job{Name: "k", Count: 3, CPU: 3})
	var lost string
	runs := map[string]bool{}
	for _, task := range c.Running("k") {
		if task.Slot == "1" {
			lost = task.Node
		} else {
			runs[task.ID] = true
		}
	}
	c.Agent(lost).Silence()
	c.NodeState(6*time.Second, lost, "down")
	for _, count := range []int{2, 1} {
		c.Must("job", "scale", "k", fmt.Sprint(count))
		c.During(2*time.Second, fmt.Sprintf("%d that run are kept", count), func() (bool, any) {
			now := c.Running("k")
			kept := 0
			for _, task := range now {
				if runs[task.ID] {
					kept++
				}
			}
			return kept >= count, now
		})
	}
	c.Agent(lost).Resume()
	c.Until(10*time.Second, "one of those that ran is left", func() (bool, any) {
		now := c.Live("k")
		return len(now) == 1 && runs[now[0].ID] && now[0].Running() && len(c.Alive("k")) == 1, now
	})
}
