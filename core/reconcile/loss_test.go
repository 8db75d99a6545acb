package reconcile_test

import (
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/reconcile"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// lose takes the node of a slot's newest task down and returns it.
func (s *scene) lose(key cluster.SlotKey) *cluster.Node {
	n := s.Node(s.of(key).Placement.Node)
	n.Status = cluster.NodeStatus{State: cluster.NodeDown, Since: s.now}
	return n
}

func back(n *cluster.Node) { n.Status.State = cluster.NodeReady }

func TestLostIsReplacedAtOnceAndKeptUntilTheReplacementIsUp(t *testing.T) {
	s := upScene(t, 2, 1, nil)
	a := s.of("1").ID
	s.lose("1")
	s.decide()
	s.want("new 1")
	if got := s.of("1").Why; got != "its predecessor is lost with its node" {
		t.Errorf("made because %q", got)
	}
	s.observe("1", cluster.Starting)
	s.decide()
	s.want("")
	s.observe("1", cluster.Running)
	s.decide()
	s.want("stop 1")
	if s.tasks[a].Desired.State != cluster.DesiredShutdown {
		t.Error("the original is still wanted")
	}
	s.decide()
	s.want("")
	s.wantStall("1") // the slot is up; it waits for nothing
}

func TestLostBeforeItWasSeen(t *testing.T) {
	s := newScene(t, 2, nil)
	s.decide()
	s.see(s.of("1").ID, cluster.ObservedNone)
	s.lose("1")
	s.decide()
	s.want("new 1, stop 1") // it must not start beside its successor when its node is back
}

// What a failed replacement has to wait for does not end because the lost task is told to go.
func TestLostTaskThatIsToldToGoEndsNoDelay(t *testing.T) {
	s := upScene(t, 3, 1, nil)
	lost := s.of("1").ID
	s.lose("1")
	s.decide()
	s.pass(time.Second)
	s.observe("1", cluster.Failed)
	s.says[lost] = saying{Transition: cluster.Transition{Task: lost, To: cluster.DesiredShutdown, Strength: cluster.Forced, By: "d", Grace: -1}}
	for _, told := range []string{"stop 1", ""} { // deciding again changes nothing
		s.decide()
		s.want(told)
		s.wantStall("1", cluster.CodeRestartDelay)
	}
}

func TestOnLostWait(t *testing.T) {
	s := upScene(t, 2, 1, func(spec *cluster.JobSpec) { spec.OnLost = cluster.LostWait })
	a := s.of("1")
	n := s.lose("1")
	for range 3 {
		s.decide()
		s.want("")
		s.wantStall("1", cluster.CodeNodeDown)
		s.pass(time.Hour)
	}
	back(n)
	s.decide()
	s.want("")
	s.wantStall("1")
	s.lose("1")
	s.decide()
	s.edit(a.ID).Condition = cluster.Condition{State: cluster.Gone, Since: s.now}
	s.decide()
	s.want("new 1")
}

func TestOnLostWaitAfterAStop(t *testing.T) {
	s := upScene(t, 2, 1, func(spec *cluster.JobSpec) { spec.OnLost = cluster.LostWait })
	s.drainAll()
	s.decide()
	s.want("stop 1")
	s.lose("1")
	s.decide()
	s.want("") // it may still run
	s.wantStall("1", cluster.CodeNodeDown)
}

func TestStopCountsOnceLossAllowsReplacing(t *testing.T) {
	s := upScene(t, 2, 1, nil)
	s.drainAll()
	s.decide()
	s.want("stop 1")
	s.lose("1")
	s.decide()
	s.want("new 1")
}

func TestLostAfter(t *testing.T) {
	s := upScene(t, 2, 1, func(spec *cluster.JobSpec) { spec.LostAfter = time.Minute })
	s.lose("1")
	s.decide()
	s.want("")
	s.wantStall("1", cluster.CodeNodeDown)
	if s.last.Wake != time.Minute {
		t.Errorf("wakes in %s, want 1m", s.last.Wake)
	}
	s.pass(time.Minute)
	s.decide()
	s.want("new 1")
}

func TestNoVoluntaryMoveOfALostTask(t *testing.T) {
	s := upScene(t, 3, 2, nil)
	a := s.of("1")
	s.lose("1")
	s.drainAll("1")
	s.verdicts[a.Placement.Node] = reconcile.Verdict{Refused: true, Evicts: true}
	s.decide()
	s.want("new 1")
	if !s.tasks[a.ID].Desired.State.Wanted() {
		t.Error("it was moved")
	}
}

func TestTheReplacementIsLostToo(t *testing.T) {
	s := upScene(t, 3, 1, nil)
	n1 := s.lose("1")
	s.decide()
	s.observe("1", cluster.Running)
	s.decide()
	s.want("stop 1")
	s.lose("1")
	s.decide()
	s.want("new 1")
	back(n1) // the first one was told to stop, and its agent says so
	s.see(s.SlotTasks(jobName, "1")[0].ID, cluster.Stopped)
	s.decide()
	s.want("")
}

func TestALostTaskWaitsForTheTurnOfItsNode(t *testing.T) {
	s := upScene(t, 2, 1, nil)
	n := s.Node(s.of("1").Placement.Node)
	n.Status = cluster.NodeStatus{State: cluster.NodeDown, Since: s.now, Replace: s.now.Add(10 * time.Second)}
	s.decide()
	s.want("")
	s.wantStall("1", cluster.CodeNodeDown)
	text := "task " + string(s.of("1").ID) + " is lost with node " + string(n.ID) + ", and nodes that went down are replaced one after another"
	if got := s.message("1", cluster.CodeNodeDown); got != text || s.last.Wake != 10*time.Second {
		t.Errorf("says %q and wakes in %s, want %q and 10s", got, s.last.Wake, text)
	}
	s.pass(10 * time.Second)
	s.decide()
	s.want("new 1")
}
