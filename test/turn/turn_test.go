// Package turn measures whole turns of the engine with the real constraint, drain and global plugins as processes and with bbolt committing to disk.
package turn

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pluginhost"
	"github.com/setpointd/setpoint/core/pluginhost/runner"
	"github.com/setpointd/setpoint/core/store"
	"github.com/setpointd/setpoint/core/store/bolt"
	"github.com/setpointd/setpoint/plugins/constraint"
	"github.com/setpointd/setpoint/plugins/drain"
	"github.com/setpointd/setpoint/plugins/global"
	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// The test binary serves the plugins, as setpoint itself does.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "plugin" && os.Args[2] == "serve" {
		all := map[string]func() sdk.Plugin{"constraint": constraint.New, "drain": drain.New, "global": global.New}
		sdk.Serve(all[os.Args[3]]())
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// bench is an engine with its plugins and store, stepped by the benchmark's goroutine.
type bench struct {
	eng     *engine.Engine
	host    *pluginhost.Host
	journal store.Journal
	in      inbox
	start   time.Time
	commit  time.Duration // spent in commits
	commits int
	step    time.Duration // of the processor, spent deciding
	skew    time.Duration // by which the clock was put forward

	path     string
	stop     func() // ends the plugins
	head     cluster.Revision
	dry      bool // nothing is committed
	verdicts int  // of filters on classes, heard
	answers  int  // of job types about jobs, heard
	told     int  // messages to plugins
	written  int  // records
}

// inbox gathers what plugins say.
type inbox struct{ ch chan engine.Input }

func (b inbox) Send(_ context.Context, in engine.Input) error {
	b.ch <- in
	return nil
}

func newBench(tb testing.TB, nodes int) *bench {
	tb.Helper()
	b := openBench(tb)
	b.run(tb, engine.NewState("bench"))
	b.join(tb, nodes)
	return b
}

// openBench returns a bench with an empty store, before its engine.
func openBench(tb testing.TB) *bench {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "state.db")
	file, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = file.Close() })
	b := &bench{path: path, journal: store.Journal{Backend: file}, in: inbox{make(chan engine.Input, 1<<16)}, start: time.Now()}
	if _, err := b.journal.Load(tb.Context(), nil, func(any) error { return nil }); err != nil {
		tb.Fatal(err)
	}
	return b
}

// run starts the engine on a state, and the plugins as processes.
func (b *bench) run(tb testing.TB, st *engine.State) {
	tb.Helper()
	names := []string{"constraint", "drain", "global"}
	log := hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: os.Stderr})
	dir, err := os.MkdirTemp("/tmp", "sp")
	if err != nil {
		tb.Fatal(err)
	}
	launcher, err := runner.NewLauncher(dir, log)
	if err != nil {
		tb.Fatal(err)
	}
	cfg := pluginhost.Config{Logger: log, Launcher: launcher, Version: "bench", ClusterID: "bench", Engine: b.in}
	for _, name := range names {
		cfg.Plugins = append(cfg.Plugins, pluginhost.Plugin{Name: name, Command: runner.Builtin(name, ""), Timeout: time.Minute})
	}
	b.host = pluginhost.New(cfg)
	b.eng = engine.New(engine.Config{ClusterID: "bench", Plugins: names, Heartbeat: time.Hour}, st, b.now())
	ctx, cancel := context.WithCancel(tb.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.host.Run(ctx) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Error(err)
		}
		_ = launcher.Close()
		_ = os.RemoveAll(dir)
	})
	tb.Cleanup(b.stop)
}

func (b *bench) now() cluster.Time {
	d := time.Since(b.start) + b.skew
	return cluster.Time{Engine: began.Engine + d, Wall: b.start.Add(d).UnixNano()}
}

// cpu returns how much of a processor this thread has used. What else the machine does makes no difference to it.
func cpu() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

// turn steps, commits and publishes, as Run does.
func (b *bench) turn(tb testing.TB, in ...engine.Input) engine.Output {
	for _, x := range in {
		switch x := x.(type) {
		case engine.PluginVerdicts:
			b.verdicts += len(x.Classes)
		case engine.PluginSlots:
			if !x.More {
				b.answers++
			}
		}
	}
	runtime.LockOSThread()
	c0 := cpu()
	out := b.eng.Step(in, b.now())
	b.step += cpu() - c0
	runtime.UnlockOSThread()
	t1 := time.Now()
	if len(out.Turn.Changes) > 0 {
		if puts, deletes := b.eng.Records(out.Turn); !b.dry {
			b.written += len(puts) + len(deletes)
			b.commits++
			if err := b.journal.Commit(tb.Context(), out.Turn.State.Revision, out.Turn.State.Now, puts, deletes); err != nil {
				tb.Fatal(err)
			}
		}
		b.eng.Publish(out.Turn)
	}
	b.commit += time.Since(t1)
	for _, u := range out.Plugins {
		b.told++
		b.host.Update(u)
	}
	return out
}

// until turns with what plugins say until ok.
func (b *bench) until(tb testing.TB, ok func() bool) {
	deadline := time.After(5 * time.Minute)
	more := false
	for !ok() {
		var batch []engine.Input
		if !more {
			select {
			case in := <-b.in.ch:
				batch = append(batch, in)
			case <-deadline:
				tb.Fatal("the cluster does not get there within five minutes")
			}
		}
		for len(b.in.ch) > 0 {
			batch = append(batch, <-b.in.ch)
		}
		more = b.turn(tb, batch...).More
	}
}

func (b *bench) do(tb testing.TB, ops ...engine.Op) {
	tb.Helper()
	in := make([]engine.Input, len(ops))
	for i, op := range ops {
		in[i] = engine.Command("bench", op)
	}
	for _, r := range b.turn(tb, in...).Replies {
		if _, err := r.Result(); err != nil {
			tb.Fatal(err)
		}
	}
}

// join makes nodes that are ready, in zones and with or without an ssd.
func (b *bench) join(tb testing.TB, nodes int) {
	for first := 0; first < nodes; first += joinBatch {
		var ops []engine.Op
		for i := first; i < min(first+joinBatch, nodes); i++ {
			ops = append(ops, engine.JoinNode{ID: nodeID(i), Name: string(nodeID(i)), Labels: labels(i), Description: description()})
		}
		b.do(tb, ops...)
	}
	b.report(tb, nodes)
}

func jobs(classes, tasks int) []engine.Op {
	ops := make([]engine.Op, classes)
	for c := range classes {
		settings, _ := json.Marshal(map[string][]string{"constraints": {
			"node.labels.disk == ssd", fmt.Sprintf("node.labels.zone != z%d", c%10), fmt.Sprintf("node.name != host%d", c),
		}})
		ops[c] = engine.RunJob{Spec: cluster.JobSpec{
			Name: fmt.Sprintf("job%d", c), Count: tasks / classes,
			Plugins: []cluster.PluginSettings{{Plugin: "constraint", JSON: string(settings)}},
			Task:    cluster.TaskSpec{Driver: "sim", Resources: cluster.Resources{MilliCPU: 100, Memory: 64 << 20}},
		}.WithDefaults()}
	}
	return ops
}

// BenchmarkPlace measures from committed jobs to committed placements: new jobs whose classes the constraint plugin has to compile first, their slots and
// tasks, and a node for each task. The engine runs as a server's does.
func BenchmarkPlace(b *testing.B) {
	for _, size := range []struct{ nodes, tasks, classes int }{{100, 1_000, 20}, {1_000, 10_000, 20}, {10_000, 100_000, 100}} {
		b.Run(fmt.Sprintf("nodes=%d/tasks=%d/classes=%d", size.nodes, size.tasks, size.classes), func(b *testing.B) {
			var placed, turns int
			var decide, commit time.Duration
			machine := &limits{b: b}
			for b.Loop() {
				b.StopTimer()
				w := newBench(b, size.nodes)
				w.until(b, func() bool { return len(w.in.ch) == 0 && pluginsReady(w) })
				p := w.play(b, isPlacement)
				machine.x = w
				machine.begin()
				b.StartTimer()
				p.place(b, jobs(size.classes, size.tasks), size.tasks)
				b.StopTimer()
				machine.end()
				p.end(b)
				if n := waiting(w.eng.View(), size.tasks); n != 0 {
					b.Fatalf("%d tasks wait", n)
				}
				placed, turns, decide, commit = placed+size.tasks, turns+p.turns, decide+p.decide, commit+p.commit
				b.StartTimer()
			}
			machine.report()
			b.ReportMetric(float64(placed)/b.Elapsed().Seconds(), "tasks/s")
			b.ReportMetric(float64(commit.Milliseconds())/float64(b.N), "commit-ms/op")
			b.ReportMetric(float64(decide.Milliseconds())/float64(b.N), "decide-ms/op")
			b.ReportMetric(float64(turns)/float64(b.N), "turns/op")
		})
	}
}

// player has an engine run by itself.
type player struct {
	eng  *engine.Engine
	end  func(testing.TB)
	told chan int // changes of a turn, which are durable, as far as they are counted

	decide, commit time.Duration // for those who called end, as what follows
	turns          int           // that were committed
}

func isPlacement(c cluster.Change) bool {
	_, ok := c.(cluster.SetPlacement)
	return ok
}

// play has the bench's engine run, and gives it what plugins say, until end is called. Of the changes it counts those that are wanted.
func (b *bench) play(tb testing.TB, wanted func(cluster.Change) bool) *player {
	tb.Helper()
	p := &player{eng: b.eng, told: make(chan int, 1<<16)}
	ctx, cancel := context.WithCancel(tb.Context())
	ended, passed := make(chan error, 1), make(chan struct{})
	ports := engine.Ports{
		Committed: []func(engine.Turn){func(t engine.Turn) {
			n := 0
			for _, c := range t.Changes {
				if wanted(c.Change) {
					n++
				}
			}
			p.turns++
			p.told <- n
		}},
		Plugins: b.host.Update,
		Timed:   func(t engine.Timing) { p.decide, p.commit = p.decide+t.Decide, p.commit+t.Commit },
	}
	go func() { ended <- b.eng.Run(ctx, clock{b}, b.journal, ports) }()
	go func() {
		defer close(passed)
		for {
			select {
			case in := <-b.in.ch:
				if b.eng.Send(ctx, in) != nil {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	p.end = func(tb testing.TB) {
		cancel()
		<-passed
		if err := <-ended; err != nil {
			tb.Fatal(err)
		}
	}
	return p
}

// clock is the bench's.
type clock struct{ b *bench }

func (c clock) Now() cluster.Time { return c.b.now() }

// place gives the engine operations, and waits until so many tasks have a node.
func (p *player) place(tb testing.TB, ops []engine.Op, tasks int) {
	tb.Helper()
	for _, op := range ops {
		if err := p.eng.Send(tb.Context(), engine.Command("bench", op)); err != nil {
			tb.Fatal(err)
		}
	}
	p.await(tb, tasks)
}

// await waits until so many changes are durable.
func (p *player) await(tb testing.TB, changes int) {
	tb.Helper()
	for deadline := time.After(5 * time.Minute); changes > 0; {
		select {
		case n := <-p.told:
			changes -= n
		case <-deadline:
			tb.Fatalf("after five minutes %d changes are not durable", changes)
		}
	}
}

func pluginsReady(w *bench) bool {
	for _, s := range w.host.Status() {
		if s.State != pluginhost.StateRunning {
			return false
		}
	}
	return true
}

// waiting returns how many of so many tasks have no node yet.
func waiting(s *engine.State, tasks int) int {
	placed := 0
	for t := range s.Tasks() {
		if t.Placed() {
			placed++
		}
	}
	return tasks - placed
}
