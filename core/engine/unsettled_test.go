package engine

import (
	"fmt"
	"maps"
	"testing"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// phasesByHand looks at every task.
func phasesByHand(s *State) map[cluster.Phase]int {
	out := map[cluster.Phase]int{}
	for t := range s.Tasks() {
		out[cluster.PhaseOf(t, s.Node(t.Placement.Node), len(s.TaskStalls(t)) > 0)]++
	}
	return out
}

func TestPhasesAreCounted(t *testing.T) {
	l := newLarge(t, 20, 10, func(s *cluster.JobSpec) { s.HistoryLimit = 3 })
	check := func(what string, unsettled int) {
		t.Helper()
		st := l.View()
		got := 0
		for range st.Unsettled() {
			got++
		}
		if want := phasesByHand(st); !maps.Equal(st.Phases(), want) || got != unsettled {
			t.Errorf("%s: phases %v, want %v; of %d tasks something is to come, want %d", what, st.Phases(), want, got, unsettled)
		}
		var records []any
		for n := range st.Nodes() {
			records = append(records, n)
		}
		for x := range st.Tasks() {
			records = append(records, x)
		}
		again := Assemble("test", st.Revision, st.Now, records...)
		if want := phasesByHand(again); !maps.Equal(again.Phases(), want) {
			t.Errorf("%s: loaded again, phases %v, want %v", what, again.Phases(), want)
		}
	}
	check("all run", 0)
	l.settle(l.saysOf(l.running(true).ID, cluster.Failed))
	check("one failed", 1)
	for x := range l.View().Unsettled() {
		l.settle(l.saysOf(x.ID, cluster.Running))
	}
	check("it runs again", 0)
	l.settle(command{op: RestartJob{Job: "big"}})
	check("one is told to stop", 1)
	l.settle(command{op: StopJob{Job: "big"}})
	check("all are told to stop", 20)
	l.stops()
	check("one has stopped", 19)
	l.settle(command{op: RemoveJob{Job: "big"}})
	check("the job is removed", 19)
}

// A node that is down, or of which there is no record, has its tasks counted otherwise without any of them being written.
func TestPhasesOnNodesThatAreDown(t *testing.T) {
	var records []any
	for i, state := range []cluster.NodeState{cluster.NodeReady, cluster.NodeDown} {
		records = append(records, &cluster.Node{ID: cluster.NodeID(fmt.Sprintf("n%d", i)), Status: cluster.NodeStatus{State: state}})
	}
	for i := range 30 {
		records = append(records, &cluster.Task{
			ID: cluster.NewTaskID("web", cluster.SlotKey(fmt.Sprint(i)), 1), Job: "web", Slot: cluster.SlotKey(fmt.Sprint(i)),
			Desired:   cluster.Desired{State: cluster.DesiredRunning},
			Placement: cluster.Placement{Node: cluster.NodeID(fmt.Sprintf("n%d", i%3))}, // n2 has no record
			Observed:  cluster.Observed{State: cluster.Running, Healthy: i%2 == 0},
		})
	}
	st := Assemble("test", 1, cluster.Time{}, records...)
	want := map[cluster.Phase]int{cluster.PhaseRunning: 5, cluster.PhaseUnhealthy: 5, cluster.PhaseLost: 10, cluster.PhaseGone: 10}
	if got := st.Phases(); !maps.Equal(got, want) || !maps.Equal(phasesByHand(st), want) {
		t.Errorf("phases %v, by hand %v, want %v", got, phasesByHand(st), want)
	}
}
