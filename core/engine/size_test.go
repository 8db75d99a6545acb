package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// largest runs turns until nothing is left to do and returns the number of records in the largest.
func largest(t *testing.T, e *Engine, now *cluster.Time, ops ...Op) int {
	t.Helper()
	var in []Input
	for i, op := range ops {
		in = append(in, command{op: op, by: "test", ticket: uint64(i)})
	}
	most := 0
	for range 500 {
		*now = now.Add(time.Millisecond)
		out := e.Step(in, *now)
		in = nil
		for _, r := range out.Replies {
			if r.err != nil {
				t.Fatal(r.err)
			}
		}
		puts, deletes := e.Records(out.Turn)
		most = max(most, len(puts)+len(deletes))
		e.Publish(out.Turn)
		if len(out.Turn.Changes) == 0 && !out.More && (out.Wake == 0 || out.Wake > time.Second) {
			return most
		}
	}
	t.Fatal("it never settles")
	return 0
}

// A job may be as large as it likes: what is asked of it is done over several turns, none of which is larger than a store takes.
func TestTurnsOfALargeJobAreBounded(t *testing.T) {
	const slots = 15_000
	const limit = 10_000
	e, now := New(Config{}, NewState("test"), cluster.Time{}), cluster.Time{}
	spec := cluster.JobSpec{Name: "big", Task: cluster.TaskSpec{Command: []string{"x"}, Driver: "sim"}, Count: slots}.WithDefaults()
	other := spec
	other.Task.Env = map[string]string{"A": "b"}
	small := other
	small.Count = 10
	steps := []struct {
		name  string
		op    Op
		slots int
		tasks int
	}{
		{"run", RunJob{Spec: spec}, slots, slots},
		{"change", RunJob{Spec: other}, slots, slots},
		{"scale down", RunJob{Spec: small}, 10, 10},
		{"scale up", RunJob{Spec: other}, slots, slots},
		{"stop", StopJob{Job: "big"}, slots, 0},
		{"remove", RemoveJob{Job: "big"}, 0, 0},
	}
	for _, s := range steps {
		n := largest(t, e, &now, s.op)
		if n > limit {
			t.Errorf("%s: a turn changes %d records, at most %d are wanted", s.name, n, limit)
		}
		tasks := 0
		for task := range e.View().TasksOf("big") {
			tasks++
			if v := e.View().Job("big").VersionOf(task.JobVersion); s.name == "change" && v.Spec.Task.Env["A"] != "b" {
				t.Fatalf("%s: task %s has version %d still", s.name, task.ID, task.JobVersion)
			}
		}
		if got := len(e.View().Slots("big")); got != s.slots || tasks != s.tasks {
			t.Errorf("%s: %d slots and %d tasks are left, want %d and %d", s.name, got, tasks, s.slots, s.tasks)
		}
	}
}

// Tasks that no node can take, however many, neither keep others from being placed nor the engine from resting.
func TestWhatCannotBePlacedFillsNoTurn(t *testing.T) {
	e, now := New(Config{}, NewState("test"), cluster.Time{}), cluster.Time{}
	largest(t, e, &now, JoinNode{ID: "n1", Name: "n1", Description: about})
	now = now.Add(time.Millisecond)
	e.Publish(e.Step([]Input{
		AgentUp{Node: "n1", Session: 1, Description: about}, AgentReports{Node: "n1", Session: 1, Full: true, Last: true},
	}, now).Turn)
	greedy := cluster.JobSpec{Name: "greedy", Count: 9000, Priority: 90, Task: cluster.TaskSpec{Command: []string{"x"}, Driver: "sim"}}
	greedy.Task.Resources.MilliCPU = 1_000_000
	largest(t, e, &now, RunJob{Spec: greedy.WithDefaults()})
	small := cluster.JobSpec{Name: "small", Count: 1, Task: cluster.TaskSpec{Command: []string{"x"}, Driver: "sim"}}
	largest(t, e, &now, RunJob{Spec: small.WithDefaults()})
	for task := range e.View().TasksOf("small") {
		if task.Placement.Node != "n1" {
			t.Errorf("task %s is on %q, want n1", task.ID, task.Placement.Node)
		}
	}
	waiting := 0
	for task := range e.View().TasksOf("greedy") {
		waiting++
		if task.Placed() {
			t.Fatalf("task %s is placed where there is no room", task.ID)
		}
	}
	if waiting != 9000 {
		t.Errorf("%d tasks wait, want 9000", waiting)
	}
}

// However much waits while a commit takes its time, a turn takes no more than can be committed at once.
func TestBatchesAreWeighed(t *testing.T) {
	e := New(Config{}, NewState("test"), cluster.Time{})
	send := func(n int, in Input) {
		for range n {
			if err := e.Send(t.Context(), in); err != nil {
				t.Fatal(err)
			}
		}
	}
	take := func(want int) {
		t.Helper()
		if got := len(e.drainQueue(nil)); got != want {
			t.Errorf("a turn takes %d inputs, want %d", got, want)
		}
	}
	large := RunJob{Spec: cluster.JobSpec{Task: cluster.TaskSpec{Env: map[string]string{"A": strings.Repeat("x", 100<<10)}}}}
	send(100, command{op: large})
	take(41)
	take(41)
	take(18)
	send(10, AgentReports{Tasks: make([]TaskReport, 1000)})
	take(5)
	take(5)
	send(3000, AgentsHeard{})
	take(2048)
	take(952)
}
