package engine_test

import (
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

func TestRebuildTellsWhatChanged(t *testing.T) {
	now, before := cluster.Time{Engine: time.Hour, Wall: 5}, cluster.Time{Engine: time.Minute, Wall: 1}
	seen := &cluster.Task{
		ID: "web/1/3", Job: "web", Slot: "1", Created: before, CreatedRev: 3, Desired: cluster.Desired{State: cluster.DesiredRunning, Since: before},
		Placement: cluster.Placement{Node: "n", Since: before}, Observed: cluster.Observed{State: cluster.Running, At: now},
	}
	made := &cluster.Task{ID: "web/2/9", Job: "web", Slot: "2", Created: now, CreatedRev: 9, Placement: cluster.Placement{Node: "n", Since: now}}
	stall := &cluster.Stall{Subject: cluster.Subject{Kind: cluster.SubjectJob, ID: "web"}, Source: "core", Code: "x", Since: before, Changed: now}
	turn := engine.Rebuild(9, now, []any{seen, made, stall}, []string{"task/web/1/1", "stall/job:db|core|y", "slot/web/3"})

	want := []cluster.Change{
		cluster.SetObserved{Task: seen.ID, Observed: seen.Observed},
		cluster.AddTask{Task: made},
		cluster.SetPlacement{Task: made.ID, Placement: made.Placement},
		cluster.PutStall{Stall: stall},
		cluster.RemoveTask{Task: "web/1/1"},
		cluster.RemoveStall{Key: "job:db|core|y"},
	}
	if turn.State.Revision != 9 || turn.State.Now != now || turn.Before != nil || len(turn.Changes) != len(want) {
		t.Fatalf("revision %d, %d changes: %+v", turn.State.Revision, len(turn.Changes), turn.Changes)
	}
	for i, w := range want {
		got := turn.Changes[i]
		if got.By != w.Owner() {
			t.Errorf("change %d is by %s, want %s", i, got.By, w.Owner())
		}
		switch w := w.(type) {
		case cluster.AddTask:
			if got.Change.(cluster.AddTask).Task != w.Task {
				t.Errorf("change %d is %+v", i, got.Change)
			}
		case cluster.SetObserved:
			if got.Change.(cluster.SetObserved) != w {
				t.Errorf("change %d is %+v", i, got.Change)
			}
		case cluster.RemoveTask:
			if got.Change.(cluster.RemoveTask) != w {
				t.Errorf("change %d is %+v", i, got.Change)
			}
		case cluster.RemoveStall:
			if got.Change.(cluster.RemoveStall) != w {
				t.Errorf("change %d is %+v", i, got.Change)
			}
		}
	}
}
