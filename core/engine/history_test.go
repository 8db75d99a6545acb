package engine_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
	"github.com/setpointd/setpoint/sdk/wire"
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

// Who removed a job or a node is written with the turn, since no record is left that could tell.
func TestWhoRemovedWhatIsWritten(t *testing.T) {
	e := engine.New(engine.Config{Heartbeat: time.Hour}, engine.NewState("test"), cluster.Time{})
	step := func(second int, in ...engine.Input) (engine.Turn, []any, []any) {
		t.Helper()
		out := e.Step(in, cluster.Time{Engine: time.Duration(second) * time.Second, Wall: int64(second)})
		puts, deletes := e.Records(out.Turn)
		e.Publish(out.Turn)
		return out.Turn, puts, deletes
	}
	spec := func(name string) cluster.JobSpec {
		return cluster.JobSpec{Name: name, Task: cluster.TaskSpec{Driver: "sim", Command: []string{"x"}}}.WithDefaults()
	}
	step(1, engine.Command("ann", engine.RunJob{Spec: spec("a")}), engine.Command("ann", engine.RunJob{Spec: spec("b")}), engine.Command("ann", engine.RunJob{Spec: spec("c")}))
	turn, puts, deletes := step(2, engine.Command("cid", engine.RemoveJob{Job: "c"}), engine.Command("bob", engine.RemoveJob{Job: "a"}))

	keys := func(records []any) []string {
		var out []string
		for _, v := range records {
			key, err := wire.KeyOf(v)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, key)
		}
		return out
	}
	by := map[string]string{}
	for _, c := range engine.Rebuild(turn.State.Revision, turn.State.Now, puts, keys(deletes)).Changes {
		if gone, ok := c.Change.(cluster.RemoveJob); ok {
			by[gone.Job] = c.For
		}
	}
	if !maps.Equal(by, map[string]string{"a": "bob", "c": "cid"}) {
		t.Errorf("removed by %v", by)
	}

	// A later turn is not told by what an earlier one left, and a state that is loaded knows nothing of it.
	_, puts, _ = step(3, engine.Command("ann", engine.ScaleJob{Job: "b", Count: 2}))
	if slices.Contains(keys(puts), wire.RemovalsKey) {
		t.Error("nothing was removed, and that is written anew")
	}
	if err := engine.NewState("test").Restore(&cluster.Removals{Revision: 2, By: []string{"bob"}}); err != nil {
		t.Error(err)
	}
}
