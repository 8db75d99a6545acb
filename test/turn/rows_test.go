package turn

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// sizes are a world at a hundredth, at a tenth, and as large as it is meant to be: 10,000 nodes and 1,000,000 tasks.
func sizes() []world {
	return []world{
		{nodes: 100, jobs: 10, perJob: 1000, classes: 10},
		{nodes: 1_000, jobs: 100, perJob: 1000, classes: 100},
		{nodes: 10_000, jobs: 1_000, perJob: 1000, classes: 100},
	}
}

// worlds runs a benchmark in each size.
func worlds(b *testing.B, edit func(*world), run func(*testing.B, world)) {
	for _, w := range sizes() {
		if edit != nil {
			edit(&w)
		}
		b.Run(w.String(), func(b *testing.B) { run(b, w) })
	}
}

// figures gathers how long something took, each time.
type figures []time.Duration

func (f figures) report(b *testing.B, name string) {
	slices.Sort(f)
	b.ReportMetric(float64(f[len(f)/2].Microseconds())/1000, name+"-p50-ms")
	b.ReportMetric(float64(f[min(len(f)-1, len(f)*99/100)].Microseconds())/1000, name+"-p99-ms")
}

// BenchmarkArrive measures from the command that runs one more task, of a class that the filter knows, to its durable placement.
func BenchmarkArrive(b *testing.B) {
	worlds(b, nil, func(b *testing.B, w world) {
		x := newWorld(b, w)
		var took, commit figures
		x.step, x.commit, x.commits = 0, 0, 0
		n := 0
		machine := watch(b, x)
		for b.Loop() {
			spec := w.spec(n)
			spec.Name, spec.Count = fmt.Sprintf("one%d", n), 1
			n++
			t0, c0, k0 := time.Now(), x.commit, x.commits
			x.do(b, engine.RunJob{Spec: spec})
			x.until(b, func() bool {
				for t := range x.eng.View().TasksOf(spec.Name) {
					return t.Placed()
				}
				return false
			})
			took, commit = append(took, time.Since(t0)), append(commit, (x.commit-c0)/time.Duration(x.commits-k0))
		}
		machine.report()
		took.report(b, "arrival")
		commit.report(b, "commit")
		b.ReportMetric(float64(x.step.Microseconds())/float64(n), "cpu-µs/op")
		b.ReportMetric(float64(x.commits)/float64(n), "commits/op")
	})
}

// BenchmarkDown measures from the moment at which a node with 500 tasks counts as down to the durable placement of a replacement for each.
func BenchmarkDown(b *testing.B) {
	worlds(b, func(w *world) { w.heavy = 5 }, func(b *testing.B, w world) {
		x := newWorld(b, w)
		var took, commit figures
		x.step = 0
		n, lost := 0, 0
		machine := watch(b, x)
		for b.Loop() {
			id := nodeID(n % w.heavy)
			n++
			var others []cluster.NodeID
			var tasks []*cluster.Task
			machine.aside(func() {
				for o := range x.eng.View().Nodes() {
					if o.ID != id && o.Status.State == cluster.NodeReady {
						others = append(others, o.ID)
					}
				}
				x.skew += 3 * time.Hour // the limit of silence, which the others break now
				tasks = slices.Collect(x.eng.View().TasksOn(id))
			})
			lost += len(tasks)
			t0, c0, k0 := time.Now(), x.commit, x.commits
			out := x.turn(b, engine.AgentsHeard{Nodes: others})
			for out.More {
				out = x.turn(b)
			}
			x.until(b, func() bool {
				return !slices.ContainsFunc(tasks, func(t *cluster.Task) bool {
					all := x.eng.View().SlotTasks(t.Job, t.Slot)
					return !all[len(all)-1].Placed() || all[len(all)-1].Placement.Node == id
				})
			})
			took, commit = append(took, time.Since(t0)), append(commit, (x.commit-c0)/time.Duration(x.commits-k0))
		}
		machine.report()
		took.report(b, "replaced")
		commit.report(b, "commit")
		b.ReportMetric(float64(x.step.Microseconds())/1000/float64(n), "cpu-ms/op")
		b.ReportMetric(float64(lost)/float64(n), "tasks/op")
	})
}

// BenchmarkLabel measures what the core does when one label of one node changes that filters watch, up to the time at which their answers count again.
func BenchmarkLabel(b *testing.B) {
	for _, w := range []world{
		{nodes: 100, jobs: 10, perJob: 10, classes: 10}, {nodes: 1_000, jobs: 100, perJob: 10, classes: 100}, {nodes: 10_000, jobs: 1_000, perJob: 10, classes: 1_000},
	} {
		b.Run(fmt.Sprintf("nodes=%d/classes=%d", w.nodes, w.classes), func(b *testing.B) {
			x := newWorld(b, w)
			x.step, x.told, x.commits = 0, 0, 0
			n, heard := 0, 0
			machine := watch(b, x)
			for b.Loop() {
				x.do(b, engine.LabelNode{Node: string(nodeID(n % w.nodes)), Set: map[string]string{"rack": fmt.Sprintf("r%d", n)}})
				n++
				for applied := false; !applied; heard++ {
					in := <-x.in.ch
					_, applied = in.(engine.PluginApplied)
					x.turn(b, in)
				}
			}
			machine.report()
			b.ReportMetric(float64(x.step.Microseconds())/float64(n), "cpu-µs/op")
			b.ReportMetric(float64(x.told)/float64(n), "told/op")
			b.ReportMetric(float64(heard)/float64(n), "heard/op")
			b.ReportMetric(float64(x.commits)/float64(n), "commits/op")
		})
	}
}

// BenchmarkStalled measures what the core does for tasks that wait, each of a class of its own, while nodes change in a way that is of no use to any of them:
// 50 changes a turn.
func BenchmarkStalled(b *testing.B) {
	const batch = 50
	for _, w := range []world{{nodes: 100, classes: 10}, {nodes: 1_000, classes: 100}, {nodes: 10_000, classes: 1_000}} {
		b.Run(fmt.Sprintf("nodes=%d/stalled=%d", w.nodes, w.classes), func(b *testing.B) {
			x := newBench(b, w.nodes)
			x.until(b, func() bool { return len(x.in.ch) == 0 && pluginsReady(x) })
			var ops []engine.Op
			for j := range w.classes {
				spec := w.spec(j)
				spec.Count = 1
				spec.Plugins[0].JSON = fmt.Sprintf(`{"constraints":["node.labels.gpu == g%d"]}`, j)
				ops = append(ops, engine.RunJob{Spec: spec})
			}
			x.do(b, ops...)
			x.until(b, func() bool {
				_, _, _, stalls := x.eng.View().Counts()
				return stalls >= w.classes
			})
			for len(x.in.ch) > 0 {
				x.turn(b, <-x.in.ch)
			}
			x.step, x.told = 0, 0
			n, stalls := 0, 0
			machine := watch(b, x)
			for b.Loop() {
				var ops []engine.Op
				for range batch {
					ops = append(ops, engine.LabelNode{Node: string(nodeID(n % w.nodes)), Set: map[string]string{"rack": fmt.Sprintf("r%d", n)}})
					n++
				}
				x.do(b, ops...)
				for applied := false; !applied; {
					in := <-x.in.ch
					_, applied = in.(engine.PluginApplied)
					for _, c := range x.turn(b, in).Turn.Changes {
						if _, ok := c.Change.(cluster.PutStall); ok {
							stalls++
						}
					}
				}
			}
			machine.report()
			b.ReportMetric(float64(x.step.Microseconds())/float64(n), "cpu-µs/change")
			b.ReportMetric(float64(stalls)/float64(n), "stalls-written/change")
		})
	}
}

// BenchmarkRolling measures what the core does for a rolling update of a global job, one node at a time, with agents that do at once what they are told.
func BenchmarkRolling(b *testing.B) {
	for _, nodes := range []int{100, 1_000, 10_000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			w := world{nodes: nodes, jobs: 1, classes: 1, global: true}
			x := newWorld(b, w)
			x.dry, x.step = true, 0
			n := 0
			machine := watch(b, x)
			for b.Loop() {
				n++
				spec := w.spec(0)
				spec.Task.Env = map[string]string{"V": fmt.Sprint(n)}
				out := x.turn(b, engine.Command("bench", engine.RunJob{Spec: spec}))
				done := func() bool {
					u := x.eng.View().Job(spec.Name).Update
					return u.To == uint64(n+1) && u.State == cluster.UpdateCompleted
				}
				for !done() {
					if out = x.answer(b, out); !done() {
						out = x.turn(b, <-x.in.ch)
					}
				}
			}
			machine.report()
			b.ReportMetric(float64(x.step.Microseconds())/float64(n)/float64(nodes), "cpu-µs/step")
			b.ReportMetric(float64(x.step.Milliseconds())/float64(n), "cpu-ms/op")
		})
	}
}

// BenchmarkReports measures how many changes of tasks' states are taken and committed, each reported by itself: of one node after the other, and of each node's
// tasks in turn. The engine runs as a server's does.
func BenchmarkReports(b *testing.B) {
	worlds(b, nil, func(b *testing.B, w world) {
		x := newWorld(b, w)
		tasks := make([][]cluster.TaskID, w.nodes)
		for i := range tasks {
			for t := range x.eng.View().TasksOn(nodeID(i)) {
				tasks[i] = append(tasks[i], t.ID)
			}
		}
		p := x.play(b, func(c cluster.Change) bool { _, ok := c.(cluster.SetObserved); return ok })
		n := 0
		machine := watch(b, x)
		start := time.Now()
		for b.Loop() { // each is one batch
			for range 2048 {
				i := n % w.nodes
				in := engine.AgentReports{Node: nodeID(i), Session: uint64(i + 1), Tasks: []engine.TaskReport{
					{Task: tasks[i][n/w.nodes%len(tasks[i])], State: cluster.Running, Healthy: true, Message: fmt.Sprint("round ", n)},
				}}
				if err := p.eng.Send(b.Context(), in); err != nil {
					b.Fatal(err)
				}
				n++
			}
		}
		p.await(b, n)
		took := time.Since(start)
		machine.report()
		p.end(b)
		b.ReportMetric(float64(n)/took.Seconds(), "changes/s")
		b.ReportMetric(float64(p.decide.Nanoseconds())/1000/float64(n), "decide-µs/change")
		b.ReportMetric(float64(p.commit.Nanoseconds())/1000/float64(n), "commit-µs/change")
	})
}

// BenchmarkStart measures from opening the store to the end of the first decision, and what the server holds in memory then (live, and with garbage); and the plugins once they know
// all nodes and classes.
func BenchmarkStart(b *testing.B) {
	worlds(b, nil, func(b *testing.B, w world) {
		path := storedWorld(b, w)
		defer debug.SetGCPercent(debug.SetGCPercent(engine.GCPercent)) // as the server does
		var took figures
		var heap, plugins, resident float64
		machine := watch(b, nil)
		for b.Loop() {
			var before, idle float64
			machine.aside(func() {
				before = heapInUse()
				debug.FreeOSMemory()
				idle = anonymous(b)
			})
			t0 := time.Now()
			x := loadBench(b, path)
			t1 := time.Now()
			x.turn(b)
			took = append(took, time.Since(t0))
			machine.aside(func() {
				b.Logf("loaded in %v, decided in %v", t1.Sub(t0), time.Since(t1))
				x.report(b, w.nodes)
				x.until(b, func() bool { return len(x.in.ch) == 0 && pluginsReady(x) && x.settled(w) })
				resident = max(resident, anonymous(b)-idle)
				heap = max(heap, heapInUse()-before)
				plugins = max(plugins, x.pluginMemory(b))
				x.stop()
				if err := x.journal.Backend.Close(); err != nil {
					b.Fatal(err)
				}
			})
		}
		machine.report()
		took.report(b, "start")
		b.ReportMetric(heap/(1<<20), "heap-MiB")
		b.ReportMetric(resident/(1<<20), "resident-MiB")
		b.ReportMetric(plugins/(1<<20), "plugin-MiB")
		b.ReportMetric(heap/float64(w.tasks()), "B/task")
	})
}

// anonymous returns how much memory of its own the process has in use: without files, which the kernel drops when it needs the room.
func anonymous(tb testing.TB) float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		tb.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "RssAnon:")
	var kb float64
	if _, err := fmt.Sscan(rest, &kb); err != nil {
		tb.Fatal(err)
	}
	return kb * 1024
}

func heapInUse() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// BenchmarkReference is work that has nothing to do with Setpoint: what a figure of the same run is compared with where machines differ. For the disk it is a
// write and fsync of as many bytes as a turn of about 100 records takes.
func BenchmarkReference(b *testing.B) {
	file, err := os.Create(filepath.Join(b.TempDir(), "plain"))
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	block := make([]byte, 32<<10)
	words := make(map[string]int, 4096)
	keys := make([]string, 4096)
	for i := range keys {
		keys[i] = fmt.Sprintf("job%04d/%d/1", i%100, i)
	}
	var used, disk time.Duration
	n := 0
	for b.Loop() {
		n++
		runtime.LockOSThread()
		c0 := cpu()
		for range 16 {
			for _, k := range keys {
				words[k]++
			}
		}
		used += cpu() - c0
		runtime.UnlockOSThread()
		t0 := time.Now()
		if _, err := file.Write(block); err != nil {
			b.Fatal(err)
		}
		if err := file.Sync(); err != nil {
			b.Fatal(err)
		}
		disk += time.Since(t0)
	}
	b.ReportMetric(float64(used.Microseconds())/float64(n), "cpu-µs/op")
	b.ReportMetric(float64(disk.Microseconds())/1000/float64(n), "fsync-ms/op")
}
