package reconcile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/reconcile"
	"github.com/setpointd/setpoint/sdk/cluster"
)

func (s *scene) update() cluster.Update { return s.job().Update }

func (s *scene) wantUpdate(state cluster.UpdateState) {
	s.t.Helper()
	if got := s.update(); got.State != state {
		s.t.Fatalf("update %+v, want state %q", got, state)
	}
}

// stopAndStart has the agents do what they are told once, and decides.
func (s *scene) stopAndStart() {
	s.t.Helper()
	s.act()
	s.decide()
}

func updates(edit func(*cluster.UpdateSpec)) func(*cluster.JobSpec) {
	return func(spec *cluster.JobSpec) {
		spec.MaxUnavailable = cluster.Amount{Count: 100}
		edit(&spec.Update)
	}
}

func TestStopFirst(t *testing.T) {
	s := upScene(t, 3, 3, updates(func(u *cluster.UpdateSpec) { u.Parallelism, u.Delay = 2, 5*time.Second }))
	s.version(env("2"))
	s.decide()
	s.want("stop 1, stop 2")
	s.decide()
	s.want("")
	s.wantStall("1", cluster.CodeWaitingForStop)
	s.observe("1", cluster.Stopped) // the new task is made once the old one is seen to have stopped
	s.decide()
	s.want("new 1")
	s.observe("1", cluster.Running)
	s.observe("2", cluster.Stopped)
	s.decide()
	s.want("new 2") // slot 1 is watched for the monitor time, and holds its place for the delay after it
	if s.last.Wake != 15*time.Second {
		t.Errorf("wakes in %s, want monitor and delay, 15s", s.last.Wake)
	}
	s.pass(15*time.Second - 1)
	s.decide()
	s.want("")
	s.pass(1)
	s.decide()
	s.want("stop 3") // slot 2 still has its place
	s.run()
	s.wantUpdate(cluster.Updating)
	s.pass(15 * time.Second)
	s.run()
	s.wantUpdate(cluster.UpdateCompleted)
	if u := s.update(); u.From != 1 || u.To != 2 || u.Total != 3 || u.Moved != 3 || u.Failures != 0 || u.Message != "completed" {
		t.Errorf("update %+v", u)
	}
	if got := s.of("3").SpecVersion; got != 2 {
		t.Errorf("slot 3 runs version %d", got)
	}
}

func TestUpdateWithinTheBudget(t *testing.T) {
	s := upScene(t, 3, 4, func(spec *cluster.JobSpec) { spec.Update.Parallelism, spec.Update.Monitor = 0, 0 })
	s.version(env("2"))
	s.decide()
	s.want("stop 1")
	s.wantStall("2", cluster.CodeWaitingForBudget)
}

func TestSlotsThatAreNotUpGoFirstAndTakeNoPlace(t *testing.T) {
	s := upScene(t, 3, 4, nil)
	s.observe("3", cluster.Failed)
	s.edit(s.of("4").ID).Observed.Healthy = false
	s.version(env("2"))
	s.decide()
	// Slot 4 comes up with version 1 no more; slot 3 gets version 2 at once. Neither was up before the update, so slot 1 may go as well.
	s.want("new 3, stop 1, stop 4")
	if u := s.update(); u.Moved != 3 || u.Total != 4 {
		t.Errorf("update %+v", u)
	}
}

func TestOnceUpASlotCountsForTheUpdate(t *testing.T) {
	s := upScene(t, 3, 3, func(spec *cluster.JobSpec) { spec.Update.OnFailure = cluster.FailureContinue })
	s.observe("3", cluster.Failed)
	s.version(env("2"))
	s.decide()
	s.want("new 3, stop 1")
	s.observe("1", cluster.Stopped)
	s.decide()
	s.observe("1", cluster.Running)
	s.observe("3", cluster.Running)
	s.decide()
	s.observe("3", cluster.Failed)
	s.pass(20 * time.Second)
	s.decide() // slot 3 has been up, so it uses the budget of 1 up, and slot 2 has to wait
	s.want("new 3")
	s.wantStall("2", cluster.CodeWaitingForBudget)
}

func TestASlotLostDuringTheUpdateCounts(t *testing.T) {
	s := upScene(t, 3, 3, nil) // each on its node
	s.version(env("2"))
	s.decide()
	s.want("stop 1")
	s.stopAndStart()
	s.stopAndStart()
	s.pass(time.Minute)
	s.lose("3")
	s.decide()
	s.want("new 3")
	s.wantStall("2", cluster.CodeWaitingForBudget)
}

func TestFailuresPauseTheUpdate(t *testing.T) {
	s := upScene(t, 3, 4, updates(func(u *cluster.UpdateSpec) { u.MaxFailureRatio = 0.25 }))
	s.version(env("2"))
	s.decide()
	s.stopAndStart()
	s.want("new 1")
	for range 3 { // a slot counts once
		s.observe("1", cluster.Failed)
		s.decide()
		s.pass(8 * time.Second)
		s.decide()
	}
	if u := s.update(); u.Failures != 1 || u.State != cluster.Updating {
		t.Fatalf("update %+v, want 1 failure of 4 slots within a ratio of 0.25", u)
	}
	s.observe("1", cluster.Running)
	s.decide()
	s.pass(10 * time.Second)
	s.decide()
	s.want("stop 2")
	s.stopAndStart()
	s.observe("2", cluster.Rejected)
	s.decide()
	s.wantUpdate(cluster.UpdatePaused)
	if got := s.stalls(cluster.SubjectUpdate, jobName); !slices.Equal(got, []cluster.Code{cluster.CodeUpdatePaused}) {
		t.Errorf("the update's stalls are %v", got)
	}
	if u := s.update(); u.Failures != 2 || !strings.HasPrefix(u.Message, "2 of 4 slots failed: task j/2/") {
		t.Errorf("update %+v", u)
	}
}

func TestAFailureAfterTheMonitorTimeIsNone(t *testing.T) {
	s := upScene(t, 3, 1, updates(func(u *cluster.UpdateSpec) { u.Delay = time.Minute }))
	s.version(env("2"))
	s.decide()
	s.stopAndStart()
	s.stopAndStart()
	s.pass(10 * time.Second)
	s.observe("1", cluster.Failed)
	for range 2 {
		s.decide()
		if u := s.update(); u.Failures != 0 {
			t.Errorf("update %+v", u)
		}
		s.pass(time.Millisecond)
	}
}

func TestContinueGoesOn(t *testing.T) {
	s := upScene(t, 3, 2, updates(func(u *cluster.UpdateSpec) { u.OnFailure, u.Parallelism = cluster.FailureContinue, 2 }))
	s.version(env("2"))
	s.decide()
	s.stopAndStart()
	s.observe("1", cluster.Failed)
	s.decide()
	s.wantUpdate(cluster.Updating)
	s.pass(time.Second)
	s.run()
	s.pass(10 * time.Second)
	s.run()
	s.wantUpdate(cluster.UpdateCompleted)
}

func TestStartFirst(t *testing.T) {
	s := upScene(t, 3, 2, updates(func(u *cluster.UpdateSpec) { u.Order = cluster.StartFirst }))
	s.version(env("2"))
	s.decide()
	s.want("new 1")
	s.decide()
	s.want("")
	s.wantStall("1", cluster.CodeWaitingForReplacement)
	s.wantStall("2") // its turn comes
	s.observe("1", cluster.Running)
	s.decide()
	s.want("stop 1")
	s.wantStall("1")
	s.observe("2", cluster.Running)
	s.pass(10 * time.Second)
	s.decide()
	s.want("new 2")
}

func TestStartFirstFailuresCount(t *testing.T) {
	s := upScene(t, 3, 2, updates(func(u *cluster.UpdateSpec) { u.Order = cluster.StartFirst }))
	s.version(env("2"))
	s.decide()
	s.observe("1", cluster.Failed)
	s.decide()
	s.wantUpdate(cluster.UpdatePaused)
	s.pass(time.Hour)
	s.decide()
	s.want("") // a paused update moves nothing
	if old := s.SlotTasks(jobName, "1")[0]; !old.Desired.State.Wanted() {
		t.Error("the old task does not stay")
	}
}

func TestStartFirstTriesAgainWithADelay(t *testing.T) {
	s := upScene(t, 3, 1, updates(func(u *cluster.UpdateSpec) { u.Order, u.OnFailure = cluster.StartFirst, cluster.FailureContinue }))
	s.version(env("2"))
	s.decide()
	for _, delay := range []time.Duration{1, 2, 4} {
		s.observe("1", cluster.Failed)
		s.restartsBeside("1", delay*time.Second)
	}
	s.observe("1", cluster.Running)
	s.decide()
	s.want("stop 1")
}

func TestNewerVersionWhileUpdating(t *testing.T) {
	t.Run("stop-first", func(t *testing.T) {
		s := upScene(t, 3, 2, updates(func(*cluster.UpdateSpec) {}))
		s.version(env("2"))
		s.decide()
		s.stopAndStart()
		s.want("new 1")
		s.observe("1", cluster.Starting)
		s.version(env("3"))
		s.decide() // it is not up, so it takes the newest at once; and keeps its place
		s.want("stop 1")
		if u := s.update(); u.From != 1 || u.To != 3 || u.State != cluster.Updating {
			t.Errorf("update %+v", u)
		}
		s.observe("1", cluster.Stopped)
		s.decide()
		s.want("new 1")
		if got := s.of("1").JobVersion; got != 3 {
			t.Errorf("runs version %d, want 3", got)
		}
	})
	t.Run("start-first", func(t *testing.T) {
		s := upScene(t, 3, 2, updates(func(u *cluster.UpdateSpec) { u.Order = cluster.StartFirst }))
		s.version(env("2"))
		s.decide()
		s.want("new 1")
		s.observe("1", cluster.Starting)
		s.version(env("3"))
		s.decide() // the superseded replacement goes; the old task stays
		s.want("stop 1")
		if old := s.SlotTasks(jobName, "1")[0]; !old.Desired.State.Wanted() {
			t.Fatal("the old task was told to stop")
		}
		s.observe("1", cluster.Stopped)
		s.decide()
		s.want("new 1")
		if got := s.of("1").JobVersion; got != 3 {
			t.Errorf("the replacement runs version %d, want 3", got)
		}
	})
	t.Run("start-first, not placed", func(t *testing.T) {
		s := upScene(t, 3, 1, updates(func(u *cluster.UpdateSpec) { u.Order = cluster.StartFirst }))
		s.version(env("2"))
		s.decide()
		s.version(env("3"))
		s.decide()
		s.want("cancel 1, new 1")
	})
}

func TestRollbackWhileStartingFirst(t *testing.T) {
	s := upScene(t, 3, 1, updates(func(u *cluster.UpdateSpec) { u.Order = cluster.StartFirst }))
	a := s.of("1")
	s.version(env("2"))
	s.decide()
	s.observe("1", cluster.Starting)
	s.version(func(spec *cluster.JobSpec) { spec.Task.Env = nil }) // back to the content of version 1
	s.decide()
	s.want("stop 1")
	if !s.tasks[a.ID].Desired.State.Wanted() {
		t.Fatal("the task that has the wanted content was touched")
	}
	s.run()
	s.pass(time.Minute)
	s.run()
	s.wantUpdate(cluster.UpdateCompleted)
	if got := s.slot("1"); got.SpecVersion != 1 || got.MovedBy != "" || !s.tasks[a.ID].Desired.State.Wanted() {
		t.Errorf("slot %+v", got)
	}
}

func TestWantedContentIsNotTouched(t *testing.T) {
	s := upScene(t, 3, 3, updates(func(*cluster.UpdateSpec) {}))
	s.version(func(spec *cluster.JobSpec) { spec.Labels = map[string]string{"a": "b"} })
	s.decide()
	s.want("")
	s.wantUpdate(cluster.UpdateNone)
	s.version(env("2"))
	s.decide()
	s.want("stop 1")
	s.run()
	s.version(env("3"))
	s.version(func(spec *cluster.JobSpec) { spec.Task.Env = map[string]string{"V": "2"} })
	s.run()
	s.pass(time.Minute)
	s.run()
	if got := len(s.SlotTasks(jobName, "1")); got != 2 {
		t.Errorf("slot 1 had %d tasks, want 2: version 2 came back before it moved on", got)
	}
}

func TestAutomaticRollback(t *testing.T) {
	s := upScene(t, 3, 3, updates(func(u *cluster.UpdateSpec) { u.OnFailure = cluster.FailureRollback }))
	s.version(env("2"))
	s.decide()
	s.stopAndStart()
	s.observe("1", cluster.Failed)
	r := s.decide()
	if r.Rollback != 1 || !strings.HasPrefix(r.Why, "1 of 3 slots failed: task j/1/") {
		t.Fatalf("rolls back to %d because %q, want 1", r.Rollback, r.Why)
	}
	s.version(func(spec *cluster.JobSpec) { spec.Task.Env = nil })
	s.control(func(c *cluster.JobControl) { c.Versions[len(c.Versions)-1].Reason = cluster.AutoRollback + "failed" })
	s.decide()
	s.want("new 1")
	if u := s.update(); !u.Rollback || u.State != cluster.Updating || u.To != 3 {
		t.Fatalf("update %+v", u)
	}
	s.observe("1", cluster.Failed) // never a rollback of a rollback
	if r := s.decide(); r.Rollback != 0 {
		t.Errorf("rolls back again, to %d", r.Rollback)
	}
	s.wantUpdate(cluster.UpdatePaused)
	s.pass(time.Second)
	s.control(func(c *cluster.JobControl) { c.Resumes++ })
	s.run()
	s.pass(time.Minute)
	s.run()
	s.wantUpdate(cluster.UpdateRolledBack)
	for _, k := range []cluster.SlotKey{"2", "3"} {
		if n := len(s.SlotTasks(jobName, k)); n != 1 {
			t.Errorf("slot %s had %d tasks, want the one that was never moved", k, n)
		}
	}
}

// What was changed outside of task {} since the last update was in force as well, and is not undone by an update that fails.
func TestAutomaticRollbackKeepsWhatWasChangedBefore(t *testing.T) {
	for name, updated := range map[string]bool{"after an update": true, "before any": false} {
		t.Run(name, func(t *testing.T) {
			s := upScene(t, 3, 2, updates(func(u *cluster.UpdateSpec) { u.OnFailure, u.Monitor = cluster.FailureRollback, 0 }))
			if updated {
				s.version(env("2"))
				for range 4 {
					s.run()
				}
				s.wantUpdate(cluster.UpdateCompleted)
			}
			s.version(func(spec *cluster.JobSpec) { spec.Count = 3 })
			s.run()
			inForce := s.job().Control.Version
			s.version(env("3"))
			s.decide()
			s.stopAndStart()
			if got := s.update().From; got != inForce {
				t.Errorf("the update comes from version %d, and version %d was in force", got, inForce)
			}
			s.observe("1", cluster.Failed)
			if r := s.decide(); r.Rollback != inForce {
				t.Errorf("rolls back to %d, want %d", r.Rollback, inForce)
			}
		})
	}
}

func TestRollbackOfAPausedUpdateThatMovedNothing(t *testing.T) {
	s := upScene(t, 3, 2, updates(func(u *cluster.UpdateSpec) { u.Order = cluster.StartFirst }))
	s.version(env("2"))
	s.decide()
	s.observe("1", cluster.Failed)
	s.decide()
	s.wantUpdate(cluster.UpdatePaused)
	s.version(func(spec *cluster.JobSpec) { spec.Task.Env = nil })
	s.run()
	if got := s.stalls(cluster.SubjectUpdate, jobName); len(got) != 0 {
		t.Errorf("the update still stalls: %v", got)
	}
	s.pass(time.Minute)
	s.run()
	s.wantUpdate(cluster.UpdateCompleted)
}

func TestProgressDeadline(t *testing.T) {
	s := upScene(t, 3, 2, updates(func(u *cluster.UpdateSpec) { u.ProgressDeadline = 30 * time.Second }))
	s.version(env("2"))
	s.decide()
	s.stopAndStart()
	s.want("new 1") // and nowhere to run
	if s.last.Wake != 30*time.Second {
		t.Errorf("wakes in %s, want 30s", s.last.Wake)
	}
	s.pass(30*time.Second - 1)
	s.decide()
	s.wantUpdate(cluster.Updating)
	s.pass(1)
	s.decide()
	s.wantUpdate(cluster.UpdatePaused)
	if got, want := s.update().Message, "no slot came up for 30s: task "+string(s.of("1").ID)+" has no node yet"; got != want {
		t.Errorf("says %q, want %q", got, want)
	}
}

// What an update waited for is said for as long as it is paused, since nothing is asked of its slots any more.
func TestAPausedUpdateSaysWhatItWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*scene)
		want    string
	}{
		"no room for the replacement of a task": {
			func(s *scene) { s.space = map[cluster.SlotKey]string{"1": noRoom} }, "task j/1/101 stays, for its replacement would not fit in its place: no room",
		},
		"no room for the next task": {
			func(s *scene) {
				s.decide()
				s.stopAndStart()
				s.space = map[cluster.SlotKey]string{"1": noRoom}
			}, "task j/1/106 has no node: no room",
		},
		"it does not start": {
			func(s *scene) {
				s.decide()
				s.stopAndStart()
				s.observe("1", cluster.Starting)
			}, "task j/1/106 is starting on node n1",
		},
		"it does not become healthy": {
			func(s *scene) {
				s.decide()
				s.stopAndStart()
				s.observe("1", cluster.Running)
				s.edit(s.of("1").ID).Observed.Healthy = false
			}, "task j/1/106 runs on node n1 and is not healthy",
		},
		"the old task does not stop": {
			func(s *scene) { s.decide() }, "task j/1/101 has not stopped yet on node n1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := upScene(t, 3, 1, updates(func(u *cluster.UpdateSpec) { u.ProgressDeadline = 30 * time.Second }))
			s.version(env("2"))
			c.prepare(s)
			s.decide()
			s.pass(30 * time.Second)
			s.decide()
			s.wantUpdate(cluster.UpdatePaused)
			if got, want := s.update().Message, "no slot came up for 30s: "+c.want; got != want {
				t.Errorf("says %q, want %q", got, want)
			}
		})
	}
}

// An update that goes on without a slot counts it as not updated, until it follows.
func TestWhatAnUpdateLeftBehindFollows(t *testing.T) {
	s := upScene(t, 3, 2, updates(func(u *cluster.UpdateSpec) {
		u.ProgressDeadline, u.OnFailure, u.Monitor = 30*time.Second, cluster.FailureContinue, 0
	}))
	s.space = map[cluster.SlotKey]string{"2": noRoom}
	s.version(env("2"))
	s.decide()
	s.run()
	s.pass(30 * time.Second)
	s.run()
	s.wantUpdate(cluster.UpdateCompleted)
	if u := s.update(); u.Message != "completed, 1 not updated" || u.NotUpdated != 1 || u.Waiting != 1 {
		t.Errorf("update %+v", u)
	}
	s.wantStall("2", cluster.CodeInsufficientResources)
	s.space = nil
	s.run()
	s.decide()
	if u := s.update(); u.State != cluster.UpdateCompleted || u.Message != "completed" || u.NotUpdated != 0 || u.Waiting != 0 {
		t.Errorf("once there is room: update %+v", u)
	}
	if got := s.of("2").SpecVersion; got != 2 {
		t.Errorf("slot 2 runs version %d", got)
	}
}

func TestPauseResumeCancel(t *testing.T) {
	s := upScene(t, 3, 3, updates(func(u *cluster.UpdateSpec) { u.Monitor = 0 }))
	s.version(env("2"))
	s.decide()
	s.want("stop 1")
	s.control(func(c *cluster.JobControl) { c.UpdateHold = true })
	s.run()
	s.pass(time.Minute)
	s.run()
	s.wantUpdate(cluster.UpdatePaused)
	if a, b := s.of("1").SpecVersion, s.of("2").SpecVersion; a != 2 || b != 1 {
		t.Errorf("versions %d and %d: what was moved comes up, nothing more moves", a, b)
	}
	s.observe("2", cluster.Failed) // a restart under a paused update runs what the slot ran; a slot that never had a version gets the newest
	s.version(func(spec *cluster.JobSpec) { spec.Count = 4 })
	s.control(func(c *cluster.JobControl) { c.UpdateHold = true })
	s.pass(time.Minute)
	s.run()
	if a, b := s.of("2").SpecVersion, s.of("4").SpecVersion; a != 1 || b != 2 {
		t.Errorf("slot 2 restarts version %d, want 1; slot 4 starts version %d, want 2", a, b)
	}
	s.control(func(c *cluster.JobControl) { c.UpdateHold, c.Resumes = false, 1 })
	s.decide()
	s.want("stop 3") // older than the restarted one
	s.control(func(c *cluster.JobControl) { c.Cancelled = c.Version })
	s.run()
	s.pass(time.Minute)
	s.run()
	s.wantUpdate(cluster.UpdateCancelled)
	if a, b := s.of("3").SpecVersion, s.of("2").SpecVersion; a != 2 || b != 1 {
		t.Errorf("versions %d and %d: what was moved comes up, nothing more moves", a, b)
	}
	if got := s.stalls(cluster.SubjectUpdate, jobName); len(got) != 0 {
		t.Errorf("a cancelled update stalls: %v", got)
	}
	s.version(env("3"))
	s.decide()
	s.want("stop 1")
}

func TestACancelledUpdateIsResumed(t *testing.T) {
	s := upScene(t, 3, 3, updates(func(u *cluster.UpdateSpec) { u.Monitor = 0 }))
	s.version(env("2"))
	s.decide()
	s.want("stop 1")
	s.control(func(c *cluster.JobControl) { c.Cancelled, c.AskedBy = c.Version, "ann" })
	s.run()
	s.wantUpdate(cluster.UpdateCancelled)
	if got := s.update().Message; got != "cancelled by an operator (ann)" {
		t.Errorf("says %q", got)
	}
	s.run()
	if a, b := s.of("1").SpecVersion, s.of("2").SpecVersion; a != 2 || b != 1 {
		t.Fatalf("versions %d and %d", a, b)
	}
	s.control(func(c *cluster.JobControl) { c.Cancelled, c.Resumes = 0, c.Resumes+1 })
	for range 6 {
		s.run()
	}
	s.wantUpdate(cluster.UpdateCompleted)
	for _, k := range []cluster.SlotKey{"1", "2", "3"} {
		if got := s.of(k).SpecVersion; got != 2 {
			t.Errorf("slot %s runs version %d, want 2", k, got)
		}
	}
	if u := s.update(); u.Moved != 3 || u.Total != 3 {
		t.Errorf("update %+v", u)
	}
}

func TestAResumedUpdateCountsAnew(t *testing.T) {
	s := upScene(t, 3, 2, updates(func(*cluster.UpdateSpec) {}))
	s.version(env("2"))
	s.decide()
	s.stopAndStart()
	s.observe("1", cluster.Failed)
	s.decide()
	s.wantUpdate(cluster.UpdatePaused)
	s.pass(time.Second)
	s.decide()
	s.want("new 1")
	s.control(func(c *cluster.JobControl) { c.Resumes = 1 })
	s.decide()
	s.wantUpdate(cluster.Updating)
	s.observe("1", cluster.Failed)
	s.decide()
	s.wantUpdate(cluster.UpdatePaused)
}

func TestScalingWhileUpdating(t *testing.T) {
	s := upScene(t, 3, 3, updates(func(*cluster.UpdateSpec) {}))
	s.version(env("2"))
	s.decide()
	s.stopAndStart()
	s.stopAndStart() // slot 1 is up with version 2 and is watched
	s.version(func(spec *cluster.JobSpec) { spec.Count = 4 })
	for range 6 {
		s.run()
		s.pass(10 * time.Second)
	}
	s.run()
	s.wantUpdate(cluster.UpdateCompleted)
	for _, k := range []cluster.SlotKey{"1", "2", "3", "4"} {
		if got := s.of(k).SpecVersion; got != 2 {
			t.Errorf("slot %s runs version %d, want 2", k, got)
		}
	}
}

func TestCompletedWithWaitingAndHeld(t *testing.T) {
	s := newScene(t, 3, func(spec *cluster.JobSpec) {
		spec.Type, spec.MaxUnavailable, spec.Update.Monitor = "test", cluster.Amount{Count: 3}, 0
	})
	s.answered(3, 0)
	s.run()
	s.answered(3, 1)
	s.lose("2")
	for _, n := range []int{1, 2, 3} { // nothing can be placed any more
		if s.node(n).Status.State != cluster.NodeDown {
			s.node(n).Spec.Availability = cluster.Pause
		}
	}
	s.decide()
	s.version(env("2"))
	s.decide()
	s.want("cancel 2, new 2, stop 3")
	for _, n := range []int{1, 2, 3} {
		s.node(n).Spec.Availability = cluster.Active
	}
	s.observe("3", cluster.Stopped)
	s.decide()
	s.want("new 3")
	s.observe("3", cluster.Running)
	s.decide()
	s.pass(time.Second)
	s.decide()
	s.wantUpdate(cluster.UpdateCompleted)
	if u := s.update(); u.Message != "completed, 1 waiting, 1 held" || u.Waiting != 2 {
		t.Errorf("update %+v", u)
	}
	s.wantStall("1", "hold")
	s.answered(3, 0) // a slot that is freed later follows at the same pace
	s.decide()
	s.want("stop 1")
}

func TestAHeldSlotGivesItsPlaceUp(t *testing.T) {
	s := newScene(t, 3, func(spec *cluster.JobSpec) { spec.Type, spec.MaxUnavailable = "test", cluster.Amount{Count: 3} })
	s.answered(2, 0)
	s.run()
	s.version(env("2"))
	s.decide()
	s.want("stop 1")
	s.answered(2, 1)
	s.decide()
	s.want("stop 2")
}

func TestUnservedTypeTouchesNothing(t *testing.T) {
	s := answeredScene(t, 2)
	before := len(s.tasks)
	for _, a := range []reconcile.Answer{
		{Stall: &cluster.Stall{Source: "p", Code: cluster.CodePluginPending}},
		{Known: true, Stall: &cluster.Stall{Source: "p", Code: cluster.CodePluginError}},
		{Known: true, Fresh: true, Stall: &cluster.Stall{Source: "p", Code: "p.no"}},
		{Known: true, Fresh: false},
	} {
		s.answer = a
		s.decide()
		s.want("")
		if len(s.tasks) != before || (a.Stall != nil) != (len(s.stalls(cluster.SubjectJob, jobName)) == 1) {
			t.Errorf("answer %+v: %d tasks, stalls %+v", a, len(s.tasks), s.last.Stalls)
		}
	}
	s.answer = reconcile.Answer{Known: true, Fresh: true}
	s.decide()
	s.want("remove 1, remove 2")
}

// What an update leaves behind because of the node that it is limited to is called by what is the matter with that node.
func TestAnUpdateSaysWhyItLeftSlotsBehind(t *testing.T) {
	s := newScene(t, 4, func(spec *cluster.JobSpec) {
		spec.Type, spec.Update.Monitor, spec.Update.Parallelism = "test", time.Second, 4
	})
	s.answered(4, 0)
	for i := range s.answer.Slots {
		s.answer.Slots[i].Nodes = []cluster.NodeID{cluster.NodeID(fmt.Sprint("n", i+1))}
	}
	s.run()
	s.node(2).Spec.Availability = cluster.Pause
	s.node(3).Spec.Availability = cluster.Pause
	s.node(4).Status.State = cluster.NodeDown
	s.decide()
	s.version(env("2"))
	s.run()
	s.pass(time.Second)
	s.run()
	s.wantUpdate(cluster.UpdateCompleted)
	if u := s.update(); u.Message != "completed, 2 paused, 1 down" || u.Waiting != 3 {
		t.Errorf("update %+v", u)
	}
	s.node(2).Spec.Availability = cluster.Active
	s.run()
	s.pass(time.Second)
	s.run()
	if u := s.update(); u.Message != "completed, 1 paused, 1 down" || u.Waiting != 2 {
		t.Errorf("update once a node is active again %+v", u)
	}
}
