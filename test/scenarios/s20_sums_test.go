package scenarios

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/test/internal/bench"
)

// sized is a node with so much to give.
func sized(name string, cpu float64, memory int64, units map[string]int64, labels ...string) bench.Node {
	n := bench.N(name, labels...)
	n.Capacity = bench.Resources{CPU: cpu, Memory: memory << 20, Units: units}
	return n
}

// same reports whether two amounts are equal; a unit of which there is none counts like one that is not named.
func same(a, b bench.Resources) bool {
	some := func(units map[string]int64) map[string]int64 {
		out := maps.Clone(units)
		maps.DeleteFunc(out, func(_ string, n int64) bool { return n == 0 })
		return out
	}
	return math.Abs(a.CPU-b.CPU) < 0.0005 && a.Memory == b.Memory && maps.Equal(some(a.Units), some(b.Units))
}

// allFree waits until everything that any node has is free.
func allFree(c *bench.Cluster, after string) {
	c.Until(10*time.Second, "all that there is is free after "+after, func() (bool, any) {
		nodes := c.Nodes()
		for _, n := range nodes {
			if !same(n.Free, n.Capacity) || n.Used.CPU != 0 || len(n.Ports) != 0 {
				return false, n
			}
		}
		return true, nil
	})
}

// What a task reserves is free once it was seen to stop, neither earlier nor twice, however its node is toggled meanwhile.
func Test20AFreeAtTheObservedStop(t *testing.T) {
	c := start(t, bench.Options{Nodes: []bench.Node{sized("n1", 2, 8192, nil), sized("n2", 2, 8192, nil)}})
	for round := range scaled(1, 5) {
		name := fmt.Sprintf("a%d", round)
		c.RunJobsWait(10*time.Second, bench.Job{Name: name, CPU: 0.5, Sim: map[string]string{"stop_delay": "5s"}, Grace: "30s"})
		node := c.Running(name)[0].Node
		steps := []func(){
			func() { c.Drain(node) }, func() { c.Activate(node) }, func() { c.Drain(node) }, func() { c.Activate(node) }, func() { c.Drain(node) },
		}
		began := time.Now()
		c.During(9*time.Second, "what is free is 1.5 until the stop and 2 afterwards", func() (bool, any) {
			if len(steps) > 0 && time.Since(began) > 700*time.Millisecond*time.Duration(6-len(steps)) {
				steps[0]()
				steps = steps[1:]
			}
			before := time.Now()
			free := c.Node(node).Free.CPU
			after := time.Now()
			var ended time.Time
			for _, l := range c.Lives(name) {
				if l.Node == node && !l.StopAsked.IsZero() {
					ended = l.Ended
				}
			}
			switch {
			case ended.IsZero() || after.Before(ended):
				return free == 1.5, free
			case before.After(ended.Add(time.Second)):
				return free == 2, free
			}
			return free == 1.5 || free == 2, free
		})
		c.Activate(node)
		c.RemoveJob(name)
		allFree(c, "the job is removed")
	}
}

// What fits by what placement counts is left alone by everybody else.
func Test20BWhatFitsStays(t *testing.T) {
	c := start(t, bench.Options{Nodes: []bench.Node{sized("n1", 4, 1024, nil)}})
	c.RunJobsWait(time.Minute, bench.Job{Name: "often", Type: "batch", Count: 10, Memory: 100, Sim: map[string]string{"run_for": "300ms"}, More: "parallelism = 2"})
	c.Until(bench.Soon, "all ten are complete", func() (bool, any) {
		state := c.Job("often").State
		return state == "complete" && len(c.Lives("often")) == 10, state
	})
	c.RunJobsWait(bench.Soon, bench.Job{Name: "large", Memory: 900})
	first := c.Running("large")[0]
	c.During(scaled(4*time.Second, 10*time.Minute), "it runs on", func() (bool, any) {
		now := c.Running("large")
		return len(now) == 1 && now[0].ID == first.ID && len(c.Lives("large")) == 1, now
	})
}

// Between the deaths of a job that crashes, everything is free.
func Test20CFreeBetweenDeaths(t *testing.T) {
	c := start(t, bench.Options{Nodes: []bench.Node{sized("n1", 1, 8192, nil)}})
	c.RunJobs(bench.Job{Name: "c", CPU: 1, Sim: crash("300ms"), More: "history_limit = 5\nrestart {\n delay = \"500ms\"\n max_delay = \"500ms\"\n}"})
	between := 0
	live := func() (ids string) {
		all, _ := c.Listed("c")
		for _, task := range all {
			if !task.GetDead() {
				ids += task.GetId()
			}
		}
		return ids
	}
	c.Until(scaled(30*time.Second, 3*time.Minute), "it has died often", func() (bool, any) {
		deaths := len(c.Lives("c"))
		before := live()
		free := c.NodesNow()[0].GetFree().GetMilliCpu()
		if free != 0 && free != 1000 {
			t.Fatalf("%d of 1000 is free", free)
		}
		if before == "" && live() == "" && len(c.Lives("c")) == deaths {
			between++
			if free != 1000 {
				t.Errorf("%d of 1000 is free between two tasks", free)
			}
		}
		return deaths >= scaled(8, 50), deaths
	})
	if between < 3 {
		t.Errorf("it was seen between two tasks only %d times", between)
	}
	c.Must("job", "stop", "c")
	allFree(c, "the job was stopped")
}

// In whatever way a task ends, what it reserved is free.
func Test20DEveryWayToEnd(t *testing.T) {
	capacity := map[string]int64{"gpu": 2}
	c := start(t, bench.Options{
		Nodes:     []bench.Node{sized("n1", 2, 4096, capacity), sized("n2", 2, 4096, capacity)},
		Unchecked: []string{"V5"}, // what runs on a node that is removed is known to nobody for a moment
	})
	job := func(name string) bench.Job {
		return bench.Job{Name: name, CPU: 0.5, Memory: 512, Units: map[string]int{"gpu": 1}, Port: 7000, More: "restart {\n condition = \"none\"\n}"}
	}
	run := func(name string) bench.Task {
		t.Helper()
		c.RunJobsWait(10*time.Second, job(name))
		return c.Running(name)[0]
	}
	dead := func(name string) {
		t.Helper()
		c.Until(10*time.Second, name+" is dead", func() (bool, any) { live := c.Live(name); return len(live) == 0 && len(c.AllTasks(name)) > 0, live })
	}
	third := 0
	ways := []struct {
		name string
		end  func(name string)
	}{
		{"exit", func(name string) {
			j := job(name)
			j.Sim = map[string]string{"run_for": "200ms"}
			c.RunJobs(j)
			dead(name)
		}},
		{"failure", func(name string) {
			j := job(name)
			j.Sim = crash("100ms")
			c.RunJobs(j)
			dead(name)
		}},
		{"update", func(name string) {
			first := run(name)
			j := job(name)
			j.MoreTask = "env = { A = \"b\" }"
			c.RunJobsWait(20*time.Second, j)
			if now := c.Running(name); len(now) != 1 || now[0].ID == first.ID {
				t.Errorf("it was not updated: %+v", now)
			}
			c.Must("job", "stop", name)
		}},
		{"kill", func(name string) {
			run(name)
			c.Must("job", "kill", name)
		}},
		{"drain", func(name string) {
			first := run(name)
			c.DrainWait(first.Node, 10*time.Second)
			c.RunningCount(10*time.Second, name, 1)
			c.Activate(first.Node)
			c.Must("job", "stop", name)
		}},
		{"scaling down", func(name string) {
			run(name)
			c.Must("job", "scale", name, "0")
		}},
		{"removal of the job", func(name string) { run(name) }},
		{"loss and return", func(name string) {
			a := c.Agent(run(name).Node)
			a.Silence()
			c.NodeState(10*time.Second, a.Node.Name, "down")
			c.RunningCount(10*time.Second, name, 1)
			a.Resume()
			c.NodeState(10*time.Second, a.Node.Name, "ready")
			c.Must("job", "stop", name)
		}},
		{"removal of the node", func(name string) {
			third++
			extra := fmt.Sprintf("x%d", third)
			a := c.Join(sized(extra, 2, 4096, capacity))
			j := job(name)
			j.Constraints = []string{"node.name == " + extra}
			c.RunJobsWait(10*time.Second, j)
			a.PowerOff()
			c.NodeState(10*time.Second, extra, "down")
			c.Must("node", "decommission", extra, "--yes")
			c.Must("node", "rm", extra)
		}},
		{"a label", func(name string) {
			c.Label("n1", "only=1")
			j := job(name)
			j.Constraints = []string{"node.labels.only == 1"}
			c.RunJobsWait(10*time.Second, j)
			c.Label("n1", "only-")
			c.Until(10*time.Second, "it has left", func() (bool, any) { alive := c.Alive(name); return len(alive) == 0, alive })
		}},
		{"refusal at the start", func(name string) {
			j := job(name)
			j.Sim = map[string]string{"reject": "not here"}
			c.RunJobs(j)
			dead(name)
		}},
		{"a start that fails", func(name string) {
			j := job(name)
			j.Sim = map[string]string{"fail_start": "the disk is full"}
			c.RunJobs(j)
			dead(name)
		}},
		{"the server's end while it assigns", func(name string) {
			c.RunJobs(job(name))
			c.KillServer()
			c.StartServer()
			c.RunningCount(10*time.Second, name, 1)
		}},
	}
	for _, way := range ways {
		for i := range scaled(1, 20) {
			name := fmt.Sprintf("%s-%d", strings.ReplaceAll(strings.ReplaceAll(way.name, " ", "-"), "'", ""), i)
			began := time.Now()
			way.end(name)
			if way.name != "removal of the job" {
				if live := c.Live(name); len(live) == 0 {
					allFree(c, way.name)
				}
			}
			c.RemoveJob(name)
			allFree(c, way.name)
			if i == 0 {
				t.Logf("%s took %s", way.name, time.Since(began).Round(100*time.Millisecond))
			}
		}
	}
}

// Of a hundred jobs that come at once, as many run as fit.
func Test20EABurstTakesWhatFits(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(1)})
	c.RunJobs(burst(100)...)
	c.Until(10*time.Second, "four run and the others say why not", func() (bool, any) {
		running, waiting := 0, 0
		for _, task := range c.Tasks("") {
			switch {
			case task.Running():
				running++
			case task.Waiting() && len(task.Stalls) == 1 && task.Stalls[0].Code == "insufficient_resources":
				waiting++
			}
		}
		return running == 4 && waiting == 96, []int{running, waiting}
	})
	c.During(2*time.Second, "nothing is overbooked", func() (bool, any) { n := c.Node("n1"); return n.Used.CPU == 4 && n.Free.CPU == 0, n })
}

// Constraints hold for each task of a batch.
func Test20EABurstKeepsItsConstraints(t *testing.T) {
	nodes := bench.Ns(4)
	nodes[1].Labels["here"] = "1"
	c := start(t, bench.Options{Nodes: nodes})
	jobs := burst(100)
	for i := range jobs {
		jobs[i].Constraints = []string{"node.labels.here == 1"}
	}
	c.RunJobs(jobs...)
	c.Until(10*time.Second, "four run on n2", func() (bool, any) {
		on := map[string]int{}
		for _, task := range c.Running("") {
			on[task.Node]++
		}
		return maps.Equal(on, map[string]int{"n2": 4}), on
	})
	c.During(2*time.Second, "no other node has any", func() (bool, any) {
		on := map[string]float64{}
		for _, n := range c.Nodes() {
			on[n.Name] = n.Used.CPU
		}
		return maps.Equal(on, map[string]float64{"n1": 0, "n2": 4, "n3": 0, "n4": 0}), on
	})
}

func burst(n int) []bench.Job {
	var out []bench.Job
	for i := range n {
		out = append(out, bench.Job{Name: fmt.Sprintf("b%d", i), CPU: 1})
	}
	return out
}

// What is placed at once is spread as what comes one by one.
func Test20FABatchIsSpread(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(4)})
	c.RunJobsWait(20*time.Second, bench.Job{Name: "f", Count: 8, MaxUnavailable: `"100%"`, More: "update {\n parallelism = 0\n monitor = \"1s\"\n}"})
	even := map[string]int{"n1": 2, "n2": 2, "n3": 2, "n4": 2}
	onNodes(c, "f", even)
	for range scaled(2, 20) {
		c.Must("job", "restart", "f", "--wait", "30s")
		onNodes(c, "f", even)
	}
	if n := len(c.Lives("f")); n != scaled(24, 168) {
		t.Errorf("%d tasks were started", n)
	}
}

// What runs holds its port whatever ends beside it.
func Test20GPorts(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(2)})
	onN1 := []string{"node.name == n1"}
	c.RunJobsWait(10*time.Second, bench.Job{Name: "a", Port: 80, Constraints: onN1})
	holder := func() string {
		for _, p := range c.Node("n1").Ports {
			if p.Number == 80 {
				return p.Name
			}
		}
		return ""
	}
	first := c.Running("a")[0]
	c.Agent("n1").PowerOff()
	c.KillServer()
	c.StartServer()
	c.Agent("n1").PowerOn()
	c.Until(20*time.Second, "a runs again, and has its port", func() (bool, any) {
		now := c.Running("a")
		return len(now) == 1 && now[0].ID != first.ID && holder() == now[0].ID && len(c.Alive("a")) == 1, []any{now, c.Node("n1").Ports}
	})
	c.RunJobs(bench.Job{Name: "b", Port: 80, Constraints: onN1})
	stall := c.Stall(bench.Soon, "b", "port_taken")
	if why := c.Why("b/1"); !containsAll(why.Sentence, []string{"port 80", "a/1"}) {
		t.Errorf("it does not name who has the port: %q %q", stall.Message, why.Sentence)
	}
	c.RemoveJob("a")
	c.RunningCount(10*time.Second, "b", 1)

	// What nobody manages listens on a port of n1: the start fails there, and the next try goes to the other node.
	taken := listenAsNode(t, c.Agent("n1"))
	c.RunJobs(bench.Job{
		Name: "p", Port: taken, Command: listener(t), MoreTask: "env = { SCENARIO_LISTEN = \"1\" }",
		More: "restart {\n delay = \"500ms\"\n}\nspread {\n attribute = \"node.name\"\n targets = { n1 = 100 }\n}",
	})
	c.Until(15*time.Second, "it runs on n2", func() (bool, any) {
		now := c.Running("p")
		return len(now) == 1 && now[0].Node == "n2", c.AllTasks("p")
	})
	all := c.AllTasks("p")
	if first := all[0]; first.Node != "n1" || first.Observed.State != "failed" {
		t.Errorf("it was not tried on n1 first: %+v", all)
	}
	c.During(2*time.Second, "it stays there", func() (bool, any) { now := c.Running("p"); return len(now) == 1 && now[0].Node == "n2", now })
}

// Named units are counted like anything else.
func Test20HNamedUnits(t *testing.T) {
	two := map[string]int64{"gpu": 2}
	c := start(t, bench.Options{Nodes: []bench.Node{sized("n1", 4, 8192, two)}})
	gpu := map[string]int{"gpu": 1}
	c.RunJobs(bench.Job{Name: "fails", Units: gpu, Sim: crash("500ms"), More: "restart {\n delay = \"500ms\"\n max_delay = \"500ms\"\n}"})
	c.Pass(scaled(5*time.Second, 50*time.Second))
	if n := len(c.Lives("fails")); n < 3 {
		t.Errorf("it failed only %d times", n)
	}
	c.Must("job", "stop", "fails")
	c.RunJobsWait(10*time.Second, bench.Job{Name: "ok", Count: 2, Units: gpu})
	if n := c.Node("n1"); n.Used.Units["gpu"] != 2 || n.Free.Units["gpu"] != 0 {
		t.Errorf("2 gpu are to be used: %+v", n)
	}

	// What no node has is named.
	c.RunJobs(bench.Job{Name: "unknown", Units: map[string]int{"tpu": 1}})
	c.Stall(bench.Soon, "unknown", "insufficient_resources")
	if why := c.Why("unknown/1"); !containsAll(why.Sentence, []string{"tpu"}) || !strings.Contains(why.Exceeds, "tpu") {
		t.Errorf("it does not name tpu: %+v", why)
	}
	if r := c.Must("task", "why", "unknown/1"); !containsAll(r.Stdout, []string{"It wants tpu, and no node has any", "what nodes have is gpu"}) {
		t.Errorf("it does not say that no node has any: %s", r)
	}

	// A node that has less from now on keeps what it runs, and takes nothing more until that fits.
	c.Agent("n1").Resize(bench.Resources{CPU: 4, Memory: 8 << 30, Units: map[string]int64{"gpu": 1}})
	c.Until(10*time.Second, "the node has one gpu", func() (bool, any) { n := c.Node("n1"); return n.State == "ready" && n.Capacity.Units["gpu"] == 1, n })
	c.RunJobs(bench.Job{Name: "more", Units: gpu})
	c.Stall(bench.Soon, "more", "insufficient_resources")
	c.During(2*time.Second, "both run, and nothing is negative", func() (bool, any) {
		n := c.Node("n1")
		return len(c.Running("ok")) == 2 && n.Free.Units["gpu"] == 0 && n.Used.Units["gpu"] == 2 && len(c.Alive("more")) == 0, n
	})
	c.Must("job", "scale", "ok", "1")
	c.During(2*time.Second, "one more does not fit still", func() (bool, any) { n := c.Node("n1"); return n.Free.Units["gpu"] == 0 && len(c.Alive("more")) == 0, n })
	c.RemoveJob("ok")
	c.RunningCount(10*time.Second, "more", 1)
}

// Whatever is edited while tasks are placed, the sum is right.
func Test20IEditsUnderWay(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(3)})
	job := bench.Job{Name: "i", Count: 50, MaxUnavailable: `"100%"`, More: "update {\n parallelism = 0\n monitor = \"0s\"\n}"}
	for edit := range 10 {
		job.CPU = []float64{0.1, 0.2, 0.15}[edit%3]
		job.MoreTask = fmt.Sprintf("env = { EDIT = \"%d\" }", edit)
		c.RunJobs(job)
	}
	c.Until(60*time.Second, "all run what was asked for last", func() (bool, any) {
		j := c.Job("i")
		return j.State == "running" && j.Counts.Up == 50 && len(c.Alive("i")) == 50, j.Counts
	})
	c.During(2*time.Second, "the sum is exact", func() (bool, any) {
		used := 0.0
		for _, n := range c.Nodes() {
			used += n.Used.CPU
		}
		return math.Abs(used-50*job.CPU) < 0.0005, used
	})
}

// An operator sees what a node has, what of it is reserved by whom, and what is left.
func Test20JNodeInspect(t *testing.T) {
	c := start(t, bench.Options{
		Nodes:  []bench.Node{sized("n1", 4, 4096, map[string]int64{"gpu": 4, "disk": 2})},
		Config: "pool \"lan\" {\n  cidr = \"10.9.0.0/29\"\n}\n",
	})
	jobs := []bench.Job{
		{Name: "x", Count: 2, CPU: 0.5, Memory: 256, Units: map[string]int{"gpu": 1}, MoreTask: "address \"eth0\" {\n pool = \"lan\"\n}"},
		{Name: "y", CPU: 1.25, Memory: 512, Units: map[string]int{"disk": 2}, Port: 7001},
	}
	c.RunJobsWait(15*time.Second, jobs...)
	sum := bench.Resources{Units: map[string]int64{}}
	for _, j := range jobs {
		for range max(j.Count, 1) {
			sum.CPU += j.CPU
			sum.Memory += j.Memory << 20
			for name, n := range j.Units {
				sum.Units[name] += int64(n)
			}
		}
	}
	n := c.Node("n1")
	left := bench.Resources{CPU: 4 - sum.CPU, Memory: 4096<<20 - sum.Memory, Units: map[string]int64{"gpu": 2}}
	if !same(n.Used, sum) || !same(n.Free, left) || n.Tasks != 3 {
		t.Errorf("to be used: %+v, free: %+v; the node has %+v", sum, left, n)
	}
	held := map[string]bench.Resources{}
	for _, h := range n.Holders {
		held[h.Task] = h.Reserves
		if strings.HasPrefix(h.Task, "x/") && (len(h.Addresses) != 1 || h.Addresses[0].Pool != "lan" || !strings.HasPrefix(h.Addresses[0].Address, "10.9.0.")) {
			t.Errorf("%s holds %+v", h.Task, h)
		}
		if strings.HasPrefix(h.Task, "y/") && (len(h.Ports) != 1 || h.Ports[0].Number != 7001) {
			t.Errorf("%s holds %+v", h.Task, h)
		}
	}
	for _, task := range c.Running("") {
		want := bench.Resources{CPU: 0.5, Memory: 256 << 20, Units: map[string]int64{"gpu": 1}}
		if task.Job == "y" {
			want = bench.Resources{CPU: 1.25, Memory: 512 << 20, Units: map[string]int64{"disk": 2}}
		}
		if got, is := held[task.ID]; !is || !same(got, want) {
			t.Errorf("%s reserves %+v, and is said to hold %+v", task.ID, want, got)
		}
		delete(held, task.ID)
	}
	if len(held) > 0 {
		t.Errorf("these hold something as well: %+v", held)
	}
	text := c.Must("node", "inspect", "n1").Stdout
	if parts := []string{"x/1/", "x/2/", "y/1/", "2.25", "1.75", "7001", "lan", "10.9.0.1", "gpu", "disk"}; !containsAll(text, parts) {
		t.Errorf("not all of %q is in\n%s", parts, text)
	}
}
