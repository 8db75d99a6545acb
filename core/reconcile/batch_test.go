package reconcile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// batchScene returns a scene with a batch job of count slots, of which nothing was decided yet.
func batchScene(t *testing.T, count int, edit func(*cluster.JobSpec)) *scene {
	return newScene(t, 3, func(spec *cluster.JobSpec) {
		spec.Type, spec.Count = cluster.TypeBatch, count
		spec.Restart.Condition = cluster.RestartOnFailure
		if edit != nil {
			edit(spec)
		}
	})
}

func parallelism(n int) func(*cluster.JobSpec) {
	return func(spec *cluster.JobSpec) { spec.Parallelism = n }
}

// wantTurns checks what the job says of slots that wait for their turn; "" is nothing.
func (s *scene) wantTurns(want string) {
	s.t.Helper()
	got := ""
	for _, st := range s.last.Stalls {
		if st.Subject.Kind == cluster.SubjectJob && st.Code == cluster.CodeWaitingForTurn {
			got = st.Message
		}
	}
	if got != want {
		s.t.Errorf("the job says %q, want %q", got, want)
	}
}

func (s *scene) wantDone(keys ...cluster.SlotKey) {
	s.t.Helper()
	var got []cluster.SlotKey
	for _, v := range s.Slots(jobName) {
		if v.Done {
			got = append(got, v.Key)
		}
	}
	if !slices.Equal(got, keys) {
		s.t.Fatalf("slots %v are done, want %v", got, keys)
	}
}

func TestParallelismIsSlotsWithATask(t *testing.T) {
	s := batchScene(t, 4, parallelism(2))
	s.decide()
	s.want("new 1, new 2")
	s.wantTurns("2 slots wait for their turn: the job runs 2 at a time")
	s.observe("1", cluster.Running)
	s.observe("2", cluster.Running)
	s.decide()
	s.want("")
	s.observe("2", cluster.Complete)
	s.decide()
	s.want("new 3")
	s.wantDone("2")
	s.wantTurns("1 slot waits for its turn: the job runs 2 at a time")
	s.observe("1", cluster.Complete)
	s.observe("3", cluster.Complete)
	s.decide()
	s.want("new 4")
	s.wantTurns("")
	s.observe("4", cluster.Complete)
	s.decide()
	s.wantDone("1", "2", "3", "4")
	s.decide()
	if len(s.last.Changes) > 0 || len(s.last.Stalls) > 0 {
		t.Errorf("a job that is done still changes: %+v", s.last)
	}
}

func TestAStopThatWasNotSeenKeepsItsTurn(t *testing.T) {
	s := batchScene(t, 2, parallelism(1))
	s.decide()
	s.observe("1", cluster.Running)
	s.says[s.of("1").ID] = voluntary(s.of("1"))
	s.decide()
	s.want("stop 1")
	s.observe("1", cluster.Stopped)
	s.decide()
	s.want("new 1")
}

func TestWhatWaitsForARestartGivesItsTurnAway(t *testing.T) {
	s := batchScene(t, 2, parallelism(1))
	s.decide()
	s.observe("1", cluster.Failed)
	s.decide()
	s.want("new 2")
	s.wantStall("1", cluster.CodeRestartDelay)
	s.pass(time.Minute)
	s.decide()
	s.want("")
	s.wantTurns("1 slot waits for its turn: the job runs 1 at a time")
	s.observe("2", cluster.Complete)
	s.decide()
	s.want("new 1")
}

func TestSlotsThatWaitForTheirTurnAreNotInTheBudget(t *testing.T) {
	s := batchScene(t, 10, parallelism(2))
	s.decide()
	s.observe("1", cluster.Running)
	s.observe("2", cluster.Running)
	s.drainAll("1", "2")
	s.decide()
	s.want("stop 1")
	text := "task j/2/101 is to move (drain), but 1 of 2 slots are not up and the job allows 1"
	if got := s.message("2", cluster.CodeWaitingForBudget); got != text {
		t.Errorf("says %q, want %q", got, text)
	}
}

func TestAttemptsUsedUpFailABatchSlot(t *testing.T) {
	for _, window := range []time.Duration{0, time.Hour} {
		t.Run(window.String(), func(t *testing.T) {
			s := batchScene(t, 2, func(spec *cluster.JobSpec) { spec.Restart.Attempts, spec.Restart.Window = 2, window })
			s.decide()
			s.observe("2", cluster.Complete)
			for range 2 {
				s.observe("1", cluster.Failed)
				s.decide()
				s.want("")
				s.pass(10 * time.Second)
				s.decide()
				s.want("new 1")
			}
			s.observe("1", cluster.Failed)
			s.decide()
			s.want("")
			s.wantDone("1", "2")
			if !s.slot("1").Failed || s.slot("2").Failed {
				t.Errorf("slot 1 failed: %v, slot 2 failed: %v", s.slot("1").Failed, s.slot("2").Failed)
			}
			s.wantStall("1")
			s.pass(2 * time.Hour)
			s.decide()
			s.want("")
		})
	}
}

func TestASlotThatIsNotRestartedFailed(t *testing.T) {
	s := batchScene(t, 1, func(spec *cluster.JobSpec) { spec.Restart.Condition, spec.HistoryLimit = cluster.RestartNone, 0 })
	s.decide()
	s.observe("1", cluster.Rejected)
	s.decide()
	s.decide()
	if v := s.slot("1"); !v.Done || !v.Failed {
		t.Errorf("slot %+v, want it done and failed", v)
	}
}

func TestDoneSlotsStayDoneInAnUpdate(t *testing.T) {
	s := batchScene(t, 3, func(spec *cluster.JobSpec) { spec.Restart.Attempts = 1 })
	s.decide()
	s.observe("1", cluster.Complete)
	s.observe("2", cluster.Running)
	for range 2 {
		s.observe("3", cluster.Failed)
		s.decide()
		s.pass(time.Hour)
		s.decide()
	}
	s.wantDone("1", "3")
	s.version(env("2"))
	s.decide()
	s.want("new 3, stop 2") // what failed is tried with the new version
	s.observe("2", cluster.Stopped)
	s.decide()
	s.want("new 2")
	s.observe("2", cluster.Complete)
	s.observe("3", cluster.Complete)
	s.decide()
	s.wantDone("1", "2", "3")
	if s.slot("3").Failed {
		t.Error("slot 3 is still failed after its task completed")
	}
	if v := s.slot("1"); v.Version != 1 {
		t.Errorf("slot 1 is at version %d, want what it ran, 1", v.Version)
	}
}

func TestACompletionOfTheEarlierVersionCounts(t *testing.T) {
	s := batchScene(t, 1, nil)
	s.decide()
	s.observe("1", cluster.Running)
	s.version(env("2"))
	s.decide()
	s.want("stop 1")
	s.observe("1", cluster.Complete)
	s.decide()
	s.want("")
	s.wantDone("1")
}

func TestARestartRunsABatchAgain(t *testing.T) {
	s := batchScene(t, 2, parallelism(1))
	s.decide()
	s.observe("1", cluster.Complete)
	s.decide()
	s.observe("2", cluster.Complete)
	s.decide()
	s.wantDone("1", "2")
	s.pass(time.Minute)
	s.restart()
	s.decide()
	s.want("new 1")
	s.wantDone()
	if v := s.slot("2"); v.NotUpWhy != cluster.NotUpNew || v.NotUpSince != s.now {
		t.Errorf("slot 2 is not up since %v (%s), want since now, new", v.NotUpSince, v.NotUpWhy)
	}
	s.observe("1", cluster.Complete)
	s.decide()
	s.want("new 2")
	s.wantDone("1")
	s.observe("2", cluster.Complete)
	s.decide()
	s.wantDone("1", "2")
	s.version(func(spec *cluster.JobSpec) { spec.Priority = 1 })
	s.decide()
	s.want("")
}

func TestARollbackBehindARestartRunsNothingAgain(t *testing.T) {
	s := batchScene(t, 1, nil)
	s.decide()
	s.observe("1", cluster.Complete)
	s.decide()
	s.restart()
	s.decide()
	s.observe("1", cluster.Complete)
	s.decide()
	s.control(func(c *cluster.JobControl) { c.Restarts = 0 })
	s.version(func(*cluster.JobSpec) {})
	if c := s.job().Control; c.Version != 3 || c.SpecVersion != 1 {
		t.Fatalf("at version %d with the content of %d, want 3 and 1", c.Version, c.SpecVersion)
	}
	s.decide()
	s.want("")
	s.wantDone("1")
}

func TestScalingABatchDownKeepsWhatIsDone(t *testing.T) {
	s := batchScene(t, 4, nil)
	s.decide()
	s.observe("3", cluster.Complete)
	s.observe("4", cluster.Running)
	s.observe("1", cluster.Running)
	s.decide()
	s.version(func(spec *cluster.JobSpec) { spec.Count = 2 })
	s.decide()
	if got := s.told(); got != "cancel 2, drop slot 2, remove 4" {
		t.Errorf("did %q, want slots 1 and 3 kept", got)
	}
}

func TestBatchTasksRunAgainElsewhere(t *testing.T) {
	for what, away := range map[string]func(*scene, *cluster.Node){
		"loss": func(s *scene, n *cluster.Node) { n.Status = cluster.NodeStatus{State: cluster.NodeDown, Since: s.now} },
		"drain": func(s *scene, n *cluster.Node) {
			n.Spec.Availability = cluster.Drain
			s.says[s.of("1").ID] = voluntary(s.of("1"))
			s.decide()
			s.want("stop 1")
			s.observe("1", cluster.Stopped)
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := batchScene(t, 1, func(spec *cluster.JobSpec) { spec.Restart.Condition, spec.Restart.Attempts = cluster.RestartNone, 1 })
			s.decide()
			s.observe("1", cluster.Running)
			s.decide()
			away(s, s.Node(s.of("1").Placement.Node))
			s.decide()
			s.want("new 1")
			if n := len(s.slot("1").Restarts); n > 0 || s.slot("1").Done {
				t.Errorf("%d attempts are spent, done %v", n, s.slot("1").Done)
			}
		})
	}
}

func TestWhatIsDoneElsewhereIsNotDoneTwice(t *testing.T) {
	s := batchScene(t, 1, nil)
	s.decide()
	s.observe("1", cluster.Running)
	first := s.of("1")
	n := s.Node(first.Placement.Node)
	n.Status = cluster.NodeStatus{State: cluster.NodeDown, Since: s.now}
	s.decide()
	s.observe("1", cluster.Running)
	n.Status = cluster.NodeStatus{State: cluster.NodeReady, Since: s.now}
	s.see(first.ID, cluster.Complete)
	s.decide()
	s.want("stop 1")
	s.wantDone("1")
	s.observe("1", cluster.Stopped)
	s.decide()
	s.want("")
}

func TestManySlotsInTurn(t *testing.T) {
	s := batchScene(t, 5000, parallelism(3))
	for range 10 {
		s.decide()
		if len(s.last.Changes) == 0 {
			break
		}
		if n := len(s.last.Changes); n > 2100 {
			t.Fatalf("%d changes in one decision", n)
		}
	}
	if got := len(s.Slots(jobName)); got != 5000 || len(s.tasks) != 3 {
		t.Errorf("%d slots and %d tasks, want 5000 and 3", got, len(s.tasks))
	}
	s.wantTurns("4997 slots wait for their turn: the job runs 3 at a time")
	if strings.Contains(fmt.Sprint(s.stalls(cluster.SubjectSlot, "j/4")), "turn") {
		t.Error("the slots say one by one what the job says of all")
	}
}
