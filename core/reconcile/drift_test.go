package reconcile_test

import (
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/reconcile"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// refuse has a filter refuse a node, or no longer.
func (s *scene) refuse(node cluster.NodeID, refused bool) {
	s.verdicts[node] = reconcile.Verdict{Refused: refused, Evicts: refused, By: "constraint", Detail: "node.labels.ssd == 1"}
}

// A slot of which a task was placed a moment ago keeps still, and says so; then its task moves.
func TestDriftLetsAPlacementBe(t *testing.T) {
	s := upScene(t, 2, 1, nil)
	node := s.of("1").Placement.Node
	s.edit(s.of("1").ID).Placement.Since = s.now
	s.pass(2 * time.Second)
	s.refuse(node, true)
	s.decide()
	s.want("")
	s.wantStall("1", cluster.CodePlacedRecently)
	text := "task j/1/101 is to move (node " + string(node) + " no longer meets node.labels.ssd == 1), and keeps still for 5s after a placement"
	if got := s.message("1", cluster.CodePlacedRecently); got != text {
		t.Errorf("says %q, want %q", got, text)
	}
	if s.last.Wake != 3*time.Second {
		t.Errorf("looks again after %s, want 3 s", s.last.Wake)
	}
	s.pass(s.last.Wake)
	s.decide()
	s.want("stop 1")
	s.wantStall("1", cluster.CodeWaitingForStop)
}

// Once the replacement that starts first is up, the task that it replaces goes, however young the replacement is.
func TestAReplacedTaskGoesAtOnce(t *testing.T) {
	s := upScene(t, 2, 1, func(spec *cluster.JobSpec) { spec.Update.Order = cluster.StartFirst })
	s.refuse(s.of("1").Placement.Node, true)
	s.decide()
	s.want("new 1")
	s.wantStall("1", cluster.CodeWaitingForReplacement)
	s.observe("1", cluster.Running)
	s.decide()
	s.want("stop 1")
	s.wantStall("1")
}

// What a drain or an operator wants does not wait for that.
func TestOnlyDriftLetsAPlacementBe(t *testing.T) {
	s := upScene(t, 2, 1, nil)
	s.edit(s.of("1").ID).Placement.Since = s.now
	s.refuse(s.of("1").Placement.Node, true)
	s.drainAll()
	s.decide()
	s.want("stop 1")
	s.wantStall("1", cluster.CodeWaitingForStop) // and not that it keeps still
}

// gaps plays twenty seconds in which a node is refused and allowed again twice a second, and returns the shortest times between two placements and between two
// orders to stop in one slot. A task is up so long after its placement, and stops at once.
func (s *scene) gaps(node cluster.NodeID, starts time.Duration) (placed, stopped time.Duration) {
	s.t.Helper()
	s.pass(time.Minute)
	placed, stopped = time.Hour, time.Hour
	lastPlaced, lastStopped := map[cluster.SlotKey]cluster.Time{}, map[cluster.SlotKey]cluster.Time{}
	note := func(last map[cluster.SlotKey]cluster.Time, least *time.Duration, slot cluster.SlotKey) {
		if before, is := last[slot]; is {
			*least = min(*least, s.now.Sub(before))
		}
		last[slot] = s.now
	}
	for i := range 200 {
		s.refuse(node, i/5%2 == 0)
		s.decide()
		for _, c := range s.last.Changes {
			if c, is := c.(cluster.SetDesired); is && s.tasks[c.Task] != nil && s.tasks[c.Task].Placed() {
				note(lastStopped, &stopped, s.tasks[c.Task].Slot)
			}
		}
		for id, t := range s.tasks {
			switch {
			case !t.Placed() && !t.Dead() && s.room(t) != "":
				s.see(id, cluster.Starting)
				note(lastPlaced, &placed, t.Slot)
			case t.Placed() && !t.Dead() && !t.Desired.State.Wanted():
				s.see(id, cluster.Stopped)
			case t.Observed.State == cluster.Starting && s.now.Sub(t.Placement.Since) >= starts:
				s.see(id, cluster.Running)
			}
		}
		s.pass(100 * time.Millisecond)
	}
	return placed, stopped
}

func TestALabelThatComesAndGoesWearsNothingOut(t *testing.T) {
	for _, tt := range []struct {
		name   string
		nodes  int
		order  cluster.Order
		starts time.Duration
	}{
		{"nowhere else to go", 1, cluster.StopFirst, 200 * time.Millisecond},
		{"elsewhere to go", 2, cluster.StopFirst, 200 * time.Millisecond},
		{"a slow start", 1, cluster.StopFirst, 2 * time.Second},
		{"start first", 2, cluster.StartFirst, 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := upScene(t, tt.nodes, 2, func(spec *cluster.JobSpec) { spec.Update.Order = tt.order })
			placed, stopped := s.gaps("n1", tt.starts)
			if placed < 5*time.Second || stopped < 5*time.Second {
				t.Errorf("two placements in one slot within %s, two stops within %s", placed, stopped)
			}
			s.refuse("n1", false)
			s.pass(5 * time.Second)
			s.run()
			if up := len(s.stalls(cluster.SubjectSlot, "j/1")) + len(s.stalls(cluster.SubjectSlot, "j/2")); up != 0 {
				t.Errorf("stalls are left: %+v", s.last.Stalls)
			}
		})
	}
}

// A slot whose task is to move and can only say what it waits for is not taken for one that the update alone wishes to move.
func TestADriftThatWaitsForAStopIsNotForgotten(t *testing.T) {
	s := upScene(t, 3, 1, func(spec *cluster.JobSpec) { spec.Update.Order, spec.Update.Parallelism = cluster.StartFirst, 0 })
	before := s.of("1").Placement.Node
	s.version(env("b"))
	s.decide()
	s.observe("1", cluster.Starting)
	s.pass(stillFor)
	s.refuse(before, true)
	s.refuse(s.of("1").Placement.Node, true)
	s.space = map[cluster.SlotKey]string{"1": noRoom}
	for range 4 { // decide holds that what rests makes no difference
		s.decide()
		s.wantStall("1", cluster.CodeWaitingForStop)
	}
}

// stillFor is how long a slot keeps still after a placement.
const stillFor = 5 * time.Second
