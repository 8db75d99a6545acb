package scenarios

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/setpointd/setpoint/test/internal/bench"
)

// fiveGlobals are jobs with one task on each node, each with something that can go wrong with that.
func fiveGlobals() []bench.Job {
	return []bench.Job{
		{Name: "g1", Type: "global"},
		{Name: "g2", Type: "global", More: "  update {\n    parallelism = 1\n    monitor = \"3s\"\n  }\n"},
		{Name: "g3", Type: "global", Constraints: []string{"node.labels.zone == a"}},
		{Name: "g4", Type: "global", Port: 9},
		{Name: "g5", Type: "global", CPU: 2},
	}
}

func globalNodes() []bench.Node {
	return []bench.Node{bench.N("n1", "zone=a"), bench.N("n2", "zone=a"), bench.N("n3", "zone=a"), bench.N("n4")}
}

// A node is drained and comes back, again and again: each time everything leaves it, everything is back soon, and nowhere else anything moves.
func Test11AGlobalJobsThroughCycles(t *testing.T) {
	c := start(t, bench.Options{Nodes: globalNodes()})
	c.RunJobsWait(30*time.Second, fiveGlobals()...)
	descriptors := bench.Descriptors(c.ServerPID())
	var slowest time.Duration
	cycle := func(nodes ...string) {
		t.Helper()
		before := len(c.Lives(""))
		for _, n := range nodes {
			c.Drain(n)
		}
		want := 0
		for _, n := range nodes {
			c.DrainWait(n, 20*time.Second)
			if left := aliveOn(c, n); len(left) > 0 {
				t.Errorf("%s is said to be drained, and there are still %v", n, left)
			}
			want += wantedOn(n)
		}
		for _, n := range nodes {
			c.Activate(n)
		}
		active := time.Now()
		for _, n := range nodes {
			backOn(c, n, wantedOn(n))
		}
		slowest = max(slowest, time.Since(active))
		started := c.Lives("")[before:]
		for _, l := range started {
			if !slices.Contains(nodes, l.Node) {
				t.Errorf("%v were drained, and %s was started on %s", nodes, l.Task, l.Node)
			}
		}
		if len(started) != want {
			t.Errorf("%v were drained, and there were %d starts, want %d", nodes, len(started), want)
		}
	}
	for range scaled(1, 20) {
		cycle("n2")
	}
	for range scaled(1, 20) {
		cycle(fmt.Sprintf("n%d", rand.IntN(4)+1))
	}
	for range scaled(1, 5) {
		cycle("n1", "n3")
	}
	if now := bench.Descriptors(c.ServerPID()); now > descriptors+descriptors/10+1 {
		t.Errorf("the server had %d files open at first and has %d", descriptors, now)
	}
	t.Logf("after a drain all were back within %s", slowest.Round(time.Millisecond))
	if stalls := c.Stalls(""); len(stalls) != 0 {
		t.Errorf("stalls are left: %+v", stalls)
	}
}

func aliveOn(c *bench.Cluster, node string) []string {
	var out []string
	for _, l := range c.Alive("") {
		if l.Node == node {
			out = append(out, l.Task)
		}
	}
	return out
}

// wantedOn is how many of the five jobs a node runs.
func wantedOn(node string) int {
	if node == "n4" {
		return 4
	}
	return 5
}

// backOn waits until so many tasks run on a node, by the server's word and in truth.
func backOn(c *bench.Cluster, node string, count int) {
	c.Until(bench.Soon, fmt.Sprintf("%d tasks run on %s", count, node), func() (bool, any) {
		var running []string
		for _, task := range c.Running("") {
			if task.Node == node {
				running = append(running, task.ID)
			}
		}
		return len(running) == count && len(aliveOn(c, node)) == count, running
	})
}

// Nodes join, and one that has gone joins again under its name: each gets what it should have, and of nodes that have gone nothing is counted.
func Test11EGlobalJobsAndNodesThatJoin(t *testing.T) {
	c := start(t, bench.Options{Nodes: globalNodes()})
	c.RunJobsWait(30*time.Second, fiveGlobals()...)
	c.Join(bench.N("n5", "zone=a"))
	backOn(c, "n5", 5)
	c.Join(bench.N("n6"))
	backOn(c, "n6", 4)
	if stalls := c.Stalls(""); len(stalls) != 0 {
		t.Errorf("n6 is not in the zone, which is nothing to wait for: %+v", stalls)
	}
	if counts := c.Job("g3").Counts; counts.Eligible != 4 || counts.EligibleOf != 6 || counts.Wanted != 4 {
		t.Errorf("g3: %+v", counts)
	}

	for range 3 {
		c.Agent("n5").PowerOff()
		c.NodeState(10*time.Second, "n5", "down")
		old := c.Node("n5").ID
		c.Must("node", "decommission", "n5", "--yes")
		c.Join(bench.N("n5", "zone=a"))
		backOn(c, "n5", 5)
		named := 0
		for _, n := range c.Nodes() {
			switch {
			case n.Name == "n5" && !n.Decommissioned:
				named++
			case n.ID == old && !n.Decommissioned:
				t.Errorf("the old record is not marked: %+v", n)
			}
		}
		if named != 1 {
			t.Errorf("%d nodes are called n5", named)
		}
		for job, want := range map[string]int{"g1": 6, "g3": 4} {
			if counts := c.Job(job).Counts; counts.Wanted != want || counts.Up != want {
				t.Errorf("%s: %+v, want %d", job, counts, want)
			}
		}
		c.Must("node", "rm", old)
	}
	if nodes := c.Nodes(); len(nodes) != 6 {
		t.Errorf("%d nodes are left, want 6: %+v", len(nodes), nodes)
	}
	for _, l := range c.Lives("") {
		if l.Node != "n5" && !l.Ended.IsZero() {
			t.Errorf("what happened to n5 stopped %+v", l)
		}
	}
}

// version2 is a job with other content.
func version2(j bench.Job) bench.Job {
	j.MoreTask += "    env = { EDITION = \"second\" }\n"
	return j
}

// versionsOn returns of which version a job's running task is, by node.
func versionsOn(c *bench.Cluster, job string) map[string]uint64 {
	out := map[string]uint64{}
	for _, task := range c.Running(job) {
		out[task.Node] = task.JobVersion
	}
	return out
}

// A paused node keeps what it has. An update goes round it and says so, and follows there once the node is active.
func Test11BPause(t *testing.T) {
	c := start(t, bench.Options{Nodes: globalNodes()})
	jobs := fiveGlobals()
	c.RunJobsWait(30*time.Second, jobs...)
	before := c.Lives("")
	c.Pause("n3")
	c.During(scaled(2*time.Second, 10*time.Second), "nothing stops", func() (bool, any) {
		return len(c.Alive("")) == len(before) && len(c.Lives("")) == len(before), c.Lives("")
	})

	r := c.RunJobsCode(60*time.Second, version2(jobs[0]))
	if r.Code != bench.Done || !strings.Contains(r.Stdout+r.Stderr, "1 paused") {
		t.Errorf("want code 0 and that 1 is paused: %s", r)
	}
	if got, want := versionsOn(c, "g1"), map[string]uint64{"n1": 2, "n2": 2, "n3": 1, "n4": 2}; !maps.Equal(got, want) {
		t.Errorf("the versions are %v, want %v", got, want)
	}
	if u := c.Job("g1").Update; u == nil || u.State != "completed" || u.Message != "completed, 1 paused" {
		t.Errorf("the update is %+v", u)
	}
	for _, l := range c.Lives("g1") {
		if l.Node == "n3" && (!l.StopAsked.IsZero() || l.Started.After(r.Began)) {
			t.Errorf("on the paused node: %+v", l)
		}
	}

	c.Activate("n3")
	c.Until(bench.Soon, "n3 has version 2", func() (bool, any) {
		got := versionsOn(c, "g1")
		return got["n3"] == 2, got
	})
	c.NoStall(bench.Soon, "g1")
}

// A node is down while a job is updated: the update completes without it, nothing is recorded for it, and it gets the new version when it is back.
func Test11CDown(t *testing.T) {
	c := start(t, bench.Options{Nodes: globalNodes()})
	jobs := fiveGlobals()
	c.RunJobsWait(30*time.Second, jobs...)
	c.Agent("n4").PowerOff()
	c.NodeState(10*time.Second, "n4", "down")
	slot := ""
	records := map[string]bool{}
	for _, task := range c.Records("g2") {
		records[task.ID] = true
		if task.Node == "n4" {
			slot = task.Slot
		}
	}

	r := c.RunJobsCode(60*time.Second, version2(jobs[1]))
	if r.Code != bench.Done || !strings.Contains(r.Stdout+r.Stderr, "1 down") {
		t.Errorf("want code 0 and that 1 is down: %s", r)
	}
	if got, want := versionsOn(c, "g2"), map[string]uint64{"n1": 2, "n2": 2, "n3": 2}; !maps.Equal(got, want) {
		t.Errorf("the versions are %v, want %v", got, want)
	}
	for _, task := range c.Records("g2") {
		if task.Slot == slot && !records[task.ID] {
			t.Errorf("made for the node that is down: %+v", task)
		}
	}
	c.Agent("n4").PowerOn()
	c.NodeState(10*time.Second, "n4", "ready")
	c.Until(bench.Soon, "n4 has version 2", func() (bool, any) {
		got := versionsOn(c, "g2")
		return got["n4"] == 2, got
	})
	backOn(c, "n4", 4)
	c.NoStall(bench.Soon, "")
}

// The server is killed a moment after it acknowledged a drain. When it is back the node is emptied all the same.
func Test11DKilledInADrain(t *testing.T) {
	c := start(t, bench.Options{Nodes: globalNodes()})
	c.RunJobsWait(30*time.Second, fiveGlobals()...)
	for round := range scaled(1, 5) {
		c.Drain("n1")
		c.Pass(100 * time.Millisecond)
		c.KillServer()
		c.Pass(time.Duration(rand.Int64N(int64(time.Second))))
		c.StartServer()
		c.DrainWait("n1", 30*time.Second)
		if left := aliveOn(c, "n1"); len(left) > 0 {
			t.Errorf("round %d: n1 is said to be drained, and there are still %v", round, left)
		}
		c.Activate("n1")
		c.Until(15*time.Second, "all is back", func() (bool, any) {
			return len(aliveOn(c, "n1")) == 5 && len(c.Stalls("")) == 0 && len(c.Running("")) == 19, c.Stalls("")
		})
	}
}

// The plugin that says which slots a global job has fails for a time, while things happen that it is asked about. The tasks stay as they are, each job says
// once what is the matter, and no records are made; then all goes on.
func Test11FPluginErrors(t *testing.T) {
	b := programs.Binaries(t)
	broken := filepath.Join(t.TempDir(), "broken")
	c := start(t, bench.Options{Nodes: globalNodes(), Config: pluginBlock("global", b.Plugin, []string{"global", "-fail-while", broken}, "sandbox = \"off\"")})
	jobs := fiveGlobals()
	c.RunJobsWait(30*time.Second, jobs...)
	records := func() map[string]bool {
		out := map[string]bool{}
		for _, j := range jobs {
			for _, task := range c.Records(j.Name) {
				out[task.ID] = true
			}
		}
		return out
	}
	before, lives := records(), len(c.Lives(""))
	if err := os.WriteFile(broken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.Join(bench.N("n5", "zone=a")) // of which the plugin is asked
	each(c, scaled(6, 60), func(i int) {
		c.Label("n4", fmt.Sprintf("shelf=s%d", i))
		if now := records(); !maps.Equal(now, before) {
			t.Errorf("after %d s there are the records %v, and there were %v", i, slices.Sorted(maps.Keys(now)), slices.Sorted(maps.Keys(before)))
		}
		said := map[string]int{}
		for _, s := range c.Stalls("") {
			if s.Code != "plugin_error" || s.Subject.Kind != "job" && s.Subject.Kind != "plugin" {
				t.Errorf("after %d s this waits: %+v", i, s)
			}
			said[s.Subject.Kind+" "+s.Subject.ID]++
		}
		for subject, n := range said {
			if n > 1 {
				t.Errorf("%s says %d times what is the matter", subject, n)
			}
		}
	})
	if stalls := c.Stalls("g1"); len(stalls) != 1 || stalls[0].Code != "plugin_error" || !strings.Contains(stalls[0].Message, "the inventory is away") {
		t.Errorf("g1 says %+v", stalls)
	}
	if now := len(c.Lives("")); now != lives || len(c.Alive("")) != lives {
		t.Errorf("%d of %d tasks are alive, and %d were started in all", len(c.Alive("")), lives, now)
	}
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	c.Until(40*time.Second, "n5 gets its five tasks", func() (bool, any) { // a plugin whose answers fail is asked again in half a minute at the latest
		on := aliveOn(c, "n5")
		return len(on) == 5 && len(c.Stalls("")) == 0, on
	})
}

// A job is removed while one of its nodes is off: it is gone from all lists at once, and when the node speaks again what it ran of it ends.
func Test11GRemovedWhileANodeIsAway(t *testing.T) {
	c := start(t, bench.Options{Nodes: globalNodes()})
	c.RunJobsWait(30*time.Second, fiveGlobals()...)
	n1 := c.Agent("n1")
	n1.Silence() // its machine lives on, and with it what runs there
	c.NodeState(10*time.Second, "n1", "down")
	c.RemoveJob("g4")
	c.Until(bench.Soon, "nothing is left of g4, but what runs on n1", func() (bool, any) {
		if records := c.Records("g4"); len(records) > 0 {
			return false, records
		}
		if stalls := c.Stalls("g4"); len(stalls) > 0 {
			return false, stalls
		}
		return len(c.Alive("g4")) == 1, c.Alive("g4")
	})
	if text := c.Must("job", "ls").Stdout; strings.Contains(text, "g4") {
		t.Errorf("g4 is still listed:\n%s", text)
	}
	n1.Resume()
	c.Until(bench.Soon, "what n1 ran of g4 has ended", func() (bool, any) {
		alive := c.Alive("g4")
		return len(alive) == 0, alive
	})
	backOn(c, "n1", 4)
	if again := c.Records("g4"); len(again) > 0 {
		t.Errorf("g4 is back: %+v", again)
	}
}

// A task of a global job that ends is started again by the rules that hold for any job.
func Test11HRestart(t *testing.T) {
	c := start(t, bench.Options{Nodes: globalNodes()})
	restart := "  restart {\n    delay     = \"2s\"\n    max_delay = \"2s\"\n    attempts  = 2\n    window    = \"10m\"\n  }\n"
	global := bench.Job{Name: "g3", Type: "global", Constraints: []string{"node.labels.zone == a"}, Command: []string{"sleep", "1000"}, More: restart}
	plain := global
	plain.Name, plain.Type, plain.Count = "r3", "", 3
	c.RunJobsWait(30*time.Second, global, plain)
	slots := map[string]string{} // whose task is killed, by job
	for attempt := range 3 {
		killed := map[string]bench.Task{}
		for _, job := range []string{"g3", "r3"} {
			live := c.Live(job)
			if slots[job] == "" {
				slots[job] = live[0].Slot
			}
			i := slices.IndexFunc(live, func(x bench.Task) bool { return x.Slot == slots[job] })
			if i < 0 {
				t.Fatalf("slot %s of %s has no task: %+v", slots[job], job, live)
			}
			killed[job] = live[i]
			procs := processesOf(c, job)
			victim := procs[slices.IndexFunc(procs, func(p bench.Process) bool { return p.Task == live[i].ID })]
			if err := syscall.Kill(victim.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		for job, task := range killed {
			if attempt == 2 { // both restarts are spent
				c.Stall(bench.Soon, job, "restart_budget_used")
				continue
			}
			c.Until(bench.Soon, "the next task of "+task.Slot+" of "+job+" runs", func() (bool, any) {
				running := c.Running(job)
				return len(running) == 3 && !slices.ContainsFunc(running, func(x bench.Task) bool { return x.ID == task.ID }), running
			})
			for _, next := range c.Running(job) {
				if next.Slot != task.Slot {
					continue
				}
				records := c.Records(job)
				i := slices.IndexFunc(records, func(x bench.Task) bool { return x.ID == task.ID })
				if i < 0 || records[i].Observed.State != "failed" {
					t.Fatalf("the task that was killed is %+v", records)
				}
				if gap := next.Created.Sub(*records[i].Observed.At); gap < 1900*time.Millisecond || gap > 4*time.Second {
					t.Errorf("%s follows %s after %s, and the delay is 2 s", next.ID, task.ID, gap)
				}
				if job == "g3" && next.Node != task.Node {
					t.Errorf("%s follows %s on another node", next.ID, task.ID)
				}
			}
		}
	}
}
