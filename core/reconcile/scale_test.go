package reconcile_test

import (
	"slices"
	"testing"

	"github.com/setpointd/setpoint/sdk/cluster"
)

func scaleTo(n int) func(*cluster.JobSpec) { return func(spec *cluster.JobSpec) { spec.Count = n } }

func (s *scene) keys() []cluster.SlotKey {
	var out []cluster.SlotKey
	for _, v := range s.Slots(jobName) {
		if !v.Unwanted {
			out = append(out, v.Key)
		}
	}
	return out
}

func (s *scene) wantKeys(keys ...cluster.SlotKey) {
	s.t.Helper()
	if got := s.keys(); !slices.Equal(got, keys) {
		s.t.Fatalf("wanted slots %v, want %v", got, keys)
	}
}

func TestScalingUpFillsTheLowestNumbers(t *testing.T) {
	s := upScene(t, 3, 5, nil)
	s.wantKeys("1", "2", "3", "4", "5")
	s.observe("2", cluster.Starting) // not up, so it goes first
	s.tasks[s.of("2").ID].Observed.State = cluster.Running
	s.tasks[s.of("2").ID].Observed.Healthy = false
	s.version(scaleTo(3))
	s.run()
	s.wantKeys("1", "3", "4")
	if len(s.slots) != 3 || len(s.tasks) != 3 {
		t.Fatalf("%d slots and %d tasks are left, want 3", len(s.slots), len(s.tasks))
	}
	s.version(scaleTo(5))
	s.decide()
	s.want("new 2, new 5")
}

func TestScalingDownTakesTheHighestAndMarksOnce(t *testing.T) {
	s := upScene(t, 3, 5, nil)
	s.version(scaleTo(3))
	s.decide()
	s.want("remove 4, remove 5")
	s.observe("1", cluster.Failed) // what happens later does not change the choice
	s.decide()
	s.wantKeys("1", "2", "3")
	s.version(func(spec *cluster.JobSpec) { spec.Labels = map[string]string{"a": "b"} })
	s.decide()
	s.wantKeys("1", "2", "3")
}

func TestOnlyScalingUpTakesAMarkBack(t *testing.T) {
	s := upScene(t, 3, 5, nil)
	s.version(scaleTo(3))
	s.decide()
	s.version(scaleTo(4))
	s.decide()
	s.wantKeys("1", "2", "3", "4")
	s.want("")
	s.wantStall("4", cluster.CodeWaitingForStop)
	s.observe("4", cluster.Stopped)
	s.decide()
	s.want("drop 4, new 4")
	s.observe("5", cluster.Stopped)
	s.decide()
	s.want("drop 5, drop slot 5")
}

func TestAWaitingTaskLeavesNothingBehind(t *testing.T) {
	s := newScene(t, 1, scaleTo(3))
	s.decide()
	s.want("new 1, new 2, new 3")
	s.version(scaleTo(1))
	s.decide()
	s.want("cancel 2, cancel 3, drop slot 2, drop slot 3")
	s.decide()
	s.want("")
}

func TestStopAndStart(t *testing.T) {
	s := upScene(t, 3, 2, nil)
	s.control(func(c *cluster.JobControl) { c.Stopped, c.StopGrace = true, 0 })
	s.decide()
	s.want("stop 1, stop 2")
	if d := s.of("1").Desired; d.State != cluster.DesiredShutdown || d.Grace != 0 {
		t.Errorf("told %+v, want shutdown with grace 0", d)
	}
	s.run()
	if len(s.slots) != 2 {
		t.Errorf("%d slots, want the 2 of a job that is kept", len(s.slots))
	}
	s.control(func(c *cluster.JobControl) { c.Stopped = false })
	s.decide()
	s.want("new 1, new 2")
}
