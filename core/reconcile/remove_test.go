package reconcile_test

import (
	"testing"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

func (s *scene) remove() { delete(s.jobs, jobName) }

// again makes a new job of the same name, which has nothing to do with the first.
func (s *scene) again(edit func(*cluster.JobSpec)) {
	old := s.jobs[jobName]
	if old == nil {
		old = &cluster.Job{Control: cluster.JobControl{Spec: newScene(s.t, 0, nil).job().Control.Spec}}
	}
	s.jobs[jobName] = &cluster.Job{Name: jobName, Created: s.now, CreatedRev: s.rev + 1}
	spec := old.Control.Spec
	s.version(func(to *cluster.JobSpec) {
		*to = spec
		edit(to)
	})
}

func TestRemoval(t *testing.T) {
	s := upScene(t, 3, 3, nil)
	s.observe("1", cluster.Failed)
	s.lose("2")
	s.remove()
	s.decide()
	s.want("drop 1, drop 2, drop slot 1, drop slot 2, drop slot 3, remove 3")
	if len(s.last.Stalls) != 0 {
		t.Errorf("stalls %+v", s.last.Stalls)
	}
	s.decide()
	s.want("")
	s.observe("3", cluster.Stopped)
	s.decide()
	s.want("drop 3")
}

func TestRemovalOfWhatWaitsAndOfWhatIsGone(t *testing.T) {
	s := newScene(t, 2, func(spec *cluster.JobSpec) { spec.Count = 2 })
	s.decide()
	s.observe("1", cluster.Running)
	s.edit(s.of("1").ID).Condition.State = cluster.Gone
	s.remove()
	s.decide()
	s.want("drop 1, drop 2, drop slot 1, drop slot 2")
}

func TestAJobOfTheSameNameWaitsSlotBySlot(t *testing.T) {
	for name, sameTurn := range map[string]bool{"in the same turn": true, "later": false} {
		t.Run(name, func(t *testing.T) {
			s := upScene(t, 3, 4, nil)
			s.remove()
			if !sameTurn {
				s.decide()
			}
			s.again(func(spec *cluster.JobSpec) { spec.Count, spec.Task.Env = 2, map[string]string{"of": "another"} })
			s.decide()
			for _, k := range []cluster.SlotKey{"1", "2", "3", "4"} {
				if x := s.of(k); x.Desired.State != cluster.DesiredRemove {
					t.Fatalf("%s is wanted at %s, want remove", x.ID, x.Desired.State)
				}
			}
			s.wantKeys("1", "2")
			s.wantStall("1", cluster.CodeWaitingForStop)
			s.wantStall("2", cluster.CodeWaitingForStop)
			s.observe("2", cluster.Stopped)
			s.observe("4", cluster.Stopped)
			s.decide()
			s.want("drop 2, drop 4, new 2")
			s.wantUpdate(cluster.UpdateNone)
			if x := s.of("2"); x.JobVersion != 1 || x.SpecVersion != 1 {
				t.Errorf("runs version %d", x.JobVersion)
			}
			s.lose("1") // where a rule waits for a stop, a loss that is replaced counts
			s.decide()
			s.want("drop 1, new 1")
			s.observe("3", cluster.Stopped)
			s.decide()
			s.want("drop 3")
		})
	}
}

func TestHistory(t *testing.T) {
	s := upScene(t, 1, 1, func(spec *cluster.JobSpec) { spec.HistoryLimit = 2 })
	for range 5 {
		s.observe("1", cluster.Failed)
		s.pass(20 * time.Second)
		s.run()
	}
	if n := len(s.tasks); n != 3 {
		t.Errorf("%d tasks, want the one that is up and 2 of the past", n)
	}
	if all := s.SlotTasks(jobName, "1"); all[2].Observed.State != cluster.Running {
		t.Error("the newest is not the one that is up")
	}
	s.version(func(spec *cluster.JobSpec) { spec.HistoryLimit = 1 })
	s.decide()
	s.want("drop 1")
}

func TestWithoutHistoryDelaysHoldAsWell(t *testing.T) {
	s := upScene(t, 1, 1, func(spec *cluster.JobSpec) { spec.HistoryLimit = 0 })
	s.observe("1", cluster.Failed)
	for range 2 {
		s.decide()
		s.want("")
		s.wantStall("1", cluster.CodeRestartDelay)
	}
	s.pass(time.Second)
	s.decide()
	s.want("drop 1, new 1")
}
