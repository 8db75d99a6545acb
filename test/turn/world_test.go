package turn

import (
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/store"
	"github.com/setpointd/setpoint/core/store/bolt"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// world is a cluster that has run for a while: all tasks of its jobs run, spread over its nodes.
type world struct {
	nodes, jobs, perJob int
	classes             int  // of constraints, shared by the jobs
	heavy               int  // nodes that have 500 tasks more than others, or as many as there are jobs to give them
	global              bool // the jobs' slots are the nodes
}

func (w world) String() string { return fmt.Sprintf("nodes=%d/tasks=%d", w.nodes, w.tasks()) }

func (w world) tasks() int {
	if w.global {
		return w.jobs * w.nodes
	}
	return w.jobs * w.perJob
}

// heavyTasks is how many tasks more than others heavy nodes have.
const heavyTasks = 500

var began = cluster.Time{Engine: time.Second, Wall: 1_700_000_000_000_000_000}

func nodeID(i int) cluster.NodeID { return cluster.NodeID(fmt.Sprintf("node%05d", i)) }

func description() cluster.NodeDescription {
	return cluster.NodeDescription{OS: "linux", Arch: "amd64", Capacity: cluster.Resources{MilliCPU: 640_000, Memory: 2560 << 30}}
}

func labels(i int) map[string]string {
	return map[string]string{"zone": fmt.Sprintf("z%d", i%10), "disk": []string{"ssd", "hdd"}[i%2]}
}

// spec is job j of a world. Jobs of one class have the same constraints, which every node meets.
func (w world) spec(j int) cluster.JobSpec {
	settings, _ := json.Marshal(map[string][]string{"constraints": {"node.labels.zone exists", fmt.Sprintf("node.name != host%d", j%w.classes)}})
	s := cluster.JobSpec{
		Name: fmt.Sprintf("job%04d", j), Count: w.perJob, Plugins: []cluster.PluginSettings{{Plugin: "constraint", JSON: string(settings)}},
		Task: cluster.TaskSpec{Driver: "sim", Resources: cluster.Resources{MilliCPU: 100, Memory: 64 << 20}},
	}
	if w.global {
		s.Type, s.Count = cluster.TypeGlobal, 0
	}
	s = s.WithDefaults()
	s.Update.Monitor, s.Update.Delay, s.Update.Parallelism, s.Update.ProgressDeadline = 0, 0, 1, 0
	s.LostAfter = 0
	return s
}

// records yields all that is stored of the world.
func (w world) records() iter.Seq[any] {
	return func(yield func(any) bool) {
		for i := range w.nodes {
			n := &cluster.Node{
				ID: nodeID(i), Joined: began, Created: 1, Spec: cluster.NodeSpec{Name: string(nodeID(i)), Labels: labels(i), Availability: cluster.Active},
				Description: description(), Status: cluster.NodeStatus{State: cluster.NodeReady, Since: began},
			}
			for f := range n.Seen {
				n.Seen[f] = 1
			}
			if !yield(n) {
				return
			}
		}
		for j := range w.jobs {
			spec := w.spec(j)
			job := &cluster.Job{Name: spec.Name, Created: began, CreatedRev: 1, Control: cluster.JobControl{
				Spec: spec, Version: 1, SpecVersion: 1, Changed: began, ChangedRev: 1,
				Versions: []cluster.JobVersion{{Version: 1, SpecVersion: 1, Created: began, Spec: spec, Reason: "submitted"}},
			}}
			if !yield(job) || !w.slots(job, j, yield) {
				return
			}
		}
	}
}

func (w world) slots(job *cluster.Job, j int, yield func(any) bool) bool {
	for k := range w.tasks() / w.jobs {
		key, at, limited := cluster.SlotKey(strconv.Itoa(k+1)), nodeID(w.at(j, k)), []cluster.NodeID(nil)
		if w.global {
			key, at, limited = cluster.SlotKey(nodeID(k)), nodeID(k), []cluster.NodeID{nodeID(k)}
		}
		s := &cluster.Slot{Job: job.Name, Key: key, Created: 1, Nodes: limited, Version: 1, SpecVersion: 1, SpentFor: 1, UpSince: began, EverUp: true}
		t := &cluster.Task{
			ID: cluster.NewTaskID(job.Name, key, 1), Job: job.Name, Slot: key, JobVersion: 1, SpecVersion: 1, Created: began, CreatedRev: 1, Why: "new slot", Nodes: limited,
			Reserve:   cluster.Reserve{Resources: job.Control.Spec.Task.Resources},
			Desired:   cluster.Desired{State: cluster.DesiredRunning, By: cluster.SourceCore, Since: began, Grace: -1},
			Placement: cluster.Placement{Node: at, Since: began, Among: cluster.Among{Nodes: w.nodes, Allowed: w.nodes, Beside: 1}},
			Observed:  cluster.Observed{State: cluster.Running, Healthy: true, At: began}, Condition: cluster.Condition{State: cluster.OK},
		}
		if !yield(s) || !yield(t) {
			return false
		}
	}
	return true
}

// at returns on which node the k-th task of job j runs. Heavy nodes take their tasks from as many jobs as there are.
func (w world) at(j, k int) int {
	if each := max(1, heavyTasks/w.jobs); k < each*w.heavy && (j < heavyTasks) {
		return k / each
	}
	return w.heavy + (j*w.perJob+k)%(w.nodes-w.heavy)
}

// newWorld returns a bench in which the world runs and every agent has reported.
func newWorld(b *testing.B, w world) *bench {
	b.Helper()
	x := openBench(b)
	st := engine.NewState("bench")
	st.Now = began
	var batch []any
	for r := range w.records() {
		if err := st.Restore(r); err != nil {
			b.Fatal(err)
		}
		if batch = append(batch, r); len(batch) == 40_000 {
			x.store(b, batch)
			batch = nil
		}
	}
	x.store(b, batch)
	st.Revision = x.head
	x.run(b, st)
	x.report(b, w.nodes)
	x.until(b, func() bool { return len(x.in.ch) == 0 && pluginsReady(x) && x.settled(w) })
	return x
}

// settled reports whether the filter has answered about every class, and the job type about every job.
func (b *bench) settled(w world) bool {
	return b.verdicts >= w.classes && (!w.global || b.answers >= w.jobs)
}

// store writes records as one revision, without the engine.
func (b *bench) store(tb testing.TB, records []any) {
	if len(records) == 0 {
		return
	}
	b.head++
	if err := b.journal.Commit(tb.Context(), b.head, began, records, nil); err != nil {
		tb.Fatal(err)
	}
}

// report has the agents of the first nodes begin a session and name all that runs there.
func (b *bench) report(tb testing.TB, nodes int) {
	var in []engine.Input
	for i := range nodes {
		id := nodeID(i)
		var tasks []engine.TaskReport
		for t := range b.eng.View().TasksOn(id) {
			tasks = append(tasks, engine.TaskReport{Task: t.ID, State: t.Observed.State, Healthy: t.Observed.Healthy})
		}
		in = append(in, engine.AgentUp{Node: id, Session: uint64(i + 1), Description: description()},
			engine.AgentReports{Node: id, Session: uint64(i + 1), Full: true, Last: true, Tasks: tasks})
		if len(in) >= 1000 || i == nodes-1 {
			b.turn(tb, in...)
			in = nil
		}
	}
}

// answer has agents do at once what they are told, until nothing is left to be done.
func (b *bench) answer(tb testing.TB, out engine.Output) engine.Output {
	for {
		var in []engine.Input
		for _, c := range out.Turn.Changes {
			switch c := c.Change.(type) {
			case cluster.SetDesired:
				if t := out.Turn.State.Task(c.Task); t != nil && t.Placed() {
					in = append(in, b.says(t, cluster.Stopped))
				}
			case cluster.SetPlacement:
				in = append(in, b.says(out.Turn.State.Task(c.Task), cluster.Running))
			}
		}
		for len(b.in.ch) > 0 {
			in = append(in, <-b.in.ch)
		}
		if len(in) == 0 && !out.More && out.Wake > time.Minute || len(in) == 0 && !out.More && out.Wake == 0 {
			return out
		}
		if len(in) == 0 && !out.More {
			b.skew += out.Wake
		}
		out = b.turn(tb, in...)
	}
}

func (b *bench) says(t *cluster.Task, state cluster.ObservedState) engine.Input {
	i, err := strconv.Atoi(string(t.Placement.Node[len("node"):]))
	if err != nil {
		panic(err)
	}
	return engine.AgentReports{Node: t.Placement.Node, Session: uint64(i + 1), Tasks: []engine.TaskReport{{Task: t.ID, State: state, Healthy: state == cluster.Running}}}
}

// storedWorld writes a world to a store and returns the path.
func storedWorld(b *testing.B, w world) string {
	b.Helper()
	x := openBench(b)
	var batch []any
	for r := range w.records() {
		if batch = append(batch, r); len(batch) == 40_000 {
			x.store(b, batch)
			batch = nil
		}
	}
	x.store(b, batch)
	if err := x.journal.Backend.Close(); err != nil {
		b.Fatal(err)
	}
	return x.path
}

// loadBench opens a store and runs an engine on what it holds.
func loadBench(b *testing.B, path string) *bench {
	b.Helper()
	x := &bench{path: path, in: inbox{make(chan engine.Input, 1<<16)}, start: time.Now()}
	file, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		b.Fatal(err)
	}
	x.journal = store.Journal{Backend: file}
	st := engine.NewState("bench")
	var head store.Head
	err = engine.Uncollected(func() (err error) {
		head, err = x.journal.Load(b.Context(), engine.NewPreparer, st.Restore)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	st.Revision, st.Now = cluster.Revision(head.Revision), cluster.Time{Engine: head.Engine, Wall: head.Wall.UnixNano()}
	x.run(b, st)
	return x
}

// pluginMemory returns the most that one plugin's process holds in memory.
func (b *bench) pluginMemory(tb testing.TB) float64 {
	most := 0.0
	for _, s := range b.host.Status() {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.PID))
		if err != nil {
			tb.Fatal(err)
		}
		var size, resident float64
		if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
			tb.Fatal(err)
		}
		most = max(most, resident*float64(os.Getpagesize()))
	}
	return most
}
