package sim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/sim"
	"github.com/setpointd/setpoint/plugins/constraint"
	"github.com/setpointd/setpoint/plugins/drain"
	"github.com/setpointd/setpoint/plugins/global"
	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
)

func plugins() []sdk.Plugin { return []sdk.Plugin{constraint.New(), drain.New(), global.New()} }

func newWorld(t *testing.T, nodes int) *sim.World {
	t.Helper()
	w := sim.New(plugins()...)
	for i := range nodes {
		w.AddNode(fmt.Sprintf("n%d", i+1), nil, cluster.Resources{MilliCPU: 4000, Memory: 8 << 30})
	}
	w.Run(time.Second)
	t.Cleanup(func() {
		if t.Failed() {
			for _, l := range w.Trace[max(0, len(w.Trace)-80):] {
				t.Log(l)
			}
		}
	})
	return w
}

func job(name string, count int, edit func(*cluster.JobSpec)) cluster.JobSpec {
	s := cluster.JobSpec{Name: name, Count: count, Task: cluster.TaskSpec{Driver: "sim", Command: []string{"x"}, Resources: cluster.Resources{MilliCPU: 100}}}
	if edit != nil {
		edit(&s)
	}
	return s.WithDefaults()
}

func up(w *sim.World, job string) int {
	n := 0
	st := w.State()
	for t := range st.TasksOf(job) {
		if t.Up(st.Node(t.Placement.Node)) {
			n++
		}
	}
	return n
}

func TestReplicated(t *testing.T) {
	w := newWorld(t, 3)
	w.MustDo(engine.RunJob{Spec: job("web", 6, nil)})
	if !w.RunUntil(5*time.Second, func() bool { return up(w, "web") == 6 }) {
		t.Fatalf("up %d of 6", up(w, "web"))
	}
	for _, a := range w.Agents {
		if len(a.Procs()) != 2 {
			t.Errorf("%s runs %d", a.Name, len(a.Procs()))
		}
	}
	w.Run(5 * time.Second)
	steps := w.Steps
	rev := w.State().Revision
	w.Run(10 * time.Second)
	if w.State().Revision != rev {
		t.Errorf("settled cluster moved from revision %d to %d", rev, w.State().Revision)
	}
	_ = steps
}

func TestLossAndReturn(t *testing.T) {
	w := newWorld(t, 4)
	w.MustDo(engine.RunJob{Spec: job("web", 8, nil)})
	w.RunUntil(5*time.Second, func() bool { return up(w, "web") == 8 })
	n1 := w.Agent("n1")
	n1.Silent = true
	if !w.RunUntil(10*time.Second, func() bool { return up(w, "web") == 6 }) {
		t.Fatal("not lost")
	}
	if !w.RunUntil(5*time.Second, func() bool { return up(w, "web") == 8 }) {
		t.Fatal("not replaced")
	}
	n1.Silent = false
	w.Run(5 * time.Second)
	alive := 0
	for _, a := range w.Agents {
		for _, p := range a.Procs() {
			if p.Alive() {
				alive++
			}
		}
	}
	if alive != 8 || up(w, "web") != 8 {
		t.Errorf("alive %d, up %d, want 8", alive, up(w, "web"))
	}
}

func TestDrain(t *testing.T) {
	w := newWorld(t, 3)
	w.MustDo(engine.RunJob{Spec: job("web", 6, func(s *cluster.JobSpec) { s.MaxUnavailable = cluster.Amount{Count: 1} })})
	w.MustDo(engine.RunJob{Spec: job("log", 0, func(s *cluster.JobSpec) { s.Type = "global" })})
	if !w.RunUntil(5*time.Second, func() bool { return up(w, "web") == 6 && up(w, "log") == 3 }) {
		t.Fatal("not up")
	}
	w.MustDo(engine.SetAvailability{Nodes: []string{"n1"}, Availability: cluster.Drain})
	least := 6
	ok := w.RunUntil(20*time.Second, func() bool {
		least = min(least, up(w, "web"))
		return w.State().NodeNamed("n1").Drain.State == cluster.Drained
	})
	if !ok || least < 5 {
		t.Fatalf("drained %v, least %d", ok, least)
	}
	w.Run(time.Second)
	if up(w, "web") != 6 || up(w, "log") != 2 {
		t.Errorf("web %d log %d", up(w, "web"), up(w, "log"))
	}
	w.MustDo(engine.SetAvailability{Nodes: []string{"n1"}, Availability: cluster.Active})
	if !w.RunUntil(5*time.Second, func() bool { return up(w, "log") == 3 }) {
		t.Error("log did not come back")
	}
}

func TestConstraintStallAndDrift(t *testing.T) {
	w := newWorld(t, 3)
	w.MustDo(engine.RunJob{Spec: job("db", 1, func(s *cluster.JobSpec) { s.Plugins = sim.Constraints("node.labels.disk == ssd") })})
	w.Run(time.Second)
	st := w.State()
	var task *cluster.Task
	for x := range st.TasksOf("db") {
		task = x
	}
	stalls := st.TaskStalls(task)
	if len(stalls) != 1 || stalls[0].Code != cluster.CodeConstraint || stalls[0].Facts.Nodes != 3 {
		t.Fatalf("stalls %+v", stalls)
	}
	w.MustDo(engine.LabelNode{Node: "n2", Set: map[string]string{"disk": "ssd"}})
	if !w.RunUntil(3*time.Second, func() bool { return up(w, "db") == 1 }) {
		t.Fatal("not up")
	}
	w.Run(5 * time.Second) // it has kept still for long enough
	w.MustDo(engine.LabelNode{Node: "n3", Set: map[string]string{"disk": "ssd"}})
	w.MustDo(engine.LabelNode{Node: "n2", Remove: []string{"disk"}})
	n3 := w.State().NodeNamed("n3").ID
	ok := w.RunUntil(5*time.Second, func() bool {
		for x := range w.State().TasksOf("db") {
			if x.Placement.Node == n3 && x.Up(w.State().Node(n3)) {
				return up(w, "db") == 1
			}
		}
		return false
	})
	if !ok {
		t.Error("did not move")
	}
}

func TestRollingUpdate(t *testing.T) {
	for _, order := range []cluster.Order{cluster.StopFirst, cluster.StartFirst} {
		t.Run(string(order), func(t *testing.T) {
			w := newWorld(t, 3)
			edit := func(s *cluster.JobSpec) { s.Update.Order, s.Update.Monitor = order, time.Second }
			w.MustDo(engine.RunJob{Spec: job("web", 4, edit)})
			w.RunUntil(5*time.Second, func() bool { return up(w, "web") == 4 })
			w.MustDo(engine.RunJob{Spec: job("web", 4, func(s *cluster.JobSpec) {
				edit(s)
				s.Task.Env = map[string]string{"V": "2"}
			})})
			least, most := 4, 0
			ok := w.RunUntil(60*time.Second, func() bool {
				n := up(w, "web")
				least, most = min(least, n), max(most, n)
				return w.State().Job("web").Update.State == cluster.UpdateCompleted
			})
			if !ok {
				t.Fatalf("update %+v", w.State().Job("web").Update)
			}
			if order == cluster.StopFirst && (least != 3 || most > 4) || order == cluster.StartFirst && least != 4 {
				t.Errorf("least %d most %d", least, most)
			}
			for x := range w.State().TasksOf("web") {
				if x.Observed.State == cluster.Running && x.JobVersion != 2 {
					t.Errorf("%s runs version %d", x.ID, x.JobVersion)
				}
			}
		})
	}
}

func TestRestartOfTheDaemonChangesNothing(t *testing.T) {
	w := newWorld(t, 3)
	w.MustDo(engine.RunJob{Spec: job("web", 6, nil)})
	w.MustDo(engine.RunJob{Spec: job("log", 0, func(s *cluster.JobSpec) { s.Type = "global" })})
	w.RunUntil(5*time.Second, func() bool { return up(w, "web") == 6 && up(w, "log") == 3 })
	w.Run(time.Second)
	starts := 0
	for _, a := range w.Agents {
		starts += a.Starts
	}
	w.Restart()
	w.Run(20 * time.Second)
	after := 0
	for _, a := range w.Agents {
		after += a.Starts
	}
	if after != starts || up(w, "web") != 6 || up(w, "log") != 3 {
		t.Errorf("starts %d -> %d, web %d, log %d", starts, after, up(w, "web"), up(w, "log"))
	}
}

func TestFirstAnswersThatWouldStopTooMuch(t *testing.T) {
	w := newWorld(t, 4)
	for _, n := range []string{"n1", "n2"} {
		w.MustDo(engine.LabelNode{Node: n, Set: map[string]string{"disk": "ssd"}})
	}
	w.MustDo(engine.RunJob{Spec: job("db", 4, func(s *cluster.JobSpec) {
		s.Plugins, s.MaxUnavailable = sim.Constraints("node.labels.disk == ssd"), cluster.Amount{Count: 4}
	})})
	if !w.RunUntil(5*time.Second, func() bool { return up(w, "db") == 4 }) {
		t.Fatal("not up")
	}
	w.KillPlugin("constraint")
	for _, n := range []string{"n1", "n2"} {
		w.MustDo(engine.LabelNode{Node: n, Remove: []string{"disk"}})
	}
	for _, n := range []string{"n3", "n4"} {
		w.MustDo(engine.LabelNode{Node: n, Set: map[string]string{"disk": "ssd"}})
	}
	w.Run(time.Second)
	w.StartPlugin("constraint")
	w.Run(5 * time.Second)
	stalls := w.State().StallsOf(cluster.Subject{Kind: cluster.SubjectPlugin, ID: "constraint"})
	if len(stalls) != 1 || stalls[0].Code != cluster.CodeMassEviction || up(w, "db") != 4 {
		t.Fatalf("up %d, stalls %+v", up(w, "db"), stalls)
	}
	w.MustDo(engine.ConfirmPlugin{Plugin: "constraint"})
	onTheOthers := func() bool {
		n := 0
		for x := range w.State().TasksOf("db") {
			node := w.State().Node(x.Placement.Node)
			if node != nil && node.Spec.Labels["disk"] == "ssd" && x.Up(node) {
				n++
			}
		}
		return n == 4
	}
	if !w.RunUntil(10*time.Second, onTheOthers) {
		t.Error("did not move after they were confirmed")
	}
	if stalls := w.State().StallsOf(cluster.Subject{Kind: cluster.SubjectPlugin, ID: "constraint"}); len(stalls) != 0 {
		t.Errorf("stalls left: %+v", stalls)
	}
}

func TestKillAfterStopShortensTheGrace(t *testing.T) {
	w := newWorld(t, 1)
	w.MustDo(engine.RunJob{Spec: job("web", 1, nil)})
	w.RunUntil(5*time.Second, func() bool { return up(w, "web") == 1 })
	a := w.Agent("n1")
	a.StopDelay = time.Minute
	w.MustDo(engine.StopJob{Job: "web", Grace: -1})
	w.Run(2 * time.Second)
	if !a.Procs()[0].Alive() {
		t.Fatal("it stopped at once")
	}
	w.MustDo(engine.StopJob{Job: "web", Grace: 0})
	if !w.RunUntil(time.Second, func() bool { return !a.Procs()[0].Alive() }) {
		t.Error("it goes on after the kill")
	}
}

func TestNewVersionRevivesWhatNoRestartWasWantedFor(t *testing.T) {
	w := newWorld(t, 1)
	once := func(v string) cluster.JobSpec {
		return job("web", 1, func(s *cluster.JobSpec) {
			s.Restart.Condition = cluster.RestartNone
			s.Task.Env = map[string]string{"V": v}
		})
	}
	a := w.Agent("n1")
	a.Exit = func(_ cluster.TaskID, up time.Duration) (int, bool) { return 0, up > 500*time.Millisecond }
	w.MustDo(engine.RunJob{Spec: once("1")})
	w.Run(5 * time.Second)
	if a.Starts != 1 {
		t.Fatalf("%d starts, want 1", a.Starts)
	}
	w.MustDo(engine.RunJob{Spec: once("2")})
	w.Run(5 * time.Second)
	if a.Starts != 2 {
		t.Errorf("%d starts, want 2", a.Starts)
	}
}
