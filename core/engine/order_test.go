package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// want is a job of that priority and count, whose tasks take a quarter of a node each.
func want(name string, priority, count int) Input {
	return run(name, func(s *cluster.JobSpec) {
		s.Priority, s.Count, s.Task.Resources = priority, count, cluster.Resources{MilliCPU: about.Capacity.MilliCPU / 4}
	})
}

func TestHigherPriorityIsPlacedFirst(t *testing.T) {
	for _, changes := range []int{0, 10} { // with 10 the tasks of one job fill a turn
		e := New(Config{Heartbeat: time.Hour, MaxChanges: changes}, NewState("test"), cluster.Time{})
		join(e, 1, "n1")
		step(e, 2, want("a-low", 10, 20), want("b-high", 90, 4))
		obey(t, e, time.Second)
		if low, high := perNode(e, "a-low"), perNode(e, "b-high"); low != "0" || high != "4" {
			t.Errorf("turns of %d: %s of low and %s of high priority run, want 0 and 4", changes, low, high)
		}
	}
}

func TestRoomThatBecomesFreeGoesToHigherPriority(t *testing.T) {
	e := New(Config{Heartbeat: time.Hour}, NewState("test"), cluster.Time{})
	join(e, 1, "n1")
	step(e, 2, want("old", 50, 4))
	at := obey(t, e, time.Second)
	step(e, at, want("a-low", 10, 4))
	at = obey(t, e, at)
	step(e, at, want("b-high", 90, 3))
	at = obey(t, e, at)
	step(e, at, command{op: ScaleJob{Job: "old", Count: 2}})
	at = obey(t, e, at)
	if low, high := perNode(e, "a-low"), perNode(e, "b-high"); low != "0" || high != "2" {
		t.Fatalf("%s of low and %s of high priority run, want 0 and 2", low, high)
	}
	step(e, at, command{op: RemoveJob{Job: "old"}})
	obey(t, e, at)
	if low, high := perNode(e, "a-low"), perNode(e, "b-high"); low != "1" || high != "3" {
		t.Errorf("%s of low and %s of high priority run, want 1 and 3", low, high)
	}
}

func TestNoJobIsLeftOverTwice(t *testing.T) {
	e := New(Config{Heartbeat: time.Hour, MaxChanges: 4}, NewState("test"), cluster.Time{})
	join(e, 1, "n1")
	for i := range 6 {
		step(e, time.Duration(2+i), want(fmt.Sprintf("j%d", i), 50, 1))
	}
	for name := range e.dirtyJobs {
		delete(e.dirtyJobs, name)
	}
	for _, name := range []string{"j0", "j1", "j2", "j3"} {
		e.dirtyJobs[name] = true
	}
	e.leaveOver([]string{"j2", "j3"})
	if got := e.jobsInOrder(); !slices.Equal(got, []string{"j2", "j3", "j0", "j1"}) {
		t.Errorf("the order is %v, want those that were left over first", got)
	}
}
