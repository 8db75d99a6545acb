package scenarios

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/setpointd/setpoint/test/internal/bench"
)

// webAndLog are a job with six tasks, of which one may be away, and one with a task on each node.
func webAndLog(web bench.Job) []bench.Job {
	web.Name, web.Count, web.MaxUnavailable = "web", 6, "1"
	return []bench.Job{web, {Name: "log", Type: "global"}}
}

// livesOn returns a job's tasks on one node, by when they were asked to stop; those that were not come last.
func livesOn(c *bench.Cluster, job, node string) []bench.Life {
	var out []bench.Life
	for _, l := range c.Lives(job) {
		if l.Node == node {
			out = append(out, l)
		}
	}
	slices.SortStableFunc(out, func(a, b bench.Life) int {
		switch {
		case a.StopAsked.IsZero() == b.StopAsked.IsZero():
			return a.StopAsked.Compare(b.StopAsked)
		case a.StopAsked.IsZero():
			return 1
		}
		return -1
	})
	return out
}

// startedAfter returns a job's first task that started after a time on another node.
func startedAfter(c *bench.Cluster, job, node string, at time.Time) (bench.Life, bool) {
	for _, l := range c.Lives(job) {
		if l.Node != node && l.Started.After(at) {
			return l, true
		}
	}
	return bench.Life{}, false
}

// A drain keeps to a job's limit, has what is needed on every node leave last, and is complete when its last stop has been seen, and not before.
func Test09ADrainWithinLimits(t *testing.T) {
	begin, stop := scaled(time.Second, 2*time.Second), scaled(2*time.Second, 5*time.Second)
	c := start(t, bench.Options{Nodes: bench.Ns(3)})
	c.RunJobsWait(30*time.Second, webAndLog(bench.Job{Sim: map[string]string{"start_delay": begin.String(), "stop_delay": stop.String()}})...)
	onNodes(c, "web", map[string]int{"n1": 2, "n2": 2, "n3": 2})

	began := time.Now()
	ended := make(chan bench.Result, 1)
	go func() { ended <- c.DrainCode(time.Minute, "n1") }()
	most, drainedAt, result := 3, time.Time{}, bench.Result{}
	c.Until(time.Minute, "the command has ended", func() (bool, any) {
		select {
		case result = <-ended:
			return true, nil
		default:
		}
		d := c.Node("n1").Drain
		told := time.Now() // what it says was so by then
		switch {
		case d == nil:
		case d.State == "draining":
			if text := c.Must("node", "ls").Stdout; d.Left > most || d.Left == 0 || !drainedAt.IsZero() || !strings.Contains(text, "left)") && !strings.Contains(text, "drained") {
				t.Errorf("%+v are left, and there were %d before; the list says\n%s", d, most, text)
			}
			most = d.Left
		case d.State == "drained" && drainedAt.IsZero():
			drainedAt = told
		}
		return false, c.Node("n1").Drain
	})
	if result.Code != bench.Done || !strings.Contains(result.Stdout, "n1: drained") {
		t.Errorf("want code 0: %s", result)
	}
	web, log := livesOn(c, "web", "n1"), livesOn(c, "log", "n1")
	if len(web) != 2 || len(log) != 1 {
		t.Fatalf("on n1 there were %+v and %+v", web, log)
	}
	if fewest := bench.FewestAlive(c.Lives("web"), began, time.Now()); fewest < 5 {
		t.Errorf("%d of 6 ran at a time; one may be away", fewest)
	}
	if first, ok := startedAfter(c, "web", "n1", began); !ok || web[1].StopAsked.Before(first.Started) {
		t.Errorf("the second was told to stop at %s, before a replacement of the first ran: %+v", web[1].StopAsked, first)
	}
	if last := web[1].Ended; log[0].StopAsked.Before(last) {
		t.Errorf("the log was told to stop at %s, before the last of web had ended at %s", log[0].StopAsked, last)
	}
	if result.Ended.Before(log[0].Ended) || !drainedAt.IsZero() && drainedAt.Before(log[0].Ended.Add(-100*time.Millisecond)) {
		t.Errorf("the last stop was at %s, the node was drained at %s and the command said so at %s", log[0].Ended, drainedAt, result.Ended)
	}
	least := stop + begin + stop // the second replacement need not run before the node is empty
	if took := result.Ended.Sub(began); took < least || took > 3*least {
		t.Errorf("it took %s, and two stops one after another with a start between them take %s", took, least)
	}
	c.RunningCount(bench.Soon, "web", 6)
	t.Logf("drained within %s", result.Ended.Sub(began).Round(time.Millisecond))
}

// A command that waits for a drain ends in time and says what is left and since when; the drain goes on.
func Test09BDrainGoesOnWithoutItsCommand(t *testing.T) {
	stop := scaled(4*time.Second, 30*time.Second)
	wait := scaled(2*time.Second, 5*time.Second)
	c := start(t, bench.Options{Nodes: bench.Ns(2)})
	c.RunJobsWait(20*time.Second, bench.Job{
		Name: "web", Constraints: []string{"node.name != n3"}, Sim: map[string]string{"stop_delay": stop.String()}, Grace: "1m",
	})
	on := c.Running("web")[0]
	r := c.DrainCode(wait, on.Node)
	if r.Code != bench.Stalled || r.Took() < wait || r.Took() > wait+2*time.Second {
		t.Errorf("want code 3 after %s: %s", wait, r)
	}
	if !containsAll(r.Stderr, []string{on.Node, "1 left", on.ID, "stopping", "is drained", "goes on"}) {
		t.Errorf("it does not say what is left: %s", r)
	}
	if since := sinceIn(r.Stderr, on.ID); since < wait-time.Second || since > wait+2*time.Second {
		t.Errorf("it says that the task has been stopping for %s, and it was told %s ago: %s", since, wait, r)
	}
	c.Drained(stop, on.Node)
	c.RunningCount(bench.Soon, "web", 1)
	if lives := livesOn(c, "web", on.Node); len(lives) != 1 || lives[0].Signal != "TERM" || lives[0].Ended.Sub(lives[0].StopAsked) < stop {
		t.Errorf("it was to have its time to stop: %+v", lives)
	}
}

// sinceIn returns how long the line of a table with a word says that something has lasted.
func sinceIn(text, word string) time.Duration {
	for line := range strings.Lines(text) {
		if !strings.Contains(line, word) {
			continue
		}
		for _, field := range strings.Fields(line) {
			if d, err := time.ParseDuration(field); err == nil {
				return d
			}
		}
	}
	return -1
}

// A drain that a limit holds up says so at once: the job, its limit, and why the replacement does not come up; and it goes on when there is room.
func Test09CDrainThatALimitHoldsUp(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(3)})
	c.RunJobsWait(20*time.Second, webAndLog(bench.Job{CPU: 0.9})...)
	onNodes(c, "web", map[string]int{"n1": 2, "n2": 2, "n3": 2})
	c.RunJobsWait(20*time.Second,
		bench.Job{Name: "fill2", CPU: 1.5, Constraints: []string{"node.name == n2"}}, bench.Job{Name: "fill3", CPU: 1.5, Constraints: []string{"node.name == n3"}})

	from := c.Status().Revision + 1
	began := time.Now()
	r := c.DrainCode(2500*time.Millisecond, "n1")
	if r.Code != bench.Stalled || time.Since(began) > 5*time.Second {
		t.Errorf("want code 3: %s", r)
	}
	if !containsAll(r.Stderr, []string{"waiting_for_budget", "web", "1 of 6 slots are not up", "the job allows 1", "insufficient_resources", "want 0.9", "best free 0.6"}) {
		t.Errorf("it does not name the job, its limit, and what its replacement waits for: %s", r)
	}
	budget, room := c.Stall(time.Second, "web", "waiting_for_budget"), c.Stall(time.Second, "web", "insufficient_resources")
	if budget.Subject.Kind != "slot" || !containsAll(budget.Message, []string{"web/", "n1", "1 of 6", "allows 1"}) {
		t.Errorf("the stall of the slot that waits: %+v", budget)
	}
	if room.Task == "" || room.Facts.Counts()["insufficient_resources"] != 2 || room.Facts.Counts()["node_draining"] != 1 {
		t.Errorf("the stall of the replacement: %+v", room)
	}
	if left := len(livesOn(c, "web", "n1")); left != 2 {
		t.Errorf("%d lives on n1", left)
	}
	c.Pass(scaled(2*time.Second, 30*time.Second))
	said := map[string]int{}
	for _, e := range c.EventsFrom(from, "web") {
		if e.Kind == "stalled" || e.Kind == "stall_changed" {
			said[e.Subject.Kind+" "+e.Subject.ID+" "+strings.SplitN(e.Text, "\n", 2)[0]]++
		}
	}
	stalled := 0
	for what, times := range said {
		stalled += times
		if times > 1 {
			t.Errorf("said %d times: %s", times, what)
		}
	}
	if stalled > 4 { // one slot waits for a stop and then its task for room, the other for the budget
		t.Errorf("it waits for one thing, and there were %d events: %v", stalled, said)
	}
	if fewest := bench.FewestAlive(c.Lives("web"), began, time.Now()); fewest < 5 {
		t.Errorf("%d of 6 ran at a time; one may be away", fewest)
	}

	c.RemoveJob("fill2")
	freed := time.Now()
	c.RunningCount(2*bench.Soon, "web", 6)
	_, took := c.Drained(bench.Soon, "n1")
	if first, ok := startedAfter(c, "web", "n1", freed); !ok || first.Started.Sub(freed) > bench.Soon {
		t.Errorf("room was free at %s, and the replacement ran at %s", freed, first.Started)
	}
	c.NoStall(time.Second, "web")
	t.Logf("drained within %s of the room", (time.Since(freed) + took).Round(time.Millisecond))
}

// What stops by itself when a drain begins is nothing that the drain waits for twice.
func Test09DDrainBesideATaskThatStops(t *testing.T) {
	stop := scaled(4*time.Second, 20*time.Second)
	c := start(t, bench.Options{Nodes: bench.Ns(2)})
	c.RunJobsWait(20*time.Second, bench.Job{
		Name: "s", Count: 2, MaxUnavailable: "1", Grace: "1m", More: "  max_per_node = 1\n",
		Command: []string{"/bin/sh", "-c", fmt.Sprintf("trap 'trap \"\" TERM; sleep %g; exit 0' TERM; while :; do sleep 0.1; done", stop.Seconds())},
	})
	onNodes(c, "s", map[string]int{"n1": 1, "n2": 1})
	began := time.Now()
	for _, p := range c.Processes() {
		if stat, alive := bench.ReadStat(p.PID); p.Node == "n1" && alive && stat.Group == p.PID {
			if err := syscall.Kill(p.PID, syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		}
	}
	r := c.DrainCode(stop+10*time.Second, "n1")
	if r.Code != bench.Done || time.Since(began) > stop+10*time.Second {
		t.Errorf("the drain is to end once the task has stopped: %s", r)
	}
	if took := time.Since(began); took < stop {
		t.Errorf("the drain ended after %s, and the task stops for %s", took, stop)
	}
	if on := c.Running("s"); len(on) != 1 || on[0].Node != "n2" {
		t.Errorf("one of two was to run on: %+v", on)
	}
	if stall := c.Stall(bench.Soon, "s", "one_per_node"); stall.Facts.Counts()["node_draining"] != 1 || stall.Facts.Counts()["one_per_node"] != 1 {
		t.Errorf("the other waits for a node: %+v", stall)
	}
}

// A node that goes down ends its drain, which says that nobody saw its tasks stop.
func Test09EPowerFailsInADrain(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(3)})
	c.RunJobsWait(20*time.Second, webAndLog(bench.Job{Sim: map[string]string{"stop_delay": "20s"}, Grace: "30s"})...)
	onNodes(c, "web", map[string]int{"n1": 2, "n2": 2, "n3": 2})
	c.Drain("n1")
	c.Until(bench.Soon, "the first is stopping", func() (bool, any) { lives := livesOn(c, "web", "n1"); return !lives[0].StopAsked.IsZero(), lives })
	c.Agent("n1").PowerOff()
	ended := make(chan bench.Result, 1)
	go func() { ended <- c.Wait(30*time.Second, "node", "drain", "n1") }()
	c.NodeState(10*time.Second, "n1", "down")
	d, took := c.Drained(10*time.Second, "n1")
	if d.Lost != 3 {
		t.Errorf("%+v; three tasks were lost", d)
	}
	if r := <-ended; r.Code != bench.Done || !strings.Contains(r.Stdout, "3 lost, not confirmed") {
		t.Errorf("it does not say what was lost: %s", r)
	}
	c.RunningCount(2*bench.Soon, "web", 6)
	t.Logf("over %s after the node was down", took.Round(time.Millisecond))
}

// What a drain moves comes up elsewhere at once and has spent no restart.
func Test09FDrainSpendsNoRestart(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(2)})
	c.RunJobsWait(20*time.Second, bench.Job{
		Name: "c", More: "  restart {\n    delay    = \"30s\"\n    attempts = 1\n    window   = \"10m\"\n  }\n",
	})
	for range scaled(2, 6) {
		from := c.Running("c")[0].Node
		began := time.Now()
		c.DrainWait(from, bench.Soon)
		c.RunningCount(bench.Soon, "c", 1)
		if took := time.Since(began); took > bench.Soon+time.Second {
			t.Errorf("it was back after %s; its restart delay is nothing to a drain", took)
		}
		if s := c.Job("c").Slots[0]; s.Restarts != 0 || s.Backoff != 0 {
			t.Errorf("the drain has spent restarts: %+v", s)
		}
		c.Activate(from)
	}
}

// A deadline ends the waiting for the budget and leaves tasks their time to stop; when it ends is shown.
func Test09GDeadlineEndsTheWaiting(t *testing.T) {
	deadline, stop := scaled(3*time.Second, 10*time.Second), scaled(3*time.Second, time.Minute)
	c := start(t, bench.Options{Nodes: bench.Ns(2)})
	c.RunJobsWait(20*time.Second, bench.Job{
		Name: "web", Count: 2, MaxUnavailable: "1", Constraints: []string{"node.name == n1"}, Sim: map[string]string{"stop_delay": stop.String()}, Grace: "2m",
	})
	began := time.Now()
	c.Drain("n1", "--deadline", deadline.String())
	budget := c.Stall(bench.Soon, "web", "waiting_for_budget")
	if !containsAll(budget.Message+budget.Clears, []string{"deadline"}) {
		t.Errorf("it does not say that the deadline ends this: %+v", budget)
	}
	text, list := c.Must("node", "inspect", "n1").Stdout, c.Must("node", "ls").Stdout
	at := began.Add(deadline)
	for _, said := range []string{text, list} {
		if !strings.Contains(said, "deadline at "+at.Format(time.TimeOnly)) && !strings.Contains(said, "deadline at "+at.Add(time.Second).Format(time.TimeOnly)) {
			t.Errorf("the deadline is at %s, and it is not said so:\n%s", at.Format(time.TimeOnly), said)
		}
	}
	c.Drained(deadline+stop+10*time.Second, "n1")
	lives := livesOn(c, "web", "n1")
	if len(lives) != 2 {
		t.Fatalf("on n1 there were %+v", lives)
	}
	if waited := lives[1].StopAsked.Sub(began); waited < deadline-200*time.Millisecond || waited > deadline+2*time.Second {
		t.Errorf("the second was told to stop after %s, the deadline is %s", waited, deadline)
	}
	for _, l := range lives {
		if l.Signal != "TERM" || l.Ended.Sub(l.StopAsked) < stop || l.StopGrace != 2*time.Minute {
			t.Errorf("it was to have its own time to stop: %+v", l)
		}
	}
}

// Nodes that are drained as one set: nothing moves from one of them to another.
func Test09HDrainASet(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(6)})
	c.RunJobsWait(20*time.Second, bench.Job{Name: "web", Count: 12, MaxUnavailable: "3"})
	if on := aliveCounts(c, "web"); len(on) != 6 {
		t.Fatalf("spread as %v", on)
	}
	began := time.Now()
	r := c.DrainSet(30*time.Second, "n1", "n2", "n3")
	if r.Code != bench.Done || !containsAll(r.Stdout, []string{"n1: drained", "n2: drained", "n3: drained"}) {
		t.Errorf("want all three drained: %s", r)
	}
	c.RunningCount(bench.Soon, "web", 12)
	onNodes(c, "web", map[string]int{"n4": 4, "n5": 4, "n6": 4})
	starts := map[string]int{}
	for _, l := range c.Lives("web") {
		if starts[l.Slot]++; l.Started.After(began) && slices.Contains([]string{"n1", "n2", "n3"}, l.Node) {
			t.Errorf("started on a node that is drained: %+v", l)
		}
	}
	for slot, n := range starts {
		if n > 2 {
			t.Errorf("slot %s moved %d times", slot, n-1)
		}
	}
	if starts := len(c.Lives("web")); starts != 18 {
		t.Errorf("%d starts, want 12 and 6 that moved", starts)
	}
	if fewest := bench.FewestAlive(c.Lives("web"), began, time.Now()); fewest < 9 {
		t.Errorf("%d of 12 ran at a time; three may be away", fewest)
	}
}

// The drain plugin ends in the middle of a drain: the limit holds, and the drain goes on once it is there again.
func Test09IDrainPluginEndsInADrain(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(3)})
	c.RunJobsWait(20*time.Second, webAndLog(bench.Job{Sim: map[string]string{"stop_delay": "1s"}})...)
	onNodes(c, "web", map[string]int{"n1": 2, "n2": 2, "n3": 2})
	began := time.Now()
	c.Drain("n1")
	killed := 0
	c.Until(40*time.Second, "n1 is drained, though the plugin ends again and again", func() (bool, any) {
		if lives := livesOn(c, "web", "n1"); killed < scaled(1, 2) && !lives[killed].StopAsked.IsZero() {
			pid := inspectPlugin(t, c, "drain").PID
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && pid != 0 {
				t.Error(err)
			}
			killed++
		}
		d := c.Node("n1").Drain
		return d != nil && d.State == "drained", fmt.Sprintf("%+v", d)
	})
	if p := inspectPlugin(t, c, "drain"); p.Restarts < killed || killed == 0 {
		t.Errorf("it was killed %d times and started again %d times", killed, p.Restarts)
	}
	c.RunningCount(bench.Soon, "web", 6)
	if fewest := bench.FewestAlive(c.Lives("web"), began, time.Now()); fewest < 5 {
		t.Errorf("%d of 6 ran at a time; one may be away", fewest)
	}
	if starts := len(c.Lives("web")); starts != 8 {
		t.Errorf("%d starts, want 6 and two that moved", starts)
	}
}
