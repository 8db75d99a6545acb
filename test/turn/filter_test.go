package turn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pluginhost"
	"github.com/setpointd/setpoint/core/pluginhost/runner"
	"github.com/setpointd/setpoint/plugins/constraint"
	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// field is an engine whose only plugin is the constraint filter: as a process, or called where it is. Nothing is committed to disk, so that what is measured is
// deciding and asking.
type field struct {
	eng    *engine.Engine
	in     inbox
	start  time.Time
	update func(engine.PluginUpdate)
	host   *pluginhost.Host // nil: the filter is called here
	told   int              // updates with nodes
	heard  int              // messages about a mirror's revision
	judged int              // verdicts on classes
	downs  int              // times that the filter was noticed to be gone
	ups    int              // sessions that began
}

func newField(tb testing.TB, nodes int, inProcess bool) *field {
	tb.Helper()
	f := &field{in: inbox{make(chan engine.Input, 1<<16)}, start: time.Now()}
	f.eng = engine.New(engine.Config{ClusterID: "bench", Plugins: []string{"constraint"}, Heartbeat: time.Hour}, engine.NewState("bench"), f.now())
	if inProcess {
		direct := &direct{filter: constraint.New().Filter, in: f.in, nodes: map[uint32]*cluster.Node{}, classes: map[uint32]*compiled{}}
		f.update = direct.update
		f.in.ch <- engine.PluginUp{Name: "constraint", Session: 1, Filter: true, Watches: cluster.Mask(cluster.FieldLabels, cluster.FieldAttributes, cluster.FieldPlatform)}
	} else {
		f.runHost(tb)
	}
	f.until(tb, func() bool { return f.told > 0 })
	f.join(tb, nodes)
	f.until(tb, func() bool { return f.applied() })
	return f
}

// runHost serves the filter as a process.
func (f *field) runHost(tb testing.TB) {
	dir, err := os.MkdirTemp("/tmp", "sp")
	if err != nil {
		tb.Fatal(err)
	}
	log := hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: os.Stderr})
	launcher, err := runner.NewLauncher(dir, log)
	if err != nil {
		tb.Fatal(err)
	}
	f.host = pluginhost.New(pluginhost.Config{
		Logger: hclog.NewNullLogger(), Launcher: launcher, Version: "bench", ClusterID: "bench", Engine: f.in,
		Plugins: []pluginhost.Plugin{{Name: "constraint", Command: runner.Builtin("constraint", ""), Timeout: time.Minute}},
	})
	f.update = f.host.Update
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.host.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, launcher.Close(), os.RemoveAll(dir)); err != nil {
			tb.Error(err)
		}
	})
}

func (f *field) now() cluster.Time {
	d := time.Since(f.start)
	return cluster.Time{Engine: d, Wall: f.start.Add(d).UnixNano()}
}

func (f *field) turn(in ...engine.Input) engine.Output {
	for _, x := range in {
		switch x := x.(type) {
		case engine.PluginDown:
			f.downs++
		case engine.PluginUp:
			f.ups++
		case engine.PluginApplied:
			f.heard++
		case engine.PluginVerdicts:
			f.judged += len(x.Classes)
		}
	}
	out := f.eng.Step(in, f.now())
	if len(out.Turn.Changes) > 0 {
		f.eng.Publish(out.Turn)
	}
	for _, u := range out.Plugins {
		if u.Revision != 0 || u.Reset {
			f.told++
		}
		f.update(u)
	}
	return out
}

// until turns with what the filter says until ok.
func (f *field) until(tb testing.TB, ok func() bool) {
	tb.Helper()
	deadline := time.After(5 * time.Minute)
	more := false
	for !ok() {
		var batch []engine.Input
		if !more {
			select {
			case in := <-f.in.ch:
				batch = append(batch, in)
			case <-deadline:
				tb.Fatal("it does not get there within five minutes")
			}
		}
		for len(f.in.ch) > 0 {
			batch = append(batch, <-f.in.ch)
		}
		more = f.turn(batch...).More
	}
}

// applied reports whether the filter has answered about everything that it was told.
func (f *field) applied() bool { return len(f.in.ch) == 0 && f.heard >= f.told }

const joinBatch = 500

func (f *field) join(tb testing.TB, nodes int) {
	for first := 0; first < nodes; first += joinBatch {
		var ops, reports []engine.Input
		for i := first; i < min(first+joinBatch, nodes); i++ {
			id := cluster.NodeID(fmt.Sprintf("node%05d", i))
			about := cluster.NodeDescription{OS: "linux", Arch: "amd64", Capacity: cluster.Resources{MilliCPU: 64_000, Memory: 256 << 30}}
			ops = append(ops, engine.Command("bench", engine.JoinNode{
				ID: id, Name: string(id), Labels: map[string]string{"zone": fmt.Sprintf("z%d", i%10), "disk": []string{"ssd", "hdd"}[i%2]}, Description: about,
			}))
			reports = append(reports, engine.AgentUp{Node: id, Session: uint64(i + 1), Description: about}, engine.AgentReports{Node: id, Session: uint64(i + 1), Full: true, Last: true})
		}
		f.until(tb, func() bool { return f.applied() })
		for _, r := range f.turn(ops...).Replies {
			if _, err := r.Result(); err != nil {
				tb.Fatal(err)
			}
		}
		f.until(tb, func() bool { return f.applied() })
		f.turn(reports...)
	}
}

// place runs jobs and returns how long it takes until all their tasks have nodes.
func (f *field) place(tb testing.TB, classes, tasks int) time.Duration {
	tb.Helper()
	var in []engine.Input
	for _, op := range jobs(classes, tasks) {
		in = append(in, engine.Command("bench", op))
	}
	before := waiting(f.eng.View(), 0)
	began := time.Now()
	out := f.turn(in...)
	for more := out.More; more; {
		more = f.turn().More
	}
	for waiting(f.eng.View(), tasks)-before > 0 {
		batch := []engine.Input{<-f.in.ch}
		for len(f.in.ch) > 0 {
			batch = append(batch, <-f.in.ch)
		}
		for more := f.turn(batch...).More; more; {
			more = f.turn().More
		}
	}
	return time.Since(began)
}

// direct is the filter called in the engine's process, with the same questions and answers.
type direct struct {
	filter  sdk.Filter
	in      inbox
	nodes   map[uint32]*cluster.Node
	classes map[uint32]*compiled
	size    int
}

type compiled struct {
	engine.Class
	matcher sdk.Matcher
}

func (d *direct) update(u engine.PluginUpdate) {
	for _, n := range u.Nodes {
		d.nodes[n.Index] = n.Node
		d.size = max(d.size, int(n.Index)+1)
	}
	out := engine.PluginVerdicts{Name: u.Plugin, Session: u.Session, Revision: u.Revision}
	for _, c := range u.AddClasses {
		m, err := d.filter.Compile(context.Background(), sdk.CompileRequest{JobType: c.JobType, Labels: c.Labels, Settings: sdk.Settings(c.Settings)})
		if err != nil {
			panic(err)
		}
		d.classes[c.ID] = &compiled{c, m}
		out.Classes = append(out.Classes, d.judge(d.classes[c.ID]))
	}
	if u.Revision != 0 && len(u.AddClasses) == 0 {
		for _, c := range d.classes {
			out.Classes = append(out.Classes, d.flips(c, u.Nodes))
		}
	}
	if len(out.Classes) > 0 {
		d.in.ch <- out
	}
	if u.Revision != 0 || u.Reset {
		d.in.ch <- engine.PluginApplied{Name: u.Plugin, Session: u.Session, Revision: u.Revision}
	}
}

func (d *direct) judge(c *compiled) engine.ClassVerdict {
	out := engine.ClassVerdict{Class: c.ID, ClassRevision: c.Revision}
	if c.matcher == nil {
		out.Indifferent = true
		return out
	}
	full := &engine.FullVerdict{Allowed: make([]byte, (d.size+7)/8)}
	table := map[engine.Rejection]uint32{}
	for i := range uint32(d.size) {
		n := d.nodes[i]
		if n == nil {
			continue
		}
		err := c.matcher.Match(n)
		if err == nil {
			full.Allowed[i/8] |= 1 << (i % 8)
			continue
		}
		full.Nodes = append(full.Nodes, i)
		full.Reasons = append(full.Reasons, number(table, &full.Rejections, err))
	}
	out.Full = full
	return out
}

func (d *direct) flips(c *compiled, nodes []engine.IndexedNode) engine.ClassVerdict {
	out := engine.ClassVerdict{Class: c.ID, ClassRevision: c.Revision, Flips: &engine.FlipVerdict{}}
	table := map[engine.Rejection]uint32{}
	for _, n := range nodes {
		reason := uint32(0)
		if err := c.matcher.Match(n.Node); err != nil {
			reason = number(table, &out.Flips.Rejections, err) + 1
		}
		out.Flips.Nodes, out.Flips.Reasons = append(out.Flips.Nodes, n.Index), append(out.Flips.Reasons, reason)
	}
	return out
}

func number(table map[engine.Rejection]uint32, all *[]engine.Rejection, err error) uint32 {
	stall, ok := errors.AsType[*sdk.Stall](err)
	if !ok {
		panic(err)
	}
	r := engine.Rejection{Code: stall.Code, Detail: stall.Detail, Clears: stall.Clears, Evicts: stall.Evicts}
	k, ok := table[r]
	if !ok {
		k = uint32(len(*all))
		table[r] = k
		*all = append(*all, r)
	}
	return k
}

// BenchmarkFilter measures from the jobs' commit to a node for each task, with the filter as a process and in the engine's own, in one run. The ratio is what
// being a process costs.
func BenchmarkFilter(b *testing.B) {
	const nodes, classes, tasks = 10_000, 100, 100_000
	var process, direct []time.Duration
	for b.Loop() {
		direct = append(direct, newField(b, nodes, true).place(b, classes, tasks))
		process = append(process, newField(b, nodes, false).place(b, classes, tasks))
	}
	slices.Sort(process)
	slices.Sort(direct)
	p, d := process[len(process)/2], direct[len(direct)/2]
	b.ReportMetric(float64(p.Milliseconds()), "process-ms/op")
	b.ReportMetric(float64(d.Milliseconds()), "direct-ms/op")
	b.ReportMetric(float64(p)/float64(d), "process/direct")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkRecovery measures from kill -9 of the filter to its next answer, and to its last one, with 10,000 nodes and 100 classes. On the way there its end is
// noticed ("down"), and another process is started, has described itself and taken up its configuration ("up"). By the last answer that process has used so much of the processors ("cpu").
func BenchmarkRecovery(b *testing.B) {
	f := newField(b, 10_000, false)
	const classes = 100
	f.place(b, classes, 1000)
	f.until(b, f.applied)
	took := map[string][]time.Duration{}
	for b.Loop() {
		st := f.host.Status()[0]
		judged, downs, ups := f.judged, f.downs, f.ups
		if err := syscall.Kill(st.PID, syscall.SIGKILL); err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		for _, phase := range []struct {
			name string
			over func() bool
		}{
			{"down", func() bool { return f.downs > downs }},
			{"up", func() bool { return f.ups > ups }},
			{"first", func() bool { return f.judged > judged }},
			{"all", func() bool { return f.judged >= judged+classes }},
		} {
			f.until(b, phase.over)
			took[phase.name] = append(took[phase.name], time.Since(began))
		}
		took["cpu"] = append(took["cpu"], used(b, f.host.Status()[0].PID))
		// A failure that is not the first for a minute is waited for longer; what is measured is a single one.
		b.StopTimer()
		if err := f.host.Restart("constraint"); err != nil {
			b.Fatal(err)
		}
		judged = f.judged
		f.until(b, func() bool { return f.judged >= judged+classes })
		b.StartTimer()
	}
	for name, of := range took {
		slices.Sort(of)
		b.ReportMetric(float64(of[len(of)/2].Milliseconds()), name+"-p50-ms")
		b.ReportMetric(float64(of[min(len(of)-1, len(of)*99/100)].Milliseconds()), name+"-p99-ms")
	}
}

// used returns how much of the processors a process has used, in steps of 10 ms.
func used(tb testing.TB, pid int) time.Duration {
	tb.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		tb.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	ticks := 0
	for _, field := range fields[11:13] { // utime and stime
		n, err := strconv.Atoi(field)
		if err != nil {
			tb.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// A label that changes on one node of many is one message to the filter and one message back.
func TestChangedLabelIsOneMessageEachWay(t *testing.T) {
	f := newField(t, 200, false)
	f.place(t, 20, 200)
	f.until(t, func() bool { return f.applied() })
	told, heard, verdicts := f.told, f.heard, 0
	out := f.turn(engine.Command("test", engine.LabelNode{Node: "node00007", Set: map[string]string{"disk": "ssd"}}))
	if len(out.Plugins) != 1 || len(out.Plugins[0].Nodes) != 1 || len(out.Plugins[0].AddClasses) != 0 {
		t.Fatalf("the filter is told %+v", out.Plugins)
	}
	for f.heard == heard {
		in := <-f.in.ch
		if v, ok := in.(engine.PluginVerdicts); ok {
			verdicts++
			for _, c := range v.Classes {
				if c.Flips == nil || len(c.Flips.Nodes) != 1 {
					t.Errorf("it answers %+v", c)
				}
			}
		}
		f.turn(in)
	}
	if f.told != told+1 || f.heard != heard+1 || verdicts != 1 {
		t.Errorf("%d updates, %d messages with verdicts, %d answers", f.told-told, verdicts, f.heard-heard)
	}
	// What does not concern the filter is no message at all.
	out = f.turn(engine.Command("test", engine.SetAvailability{Nodes: []string{"node00008"}, Availability: cluster.Pause}))
	if len(out.Plugins) != 0 {
		t.Errorf("the filter is told %+v", out.Plugins)
	}
}
