package sim_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/sim"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// seat is where a slot's task runs.
type seat struct {
	Node string
	Task cluster.TaskID
}

// seats returns by slot the task that is wanted and runs somewhere.
func seats(w *sim.World) map[string]seat {
	out := map[string]seat{}
	st := w.State()
	for t := range st.Tasks() {
		if !t.Dead() && t.Placed() && t.Desired.State.Wanted() {
			out[t.Job+"/"+string(t.Slot)] = seat{st.Node(t.Placement.Node).Spec.Name, t.ID}
		}
	}
	return out
}

// became says of each slot whose task is another what became of it, as a forecast would.
func became(before, after map[string]seat) map[string]string {
	out := map[string]string{}
	for key := range before {
		if _, ok := after[key]; !ok {
			out[key] = fmt.Sprintf("%s %s>", engine.SlotEmptied, before[key].Node)
		}
	}
	for key, b := range after {
		a, had := before[key]
		switch {
		case a.Task == b.Task:
		case !had:
			out[key] = fmt.Sprintf("%s >%s", engine.SlotFilled, b.Node)
		case a.Node == b.Node:
			out[key] = fmt.Sprintf("%s %s>%s", engine.SlotReplaced, a.Node, b.Node)
		default:
			out[key] = fmt.Sprintf("%s %s>%s", engine.SlotMoved, a.Node, b.Node)
		}
	}
	return out
}

func foreseen(f *engine.Forecast) map[string]string {
	out := map[string]string{}
	for _, s := range f.Slots {
		out[s.Job+"/"+string(s.Slot)] = fmt.Sprintf("%s %s>%s", s.Change, s.From, s.To)
	}
	return out
}

// waits returns what waits: subject, code and counts.
func waits(stalls func(yield func(*cluster.Stall) bool)) []string {
	var out []string
	for s := range stalls {
		out = append(out, fmt.Sprintf("%s %s %v", s.Key(), s.Code, s.Facts))
	}
	slices.Sort(out)
	return out
}

func foreseenWaits(f *engine.Forecast) []string {
	return waits(func(yield func(*cluster.Stall) bool) {
		for i := range f.Stalls {
			if f.Stalls[i].Until < 0 && !yield(&f.Stalls[i].Stall) {
				return
			}
		}
	})
}

// rest lets time pass until nothing has changed for long.
func rest(t *testing.T, w *sim.World) {
	t.Helper()
	for range 120 {
		rev := w.State().Revision
		w.Run(12 * time.Second)
		if w.State().Revision == rev {
			return
		}
	}
	t.Fatal("the world does not come to rest")
}

// holds tries operations, carries them out, and compares.
func holds(t *testing.T, w *sim.World, ops ...engine.Op) *engine.Forecast {
	t.Helper()
	rest(t, w)
	rev, before := w.State().Revision, seats(w)
	f, err := w.Foresee(t.Context(), ops...)
	if err != nil {
		_, really := w.Do(ops[0])
		if really == nil {
			t.Errorf("%+v is refused when tried (%v), and not in fact", ops[0], err)
		}
		return nil
	}
	if w.State().Revision != rev {
		t.Fatal("trying has changed the state")
	}
	if !f.Settled {
		t.Errorf("%+v: not settled after %s and %d turns", ops, f.Took, f.Turns)
	}
	for _, op := range ops {
		if _, err := w.Do(op); err != nil {
			t.Errorf("%+v is accepted when tried, and in fact: %v", op, err)
		}
	}
	rest(t, w)
	if diff := cmp.Diff(became(before, seats(w)), foreseen(f)); diff != "" {
		t.Errorf("%+v: slots (-what came +foreseen):\n%s", ops, diff)
	}
	if diff := cmp.Diff(waits(w.State().Stalls()), foreseenWaits(f)); diff != "" {
		t.Errorf("%+v: stalls (-what came +foreseen):\n%s", ops, diff)
	}
	return f
}

func TestForesight(t *testing.T) {
	w := newWorld(t, 4)
	ssd := func(n string) engine.Op { return engine.LabelNode{Node: n, Set: map[string]string{"disk": "ssd"}} }
	holds(t, w, ssd("n1"), ssd("n2"))
	web := job("web", 6, func(s *cluster.JobSpec) { s.MaxUnavailable = cluster.Amount{Count: 1} })
	f := holds(t, w, engine.RunJob{Spec: web})
	if f.Count(engine.SlotFilled) != 6 || len(f.Stalled()) != 0 {
		t.Errorf("forecast %+v", f)
	}
	holds(t, w, engine.RunJob{Spec: job("log", 0, func(s *cluster.JobSpec) { s.Type = cluster.TypeGlobal })})
	holds(t, w, engine.RunJob{Spec: job("db", 4, func(s *cluster.JobSpec) {
		s.Plugins, s.Task.Resources.MilliCPU = sim.Constraints("node.labels.disk == ssd"), 1500
	})})
	web.Task.Env = map[string]string{"V": "2"}
	if f = holds(t, w, engine.RunJob{Spec: web}); f.Count(engine.SlotMoved)+f.Count(engine.SlotReplaced) != 6 {
		t.Errorf("an update: %+v", f.Slots)
	}
	if f = holds(t, w, engine.SetAvailability{Nodes: []string{"n3"}, Availability: cluster.Drain}); f.Count(engine.SlotMoved) == 0 || f.Count(engine.SlotEmptied) != 1 {
		t.Errorf("a drain: %+v", f.Slots)
	}
	// The first of two tasks leaves and finds no other node, so that the budget keeps the second.
	f = holds(t, w, engine.LabelNode{Node: "n1", Remove: []string{"disk"}})
	if s := f.Stalled(); len(s) != 2 || s[0].Code != cluster.CodeWaitingForBudget || s[1].Code != cluster.CodeInsufficientResources || s[1].Tasks != 1 {
		t.Errorf("a label: %+v", s)
	}
	holds(t, w, engine.SetAvailability{Nodes: []string{"n3"}, Availability: cluster.Active})
	holds(t, w, engine.ScaleJob{Job: "web", Count: 3})
	if f = holds(t, w, engine.StopJob{Job: "web", Grace: -1}); f.Count(engine.SlotEmptied) != 3 {
		t.Errorf("a stop: %+v", f.Slots)
	}
	holds(t, w, engine.RemoveJob{Job: "log"})
}

// What is foreseen of a cluster at rest is what then comes, whatever is asked.
func TestForesightComesTrue(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			w := newWorld(t, 3+rng.IntN(4))
			for range 14 {
				holds(t, w, someOp(rng, len(w.Agents)))
				if t.Failed() {
					return
				}
			}
		})
	}
}

func someOp(rng *rand.Rand, nodes int) engine.Op {
	name := []string{"a", "b", "g"}[rng.IntN(3)]
	node := fmt.Sprintf("n%d", 1+rng.IntN(nodes))
	switch rng.IntN(10) {
	case 0:
		return engine.ScaleJob{Job: name, Count: rng.IntN(7)}
	case 1:
		return engine.StopJob{Job: name, Grace: -1}
	case 2:
		return engine.RestartJob{Job: name}
	case 3:
		return engine.SetAvailability{Nodes: []string{node}, Availability: cluster.Drain}
	case 4:
		return engine.SetAvailability{Nodes: []string{node}, Availability: cluster.Active}
	case 5, 6:
		return engine.LabelNode{Node: node, Set: map[string]string{"disk": []string{"ssd", "hdd"}[rng.IntN(2)]}}
	}
	return engine.RunJob{Spec: job(name, rng.IntN(6), func(s *cluster.JobSpec) {
		if name == "g" {
			s.Type, s.Count = cluster.TypeGlobal, 0
		}
		if rng.IntN(2) == 0 {
			s.Plugins = sim.Constraints("node.labels.disk == " + []string{"ssd", "hdd"}[rng.IntN(2)])
		}
		s.Task.Resources.MilliCPU = int64(200 + 400*rng.IntN(4))
		s.MaxUnavailable = cluster.Amount{Count: 1 + rng.IntN(2)}
		s.Update.Monitor = time.Second
		s.Task.Env = map[string]string{"V": fmt.Sprint(rng.IntN(3))}
	})}
}

// A copy shares nothing with the engine that either changes.
func TestForesightLeavesTheEngineAlone(t *testing.T) {
	twin := func(tried bool) string {
		w := newWorld(t, 3)
		w.MustDo(engine.RunJob{Spec: job("web", 6, nil)})
		w.MustDo(engine.SetAvailability{Nodes: []string{"n1"}, Availability: cluster.Drain})
		for range 40 {
			if tried {
				if _, err := w.Foresee(t.Context(), engine.ScaleJob{Job: "web", Count: 9}, engine.LabelNode{Node: "n2", Set: map[string]string{"x": "y"}}); err != nil {
					t.Fatal(err)
				}
			} else {
				_, _ = w.Do(engine.Inspect{})
			}
			w.Run(100 * time.Millisecond)
		}
		b, err := json.Marshal(slices.Sorted(maps.Keys(seats(w))))
		if err != nil {
			t.Fatal(err)
		}
		return w.Digest + string(b)
	}
	if twin(false) != twin(true) {
		t.Error("a cluster on whose copies something was tried goes another way")
	}
}

func TestForesightWithoutAPlugin(t *testing.T) {
	w := newWorld(t, 2)
	w.KillPlugin("constraint")
	w.Run(time.Second)
	f, err := w.Foresee(t.Context(), engine.RunJob{Spec: job("web", 1, nil)})
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Stalled()) != 1 || f.Stalled()[0].Code != cluster.CodePluginUnavailable || f.Count(engine.SlotFilled) != 0 {
		t.Errorf("forecast %+v", f)
	}
}
