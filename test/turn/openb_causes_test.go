package turn

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// fraction of the trace that is played: all of it if SETPOINT_TRACE is full.
func fraction() int {
	if os.Getenv("SETPOINT_TRACE") == "full" {
		return 1
	}
	return 12
}

// TestTraceCauses loads the openb trace and compares, for every pod that found no place, what is said of it with what a plain count over all nodes comes to:
// how many nodes lack what, and which is nearest. So too after some pods have gone, whose room others took.
func TestTraceCauses(t *testing.T) {
	for _, g := range []gpus{wholeGPUs, sharedGPUs} {
		for _, strategy := range []cluster.Strategy{cluster.StrategySpread, cluster.StrategyBinpack} {
			t.Run(fmt.Sprintf("gpus=%s/%s", g, strategy), func(t *testing.T) {
				w := &loaded{trace: readTrace(t, g, fraction()), field: newField(t, 0, true), sessions: map[cluster.NodeID]uint64{}}
				w.load(t, strategy)
				first := w.check(t)
				w.end(t, 4)
				second := w.check(t)
				t.Logf("%d nodes, %d pods: %d wait; with every fourth that was placed gone, %d", len(w.nodes), len(w.pods), first, second)
				if first == 0 || second >= first {
					t.Errorf("%d pods wait, and then %d: nothing is compared", first, second)
				}
			})
		}
	}
}

// loaded is a trace in an engine.
type loaded struct {
	trace
	field    *field
	sessions map[cluster.NodeID]uint64
}

func (w *loaded) load(tb testing.TB, strategy cluster.Strategy) {
	w.join(tb, w.field.turn)
	w.rest(tb)
	for i, m := range w.nodes {
		w.sessions[cluster.NodeID(m.name)] = uint64(i + 1)
	}
	for batch := range slices.Chunk(w.pods, 100) {
		in := make([]engine.Input, len(batch))
		for i := range batch {
			in[i] = engine.Command("test", engine.RunJob{Spec: batch[i].job(strategy)})
		}
		for _, r := range w.field.turn(in...).Replies {
			if _, err := r.Result(); err != nil {
				tb.Fatal(err)
			}
		}
		w.rest(tb)
	}
}

// rest has the engine decide until it has nothing more to decide and the filter nothing more to say.
func (w *loaded) rest(tb testing.TB) {
	w.field.until(tb, w.field.applied)
	for w.field.turn().More {
	}
}

// end removes every n-th job whose task has a node, and has the agents report that it stopped.
func (w *loaded) end(tb testing.TB, n int) {
	var gone []*cluster.Task
	var in []engine.Input
	for x := range w.field.eng.View().Tasks() {
		if x.Placed() {
			gone = append(gone, x)
		}
	}
	gone = slices.DeleteFunc(gone, func(x *cluster.Task) bool { return slices.Index(gone, x)%n != 0 })
	for _, x := range gone {
		in = append(in, engine.Command("test", engine.RemoveJob{Job: x.Job}))
	}
	w.field.turn(in...)
	w.rest(tb)
	in = nil
	for _, x := range gone {
		node := x.Placement.Node
		in = append(in, engine.AgentReports{Node: node, Session: w.sessions[node], Tasks: []engine.TaskReport{{Task: x.ID, State: cluster.Stopped}}})
	}
	w.field.turn(in...)
	w.rest(tb)
}

// check compares what is said of each task that waits with a count over all nodes. It returns how many wait.
func (w *loaded) check(t *testing.T) int {
	t.Helper()
	st := w.field.eng.View()
	free, pods := w.free(st), w.byName()
	for x := range st.Tasks() {
		if !x.Placed() || x.Dead() {
			continue
		}
		name := string(x.Placement.Node)
		if i := slices.IndexFunc(w.nodes, func(m machine) bool { return m.name == name }); !pods[x.Job].takes(&w.nodes[i]) {
			t.Errorf("%s is on %s, whose model is %q", x.Job, name, w.nodes[i].model)
		}
	}
	for _, m := range w.nodes {
		if f := free[m.name]; f.MilliCPU < 0 || f.Memory < 0 || f.Amount(w.gpus.unit()) < 0 {
			t.Errorf("%s gives more than it has: %+v", m.name, f)
		}
	}
	waiting := 0
	for x := range st.Tasks() {
		if !x.Placed() && !x.Dead() {
			waiting++
			w.compare(t, x, pods[x.Job], free)
		}
	}
	return waiting
}

func (w *loaded) compare(t *testing.T, x *cluster.Task, p *pod, free map[string]cluster.Resources) {
	t.Helper()
	want := map[string]int{}
	for i := range w.nodes {
		m := &w.nodes[i]
		l := w.lack(p, m, free[m.name])
		if l.all() == 0 {
			t.Errorf("%s waits, and fits on %s", p.name, m.name)
			return
		}
		want[l.first()]++
	}
	nearest, best := w.nearest(p, free)
	stalls := w.field.eng.View().TaskStalls(x)
	if len(stalls) != 1 {
		t.Errorf("%s waits with %d stalls, want one: %+v", p.name, len(stalls), stalls)
		return
	}
	got, sum := map[string]int{}, 0
	for _, e := range stalls[0].Facts.Excluded {
		what := string(e.Code)
		if e.Code == cluster.CodeInsufficientResources {
			what = e.Detail
		}
		got[what] += e.Count
		sum += e.Count
	}
	if !maps.Equal(got, want) || sum != len(w.nodes) || stalls[0].Facts.Nodes != len(w.nodes) {
		t.Errorf("%s: %v of %d nodes is said and %v of %d is true", p.name, got, stalls[0].Facts.Nodes, want, len(w.nodes))
	}
	code := cluster.CodeInsufficientResources
	if best.model {
		code = cluster.CodeConstraint
	}
	if stalls[0].Code != code {
		t.Errorf("%s: the stall's code is %s, and the nearest node's is %s", p.name, stalls[0].Code, code)
	}
	v, err := w.field.turn(engine.Command("test", engine.Why{Task: x.ID})).Replies[0].Result()
	if err != nil {
		t.Fatal(err)
	}
	if why := v.(engine.WhyResult); why.Nearest != nearest {
		t.Errorf("%s: %s is said to be nearest, and %s is", p.name, why.Nearest, nearest)
	}
}
