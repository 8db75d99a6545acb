package reconcile_test

import (
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/reconcile"
	"github.com/setpointd/setpoint/sdk/cluster"
)

func TestDrainDeadlineIsTheCoresOwn(t *testing.T) {
	s := upScene(t, 2, 4, func(spec *cluster.JobSpec) { spec.MaxUnavailable = cluster.Amount{Count: 1} })
	n := s.node(1) // with slots 1 and 3; no drainer says anything
	n.Spec.Availability, n.Spec.DrainSince, n.Spec.DrainDeadline = cluster.Drain, s.now, 10*time.Second
	s.decide()
	s.want("")
	if s.last.Wake != 10*time.Second {
		t.Errorf("wakes in %s, want 10s", s.last.Wake)
	}
	s.pass(10*time.Second - 1)
	s.decide()
	s.want("")
	s.pass(1)
	s.decide()
	s.want("stop 1, stop 3")
	if d := s.of("1").Desired; d.Grace >= 0 || d.By != cluster.SourceCore || d.Reason != "the drain of n1 reached its deadline" {
		t.Errorf("told %+v; a deadline ends the waiting, not a task's own grace", d)
	}
}

func TestDrainDeadlineBeatsKeep(t *testing.T) {
	s := upScene(t, 2, 2, nil)
	x := s.of("1")
	n := s.Node(x.Placement.Node)
	n.Spec.Availability, n.Spec.DrainSince, n.Spec.DrainDeadline = cluster.Drain, s.now, time.Second
	s.says[x.ID] = saying{Transition: cluster.Transition{Task: x.ID, Strength: cluster.Keep, Grace: -1}, Stalls: []cluster.Stall{{Source: "p", Code: "p.busy"}}}
	s.decide()
	s.wantStall("1", "p.busy")
	s.pass(time.Second)
	s.decide()
	s.want("stop 1")
}

func TestPlacedAndUnobservedLeavesAPausedOrDrainedNode(t *testing.T) {
	for _, a := range []cluster.Availability{cluster.Pause, cluster.Drain} {
		t.Run(string(a), func(t *testing.T) {
			s := newScene(t, 2, attempts(1))
			s.decide()
			s.see(s.of("1").ID, cluster.ObservedNone)
			s.Node(s.of("1").Placement.Node).Spec.Availability = a
			s.decide()
			s.want("stop 1")
			s.observe("1", cluster.Stopped)
			s.decide()
			s.want("new 1")
			if n := len(s.slot("1").Restarts); n != 0 {
				t.Errorf("spent %d attempts", n)
			}
		})
	}
}

func TestAReplacementLeavesAPausedNodeToo(t *testing.T) {
	s := upScene(t, 3, 1, func(spec *cluster.JobSpec) { spec.Update.Order = cluster.StartFirst })
	s.drainAll()
	s.decide()
	s.want("new 1")
	b := s.of("1").ID
	s.see(b, cluster.ObservedNone)
	s.Node(s.of("1").Placement.Node).Spec.Availability = cluster.Pause
	s.decide()
	s.want("stop 1")
	if s.tasks[b].Desired.State.Wanted() {
		t.Fatal("the wrong task was told")
	}
	s.wantStall("1", cluster.CodeWaitingForStop)
	s.see(b, cluster.Stopped)
	s.decide()
	s.want("new 1")
}

func TestStartFirstDrain(t *testing.T) {
	s := upScene(t, 2, 1, func(spec *cluster.JobSpec) { spec.Update.Order = cluster.StartFirst })
	a := s.of("1").ID
	s.drainAll()
	s.decide()
	s.want("new 1")
	s.decide()
	s.want("")
	s.wantStall("1", cluster.CodeWaitingForReplacement)
	s.observe("1", cluster.Failed) // as any task that ends by itself: with a delay
	s.restartsBeside("1", time.Second)
	s.observe("1", cluster.Failed)
	s.restartsBeside("1", 2*time.Second)
	s.observe("1", cluster.Running)
	s.decide()
	s.want("stop 1")
	if s.tasks[a].Desired.State.Wanted() {
		t.Error("the original stays")
	}
	s.wantStall("1")
}

// restartsBeside checks that another replacement is made after a delay while the slot is up.
func (s *scene) restartsBeside(key cluster.SlotKey, delay time.Duration) {
	s.t.Helper()
	s.decide()
	s.want("")
	s.wantStall(key, cluster.CodeRestartDelay)
	s.pass(delay)
	s.decide()
	s.want("new " + string(key))
}

func TestStartFirstDrainTakenBack(t *testing.T) {
	s := upScene(t, 2, 1, func(spec *cluster.JobSpec) { spec.Update.Order = cluster.StartFirst })
	s.drainAll()
	s.decide()
	s.observe("1", cluster.Starting)
	clear(s.says)
	s.decide()
	s.want("stop 1")
	if len(s.SlotTasks(jobName, "1")) != 2 || !s.SlotTasks(jobName, "1")[0].Desired.State.Wanted() {
		t.Error("the original is to stay")
	}
}

func TestDrainProgress(t *testing.T) {
	task := func(id string, node cluster.NodeID, o cluster.ObservedState) *cluster.Task {
		return &cluster.Task{
			ID: cluster.TaskID(id), Job: jobName, Slot: "1", Placement: cluster.Placement{Node: node}, Observed: cluster.Observed{State: o},
			Desired: cluster.Desired{State: cluster.DesiredRunning}, Condition: cluster.Condition{State: cluster.OK},
		}
	}
	s := newScene(t, 1, nil)
	n := s.node(1)
	for i, o := range []cluster.ObservedState{cluster.Running, cluster.Starting, cluster.Stopped, cluster.ObservedNone} {
		x := task(string(cluster.NewTaskID(jobName, "1", cluster.Revision(i+1))), n.ID, o)
		s.tasks[x.ID] = x
	}
	step := func(want cluster.DrainStatus) {
		t.Helper()
		for _, c := range reconcile.Node(s, "n1", s.now).Changes {
			s.apply(c)
		}
		if got := s.Node("n1").Drain; got != want {
			t.Fatalf("drain %+v, want %+v", got, want)
		}
		if again := reconcile.Node(s, "n1", s.now.Add(time.Hour)).Changes; len(again) != 0 {
			t.Fatalf("decided again: %+v", again)
		}
	}
	step(cluster.DrainStatus{})
	n.Spec.Availability = cluster.Drain
	began := s.now
	step(cluster.DrainStatus{State: cluster.Draining, Since: began, Left: 3})
	s.pass(time.Minute)
	s.edit("j/1/1").Observed.State = cluster.Stopped
	step(cluster.DrainStatus{State: cluster.Draining, Since: began, Left: 2})
	s.Node("n1").Status.State = cluster.NodeSilent
	step(cluster.DrainStatus{State: cluster.Draining, Since: began, Left: 2})
	s.Node("n1").Status.State = cluster.NodeDown
	step(cluster.DrainStatus{State: cluster.Drained, Since: s.now, Lost: 2})
	s.Node("n1").Status.State = cluster.NodeReady
	step(cluster.DrainStatus{State: cluster.Draining, Since: s.now, Left: 2})
	s.edit("j/1/2").Observed.State = cluster.Stopped
	s.edit("j/1/4").Observed.State = cluster.Stopped
	s.pass(time.Minute)
	step(cluster.DrainStatus{State: cluster.Drained, Since: s.now})
	s.Node("n1").Spec.Availability = cluster.Active
	step(cluster.DrainStatus{})
}
