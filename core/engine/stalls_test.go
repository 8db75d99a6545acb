package engine

import (
	"testing"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// wrote returns how many stalls a turn wrote or ended.
func wrote(out Output) (puts, removes int) {
	for _, c := range out.Turn.Changes {
		switch c.Change.(type) {
		case cluster.PutStall:
			puts++
		case cluster.RemoveStall:
			removes++
		}
	}
	return puts, removes
}

// groupStall returns the stall of a job whose only task waits.
func groupStall(t *testing.T, e *Engine, job string) cluster.Stall {
	t.Helper()
	stalls := e.View().TaskStalls(one(t, e, job))
	if len(stalls) != 1 || stalls[0].Source != cluster.SourcePlacement {
		t.Fatalf("stalls %+v", stalls)
	}
	return stalls[0]
}

func TestAStallKeepsItsBeginning(t *testing.T) {
	e := New(Config{Heartbeat: time.Hour}, NewState("test"), cluster.Time{})
	join(e, 1, "n1", "n2")
	step(e, 2, run("big", func(s *cluster.JobSpec) { s.Task.Resources.MilliCPU = 64000 }))
	first := groupStall(t, e, "big")
	if first.Code != cluster.CodeInsufficientResources || first.Facts.Nodes != 2 || first.Since.Engine != 2 || first.Changed.Engine != 2 {
		t.Fatalf("stall %+v", first)
	}

	// A label that nobody asks for changes nothing that would be said: nothing is written.
	if puts, removes := wrote(step(e, 3, command{op: LabelNode{Node: "n1", Set: map[string]string{"a": "b"}}})); puts+removes != 0 {
		t.Errorf("%d stalls were written and %d ended", puts, removes)
	}

	// A node more: the counts change, the waiting goes on.
	join(e, 4, "n3")
	if got := groupStall(t, e, "big"); got.Since != first.Since || got.Changed.Engine != 4 || got.Facts.Nodes != 3 {
		t.Errorf("after a node joined: %+v", got)
	}

	// All nodes paused: the code changes, the waiting goes on.
	for _, n := range []string{"n1", "n2", "n3"} {
		step(e, 5, command{op: SetAvailability{Nodes: []string{n}, Availability: cluster.Pause}})
	}
	if got := groupStall(t, e, "big"); got.Code != cluster.CodeNodePaused || got.Since != first.Since || got.Changed.Engine != 5 {
		t.Errorf("after all were paused: %+v", got)
	}

	// The task leaves: the stall ends with its subject.
	step(e, 6, command{op: RemoveJob{Job: "big"}})
	if _, _, _, stalls := e.View().Counts(); stalls != 0 {
		t.Errorf("%d stalls are left", stalls)
	}
}

func TestAStallEndsWithItsCause(t *testing.T) {
	e := New(Config{Heartbeat: time.Hour}, NewState("test"), cluster.Time{})
	join(e, 1, "n1")
	step(e, 2, command{op: SetAvailability{Nodes: []string{"n1"}, Availability: cluster.Pause}}, run("web", nil))
	if got := groupStall(t, e, "web"); got.Code != cluster.CodeNodePaused {
		t.Fatalf("stall %+v", got)
	}
	out := step(e, 3, command{op: SetAvailability{Nodes: []string{"n1"}, Availability: cluster.Active}})
	if puts, removes := wrote(out); puts != 0 || removes != 1 || placed(e, "web") != "n1" {
		t.Errorf("%d stalls were written and %d ended; placed on %q", puts, removes, placed(e, "web"))
	}
}

func TestCountsFollowWhatIsPlaced(t *testing.T) {
	e := New(Config{Heartbeat: time.Hour}, NewState("test"), cluster.Time{})
	join(e, 1, "n1")
	port := func(s *cluster.JobSpec) { s.Task.Ports = []cluster.Port{{Name: "http", Static: 80}} }
	step(e, 2, run("a", port))
	step(e, 3, run("b", port))
	if got := groupStall(t, e, "b"); got.Code != cluster.CodePortTaken {
		t.Fatalf("stall %+v", got)
	}
	step(e, 4, run("c", func(s *cluster.JobSpec) { s.Task.Resources.MilliCPU = 2500 })) // leaves too little for b as well
	got := groupStall(t, e, "b")
	if got.Code != cluster.CodeInsufficientResources || got.Since.Engine != 3 || got.Changed.Engine != 4 {
		t.Errorf("stall %+v", got)
	}
}
