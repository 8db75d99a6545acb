package reconcile_test

import (
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// upScene returns a scene in which count slots of a replicated job are up.
func upScene(t *testing.T, nodes, count int, edit func(*cluster.JobSpec)) *scene {
	s := newScene(t, nodes, func(spec *cluster.JobSpec) {
		spec.Count = count
		if edit != nil {
			edit(spec)
		}
	})
	s.run()
	s.pass(time.Hour)
	s.decide()
	return s
}

func (s *scene) want(told string) {
	s.t.Helper()
	if got := s.told(); got != told {
		s.t.Fatalf("did %q, want %q (stalls %+v)", got, told, s.last.Stalls)
	}
}

func (s *scene) wantStall(key cluster.SlotKey, codes ...cluster.Code) {
	s.t.Helper()
	got := s.slotStalls(key)
	if len(got) != len(codes) {
		s.t.Fatalf("slot %s has stalls %v, want %v", key, got, codes)
	}
	for i := range got {
		if got[i] != codes[i] {
			s.t.Fatalf("slot %s has stalls %v, want %v", key, got, codes)
		}
	}
}

// restartsAfter checks that the slot's next task is made once its delay is over and not before, and starts it.
func (s *scene) restartsAfter(key cluster.SlotKey, delay time.Duration) {
	s.t.Helper()
	s.decide()
	s.want("")
	s.wantStall(key, cluster.CodeRestartDelay)
	if s.last.Wake != delay {
		s.t.Fatalf("wakes in %s, want %s", s.last.Wake, delay)
	}
	s.pass(delay - 1)
	s.decide()
	s.want("")
	s.pass(1)
	s.decide()
	s.want("new " + string(key))
	s.observe(key, cluster.Running)
	s.decide()
	s.want("")
	s.wantStall(key)
}

func TestRestartConditions(t *testing.T) {
	for _, c := range []struct {
		condition cluster.RestartCondition
		end       cluster.ObservedState
		done      bool
	}{
		{cluster.RestartAny, cluster.Complete, false},
		{cluster.RestartAny, cluster.Failed, false},
		{cluster.RestartAny, cluster.Rejected, false},
		{cluster.RestartOnFailure, cluster.Complete, true},
		{cluster.RestartOnFailure, cluster.Failed, false},
		{cluster.RestartOnFailure, cluster.Rejected, false},
		{cluster.RestartNone, cluster.Complete, true},
		{cluster.RestartNone, cluster.Failed, true},
		{cluster.RestartNone, cluster.Rejected, true},
	} {
		t.Run(string(c.condition)+"/"+c.end.String(), func(t *testing.T) {
			s := upScene(t, 1, 1, func(spec *cluster.JobSpec) { spec.Restart.Condition = c.condition })
			s.observe("1", c.end)
			if c.done {
				s.run()
				if !s.slot("1").Done || len(s.tasks) != 1 {
					t.Errorf("done %v with %d tasks, want done with 1", s.slot("1").Done, len(s.tasks))
				}
				s.wantStall("1")
				return
			}
			s.restartsAfter("1", time.Second)
		})
	}
}

func TestConditionDoesNotMatterForWhatDidNotEndByItself(t *testing.T) {
	s := upScene(t, 2, 1, func(spec *cluster.JobSpec) { spec.Restart.Condition = cluster.RestartNone })
	n := s.Node(s.of("1").Placement.Node)
	n.Status = cluster.NodeStatus{State: cluster.NodeDown, Since: s.now}
	s.decide()
	s.want("new 1")
}

func TestBackOffDoublesUpToItsCapAndEndsByStayingUp(t *testing.T) {
	s := upScene(t, 1, 1, nil)
	for _, delay := range []time.Duration{1, 2, 4, 8, 8} {
		s.observe("1", cluster.Failed)
		s.restartsAfter("1", delay*time.Second)
	}
	s.pass(7 * time.Second) // shorter than the longest delay: it goes on
	s.observe("1", cluster.Failed)
	s.restartsAfter("1", 8*time.Second)
	s.pass(8 * time.Second)
	s.observe("1", cluster.Failed)
	s.restartsAfter("1", time.Second)
}

func TestAttemptsInAWindow(t *testing.T) {
	s := upScene(t, 1, 1, func(spec *cluster.JobSpec) {
		spec.Restart = cluster.RestartSpec{Condition: cluster.RestartAny, Delay: time.Second, MaxDelay: time.Second, Attempts: 3, Window: time.Minute}
	})
	for range 3 {
		s.observe("1", cluster.Failed)
		s.restartsAfter("1", time.Second)
	}
	first := s.slot("1").Restarts[0]
	s.observe("1", cluster.Failed)
	s.decide()
	s.wantStall("1", cluster.CodeRestartBudgetUsed)
	if got := s.message("1", cluster.CodeRestartBudgetUsed); !strings.HasPrefix(got, "restart budget used, 3 in 1m0s; task j/1/") || !strings.HasSuffix(got, " failed (exit code 1)") {
		t.Errorf("says %q", got)
	}
	left := time.Minute - s.now.Sub(first)
	again := s.now.Add(left).WallTime().Round(time.Second).Format("15:04:05")
	want := "the oldest restart leaves the window of 1m0s at " + again + " UTC; or a new version of the job, or job restart"
	if got := s.stall("1", cluster.CodeRestartBudgetUsed).Clears; got != want {
		t.Errorf("clears %q, want %q", got, want)
	}
	if s.last.Wake != left {
		t.Errorf("wakes in %s, want %s", s.last.Wake, left)
	}
	s.pass(left - 1)
	s.decide()
	s.want("")
	s.pass(1)
	s.decide()
	s.want("new 1")
	if n := len(s.slot("1").Restarts); n != 3 {
		t.Errorf("%d restarts are on record, want 3", n)
	}
}

func attempts(n int) func(*cluster.JobSpec) {
	return func(spec *cluster.JobSpec) {
		spec.Restart = cluster.RestartSpec{Condition: cluster.RestartAny, Delay: time.Second, MaxDelay: time.Second, Attempts: n}
	}
}

// used has the only slot's task fail until its restarts are used.
func (s *scene) used(attempts int) {
	s.t.Helper()
	for range attempts {
		s.observe("1", cluster.Failed)
		s.restartsAfter("1", time.Second)
	}
	s.observe("1", cluster.Failed)
	s.pass(time.Hour)
	s.decide()
	s.want("")
	s.wantStall("1", cluster.CodeRestartBudgetUsed)
}

func TestAttemptsAreGivenBackByANewSpecification(t *testing.T) {
	for name, reset := range map[string]func(*scene){
		"new task section": func(s *scene) { s.version(env("2")) },
		"job restart":      (*scene).restart,
	} {
		t.Run(name, func(t *testing.T) {
			s := upScene(t, 1, 1, attempts(1))
			s.used(1)
			reset(s)
			s.decide() // the first task of the new specification is no restart
			s.want("new 1")
			s.observe("1", cluster.Running)
			s.decide()
			s.used(1)
		})
	}
}

func TestAttemptsAreNotGivenBackByALabel(t *testing.T) {
	s := upScene(t, 1, 1, attempts(1))
	s.used(1)
	s.version(func(spec *cluster.JobSpec) { spec.Labels = map[string]string{"a": "b"} })
	s.decide()
	s.want("")
	s.wantStall("1", cluster.CodeRestartBudgetUsed)
}

func TestLossAndDrainSpendNothing(t *testing.T) {
	s := upScene(t, 2, 1, attempts(1))
	for i := range 5 {
		old := s.of("1")
		n := s.Node(old.Placement.Node)
		switch i {
		case 0, 4:
			n.Spec.Availability = cluster.Drain
			s.says[old.ID] = voluntary(old)
		case 1:
			n.Status = cluster.NodeStatus{State: cluster.NodeDown, Since: s.now}
		case 2:
			s.edit(old.ID).Condition = cluster.Condition{State: cluster.Gone, Since: s.now}
		case 3:
			s.edit(old.ID).Observed = cluster.Observed{State: cluster.Failed, Unknown: true, At: s.now}
		}
		s.run()
		if got := s.of("1"); got.ID == old.ID || got.Observed.State != cluster.Running {
			t.Fatalf("case %d: %s is not replaced", i, old.ID)
		}
		n.Spec.Availability, n.Status = cluster.Active, cluster.NodeStatus{State: cluster.NodeReady}
		s.pass(time.Minute)
		s.run()
		if v := s.slot("1"); len(v.Restarts) != 0 || v.Backoff != 0 {
			t.Fatalf("case %d: spent %d restarts, back-off %d", i, len(v.Restarts), v.Backoff)
		}
	}
	s.used(1)
}

func voluntary(t *cluster.Task) (out saying) {
	out.Transition = cluster.Transition{Task: t.ID, To: cluster.DesiredShutdown, Strength: cluster.Voluntary, Cause: cluster.CauseDrain, By: "drain", Grace: -1, Reason: "drain"}
	return out
}

func TestDeathAfterASurplusTaskStopped(t *testing.T) {
	s := upScene(t, 2, 1, nil)
	a := s.of("1")
	n := s.Node(a.Placement.Node)
	n.Status = cluster.NodeStatus{State: cluster.NodeDown, Since: s.now}
	s.decide()
	s.want("new 1")
	s.observe("1", cluster.Starting)
	n.Status = cluster.NodeStatus{State: cluster.NodeReady, Since: s.now}
	s.decide()
	s.want("stop 1")
	s.observe("1", cluster.Stopped)
	s.decide()
	s.pass(time.Minute)
	s.see(a.ID, cluster.Failed) // the original, long after: by itself, so the rules of restart hold
	s.restartsAfter("1", time.Second)
}

func TestSlotsThatEnd(t *testing.T) {
	s := newScene(t, 2, func(spec *cluster.JobSpec) {
		spec.Type, spec.Count, spec.Restart.Condition = cluster.TypeBatch, 2, cluster.RestartOnFailure
	})
	s.run()
	if got := s.of("1").Desired.State; got != cluster.DesiredComplete {
		t.Fatalf("wanted at %s, want complete", got)
	}
	s.observe("1", cluster.Complete)
	s.observe("2", cluster.Failed)
	s.restartsAfter("2", time.Second)
	s.version(env("2"))
	s.run()
	if v := s.slot("1"); !v.Done || s.of("1").SpecVersion != 1 {
		t.Errorf("slot 1 done %v at version %d, want done and untouched", v.Done, s.of("1").SpecVersion)
	}
	if got := s.of("2").SpecVersion; got != 2 {
		t.Errorf("slot 2 runs version %d, want 2", got)
	}
}

func TestRestartAvoidsTheNodeOfTheFailure(t *testing.T) {
	s := upScene(t, 2, 1, nil)
	node := s.of("1").Placement.Node
	s.observe("1", cluster.Failed)
	s.pass(time.Second)
	s.decide()
	if got := s.of("1").Avoid; got != node {
		t.Errorf("avoids %q, want %q", got, node)
	}
}

// History is cut without changing a decision: what an update concludes from the newest task stays while there is no other.
func TestNewestTaskStaysUntilThereIsAnother(t *testing.T) {
	s := upScene(t, 2, 1, func(spec *cluster.JobSpec) {
		spec.HistoryLimit = 0
		spec.Restart.Condition = cluster.RestartNone
	})
	failed := s.of("1").ID
	s.see(failed, cluster.Failed)
	for range 2 {
		s.decide()
		s.want("")
		if s.tasks[failed] == nil {
			t.Fatal("the slot's only task was dropped")
		}
	}
}
