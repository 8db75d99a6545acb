package sim_test

import (
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/sim"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// What random games found, each as the short story that it is.

// A drainer's failure is told of a node that is drained, and no longer.
func TestDrainerFailureEndsWithTheDrain(t *testing.T) {
	for name, end := range map[string]func(w *sim.World){
		"active again": func(w *sim.World) {
			w.MustDo(engine.SetAvailability{Nodes: []string{"n1"}, Availability: cluster.Active})
		},
		"decommissioned": func(w *sim.World) { w.MustDo(engine.Decommission{Node: "n1", Force: true}) },
		"after a restart": func(w *sim.World) {
			w.Restart()
			w.MustDo(engine.SetAvailability{Nodes: []string{"n1"}, Availability: cluster.Active})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2)
			w.MustDo(engine.RunJob{Spec: job("web", 2, nil)})
			w.RunUntil(5*time.Second, func() bool { return up(w, "web") == 2 })
			w.Plugin("drain").Faulty = sim.Errors
			w.MustDo(engine.SetAvailability{Nodes: []string{"n1"}, Availability: cluster.Drain})
			subject := cluster.Subject{Kind: cluster.SubjectNode, ID: string(w.State().NodeNamed("n1").ID)}
			if !w.RunUntil(2*time.Second, func() bool { return len(w.State().StallsOf(subject)) == 1 }) {
				t.Fatal("nothing says that the drainer fails")
			}
			end(w)
			w.Run(time.Second)
			if s := w.State().StallsOf(subject); len(s) > 0 {
				t.Errorf("it is still said: %+v", *s[0])
			}
		})
	}
}

// A task that starts first and fails follows the restart rules, also if the one that it replaced stops only after that.
func TestWhatStartedFirstAndFailedFollowsTheRestartRules(t *testing.T) {
	w := newWorld(t, 1)
	w.Agent("n1").StopDelay = 3 * time.Second
	spec := func(env map[string]string) cluster.JobSpec {
		return job("web", 1, func(s *cluster.JobSpec) {
			s.Update = cluster.UpdateSpec{Order: cluster.StartFirst, Monitor: time.Second, OnFailure: cluster.FailureContinue}
			s.Restart.Condition, s.Task.Env = cluster.RestartNone, env
		})
	}
	w.MustDo(engine.RunJob{Spec: spec(nil)})
	w.RunUntil(5*time.Second, func() bool { return up(w, "web") == 1 })
	w.MustDo(engine.RunJob{Spec: spec(map[string]string{"RUN": "500ms", "EXIT": "1"})})
	w.Run(10 * time.Second)
	if got := starts(w); got != 2 {
		t.Errorf("%d starts, want 2: the job wants no restarts", got)
	}
}

// A batch job runs no more at a time than it says, also while a task runs in a slot whose node is paused.
func TestHeldSlotsTakeTheirTurn(t *testing.T) {
	w := newWorld(t, 3)
	w.MustDo(engine.RunJob{Spec: job("sweep", 0, func(s *cluster.JobSpec) {
		s.Type, s.Parallelism = cluster.TypeGlobalBatch, 1
		s.Task.Env = map[string]string{"RUN": "5s"}
	})})
	running := func() (n int, on *sim.Agent) {
		for _, a := range w.Agents {
			for _, p := range a.Procs() {
				if p.Alive() {
					n, on = n+1, a
				}
			}
		}
		return n, on
	}
	if !w.RunUntil(3*time.Second, func() bool { n, _ := running(); return n == 1 }) {
		t.Fatal("nothing runs")
	}
	_, a := running()
	w.MustDo(engine.SetAvailability{Nodes: []string{a.Name}, Availability: cluster.Pause})
	w.RunUntil(3*time.Second, func() bool {
		if n, _ := running(); n > 1 {
			t.Fatalf("%d tasks run, want one at a time", n)
		}
		return false
	})
}

// A node on which something runs that its agent does not know takes nothing until that has ended, whoever restarts meanwhile; and then it does.
func TestStraysKeepTheirNodeForThemselves(t *testing.T) {
	for name, meanwhile := range map[string]func(w *sim.World, a *sim.Agent){
		"nothing":      func(*sim.World, *sim.Agent) {},
		"a new server": func(w *sim.World, _ *sim.Agent) { w.Restart() },
		"a new session, once they have ended": func(w *sim.World, a *sim.Agent) {
			a.Silent = true
			w.Run(3500 * time.Millisecond)
			a.Silent = false
			a.HangUp()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			a := w.Agent("n1")
			a.StopDelay = 4 * time.Second
			w.MustDo(engine.RunJob{Spec: job("big", 1, func(s *cluster.JobSpec) { s.Task.Resources.MilliCPU = 3000 })})
			w.RunUntil(5*time.Second, func() bool { return up(w, "big") == 1 })
			a.Forget(w)
			w.Run(500 * time.Millisecond)
			meanwhile(w, a)
			most := 0
			if !w.RunUntil(15*time.Second, func() bool {
				n := 0
				for _, p := range a.Procs() {
					if p.Alive() {
						n++
					}
				}
				most = max(most, n)
				return up(w, "big") == 1
			}) || most > 1 {
				t.Errorf("up %d, at most %d processes at once", up(w, "big"), most)
			}
			for _, f := range w.Failures {
				t.Error(f)
			}
		})
	}
}

// The delay before a restart stands, also if meanwhile the node of an earlier task, which was lost, is declared gone.
func TestDelayStandsWhenALostTaskIsDeclaredGone(t *testing.T) {
	w := newWorld(t, 4)
	w.MustDo(engine.RunJob{Spec: job("web", 1, func(s *cluster.JobSpec) { s.Restart.Delay, s.Restart.MaxDelay = 5*time.Second, 5*time.Second })})
	w.RunUntil(5*time.Second, func() bool { return up(w, "web") == 1 })
	lost := ""
	for _, a := range w.Agents {
		if a.Starts > 0 {
			lost, a.Silent = a.Name, true
		} else {
			a.Reject = func(cluster.TaskID) string { return "not here" }
		}
	}
	slot := cluster.Subject{Kind: cluster.SubjectSlot, ID: "web/1"}
	delayed := func() bool {
		s := w.State().StallsOf(slot)
		return len(s) == 1 && s[0].Code == cluster.CodeRestartDelay
	}
	if !w.RunUntil(20*time.Second, delayed) {
		t.Fatal("no delay")
	}
	made := func() (last cluster.Revision) {
		for x := range w.State().TasksOf("web") {
			last = max(last, x.CreatedRev)
		}
		return last
	}
	before := made()
	w.Run(time.Second)
	w.MustDo(engine.Decommission{Node: lost})
	w.Run(2 * time.Second)
	if made() != before {
		t.Error("another task was made within the delay")
	}
}

// A batch slot whose attempts are used up when its turn comes gives the turn to the next.
func TestUsedUpSlotsGiveTheirTurnAway(t *testing.T) {
	w := newWorld(t, 4)
	w.Agent("n1").Exit = func(_ cluster.TaskID, up time.Duration) (int, bool) { return 1, up > 2*time.Second }
	for _, name := range []string{"n2", "n3", "n4"} {
		w.Agent(name).Exit = func(_ cluster.TaskID, up time.Duration) (int, bool) { return 0, up > 10*time.Second }
	}
	w.MustDo(engine.RunJob{Spec: job("sweep", 0, func(s *cluster.JobSpec) {
		s.Type, s.Parallelism = cluster.TypeGlobalBatch, 1
		s.Restart.Delay, s.Restart.MaxDelay, s.Restart.Attempts, s.Restart.Window = time.Second, time.Second, 1, time.Hour
	})})
	n1 := w.Agent("n1")
	if !w.RunUntil(time.Minute, func() bool { return n1.Starts == 2 }) {
		t.Fatal("no second attempt")
	}
	w.MustDo(engine.SetAvailability{Nodes: []string{"n1"}, Availability: cluster.Pause})
	w.Run(4 * time.Second) // it fails while its slot is held, and another has its turn
	w.MustDo(engine.SetAvailability{Nodes: []string{"n1"}, Availability: cluster.Active})
	done := func() int {
		n := 0
		for _, s := range w.State().Slots("sweep") {
			if s.Done {
				n++
			}
		}
		return n
	}
	if !w.RunUntil(time.Minute, func() bool { return done() == 4 }) {
		t.Errorf("%d of 4 slots are done", done())
	}
}

// A task limited to a rack counts the nodes of that rack alone, whoever has the place of one that was removed; and goes to one that joins the rack.
func TestTaskOfARackGoesByTheNodesOfItsRack(t *testing.T) {
	w := sim.New(append(plugins(), sim.Racks())...)
	small, big := cluster.Resources{MilliCPU: 1000, Memory: 1 << 30}, cluster.Resources{MilliCPU: 8000, Memory: 8 << 30}
	rack := func(r string) map[string]string { return map[string]string{"rack": r} }
	w.AddNode("n1", rack("r0"), small)
	w.AddNode("n2", rack("r0"), small)
	w.Run(time.Second)
	w.MustDo(engine.RunJob{Spec: job("db", 0, func(s *cluster.JobSpec) { s.Type, s.Task.Resources.MilliCPU = sim.TypeRack, 4000 })})
	w.Run(time.Second)
	w.MustDo(engine.Decommission{Node: "n1", Force: true})
	w.Run(time.Second)
	w.MustDo(engine.RemoveNode{Node: "n1"})
	w.AddNode("n3", rack("r1"), small)
	w.Run(time.Second)
	w.CheckReasons()
	for x := range w.State().TasksOf("db") {
		if s := w.State().TaskStalls(x); len(s) != 1 || s[0].Facts.Nodes != 1 {
			t.Errorf("%s: %+v, want one node", x.ID, s)
		}
	}
	w.AddNode("n4", rack("r0"), big)
	if !w.RunUntil(5*time.Second, func() bool { return up(w, "db") == 1 }) {
		t.Error("nothing runs on the node that joined the rack")
	}
	for _, f := range w.Failures {
		t.Error(f)
	}
}

// A task that waits in a slot which is held shows what holds it.
func TestWaitingTaskShowsWhatHoldsItsSlot(t *testing.T) {
	w := sim.New(append(plugins(), sim.Racks())...)
	w.AddNode("n1", map[string]string{"rack": "r0"}, cluster.Resources{MilliCPU: 1000, Memory: 1 << 30})
	w.Run(time.Second)
	spec := job("db", 0, func(s *cluster.JobSpec) { s.Type, s.Task.Resources.MilliCPU = sim.TypeRack, 4000 })
	w.MustDo(engine.RunJob{Spec: spec})
	w.Run(time.Second)
	spec.Labels = map[string]string{"hold": "r0"}
	w.MustDo(engine.RunJob{Spec: spec})
	w.Run(time.Second)
	for x := range w.State().TasksOf("db") {
		if s := w.State().TaskStalls(x); len(s) != 1 || s[0].Code != sim.CodeHeld || s[0].Subject.ID != string(x.ID) {
			t.Errorf("%s: %+v", x.ID, s)
		}
	}
}

// What stands of a node goes with it, also while nobody says anew to which nodes a slot is limited: its place is another's next.
func TestRemovedNodeIsNotCountedWhileItsPluginIsAway(t *testing.T) {
	w := sim.New(append(plugins(), sim.Racks())...)
	small := cluster.Resources{MilliCPU: 1000, Memory: 1 << 30}
	w.AddNode("n1", map[string]string{"rack": "r0"}, small) // which the filter refuses, as it will the one that gets its place
	w.AddNode("n2", map[string]string{"rack": "r0", "disk": "ssd"}, small)
	w.Run(time.Second)
	w.MustDo(engine.RunJob{Spec: job("db", 0, func(s *cluster.JobSpec) {
		s.Type, s.Task.Resources.MilliCPU, s.Plugins = sim.TypeRack, 4000, sim.Constraints("node.labels.disk == ssd")
	})})
	w.Run(time.Second)
	w.KillPlugin("racks")
	w.MustDo(engine.Decommission{Node: "n1", Force: true})
	w.Run(time.Second)
	w.MustDo(engine.RemoveNode{Node: "n1"})
	w.AddNode("n3", map[string]string{"rack": "r1"}, small)
	w.Run(time.Second)
	waiting := 0
	for x := range w.State().TasksOf("db") {
		waiting++
		if s := w.State().TaskStalls(x); len(s) != 1 || s[0].Facts.Nodes != 1 {
			t.Errorf("%s: %+v, want one node", x.ID, s)
		}
	}
	if waiting != 1 {
		t.Errorf("%d tasks wait, want 1", waiting)
	}
}

// A slot that is held starts nothing, whatever room there is.
func TestHeldSlotStartsNothing(t *testing.T) {
	w := sim.New(append(plugins(), sim.Racks())...)
	w.AddNode("n1", map[string]string{"rack": "r0"}, cluster.Resources{MilliCPU: 5000, Memory: 8 << 30})
	w.Run(time.Second)
	w.MustDo(engine.RunJob{Spec: job("first", 1, func(s *cluster.JobSpec) { s.Task.Resources.MilliCPU = 4000 })})
	w.Run(5 * time.Second)
	spec := job("db", 0, func(s *cluster.JobSpec) { s.Type, s.Task.Resources.MilliCPU = sim.TypeRack, 4000 })
	w.MustDo(engine.RunJob{Spec: spec})
	w.Run(time.Second)
	spec.Labels = map[string]string{"hold": "r0"}
	w.MustDo(engine.RunJob{Spec: spec})
	w.Run(time.Second)
	w.MustDo(engine.RemoveJob{Job: "first"})
	w.Run(5 * time.Second)
	for x := range w.State().TasksOf("db") {
		if x.Placed() {
			t.Errorf("%s is on %s, and its slot is held", x.ID, x.Placement.Node)
		}
	}
	spec.Labels = nil
	w.MustDo(engine.RunJob{Spec: spec})
	if !w.RunUntil(5*time.Second, func() bool { return up(w, "db") == 1 }) {
		t.Error("nothing runs in a slot that is held no more")
	}
}
