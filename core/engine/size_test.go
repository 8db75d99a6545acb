package engine

import (
	"fmt"
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
		if got := len(taken(e)); got != want {
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

// What tens of thousands of slots wait for is said, and said no longer, over several turns as well; and so do their records leave.
func TestTurnsAreBoundedWhenALargeJobWaits(t *testing.T) {
	const slots = 12_000
	const limit = 10_000
	e, now := New(Config{}, NewState("test"), cluster.Time{}), cluster.Time{}
	large := about
	large.Capacity = cluster.Resources{MilliCPU: 1e9, Memory: 1 << 50}
	for _, id := range []cluster.NodeID{"n1", "n2"} {
		largest(t, e, &now, JoinNode{ID: id, Name: string(id), Description: large})
		now = now.Add(time.Millisecond)
		e.Publish(e.Step([]Input{AgentUp{Node: id, Session: 1, Description: large}, AgentReports{Node: id, Session: 1, Full: true, Last: true}}, now).Turn)
	}
	spec := cluster.JobSpec{Name: "big", Task: cluster.TaskSpec{Command: []string{"x"}, Driver: "sim"}, Count: slots}.WithDefaults()
	spec.Restart.Attempts, spec.Restart.Window = 1, 0
	spec.Restart.Delay, spec.Restart.MaxDelay = 0, 0
	largest(t, e, &now, RunJob{Spec: spec})

	check := func(what string, n, stalls, tasks int) {
		t.Helper()
		said, left := 0, 0
		for range e.View().Stalls() {
			said++
		}
		for range e.View().TasksOf("big") {
			left++
		}
		if n > limit || said != stalls || left != tasks {
			t.Errorf("%s: at most %d records a turn, %d stalls and %d tasks; want at most %d, %d and %d", what, n, said, left, limit, stalls, tasks)
		}
	}
	observe := func(s cluster.ObservedState) int {
		t.Helper()
		var in []Input
		for task := range e.View().TasksOf("big") {
			if !task.Dead() {
				in = append(in, AgentReports{Node: task.Placement.Node, Session: 1, Tasks: []TaskReport{{Task: task.ID, State: s, Healthy: s == cluster.Running}}})
			}
		}
		most := 0
		for ; len(in) > 0; in = in[min(len(in), batchLimit):] {
			now = now.Add(time.Millisecond)
			out := e.Step(in[:min(len(in), batchLimit)], now)
			puts, deletes := e.Records(out.Turn)
			most = max(most, len(puts)+len(deletes))
			e.Publish(out.Turn)
		}
		return max(most, largest(t, e, &now))
	}
	check("all run", observe(cluster.Running), 0, slots)
	observe(cluster.Failed)
	check("all have failed twice", observe(cluster.Failed), slots, 2*slots)
	check("all are told to run again", largest(t, e, &now, RestartJob{Job: "big"}), 0, 3*slots)
	observe(cluster.Failed)
	check("all have failed four times", observe(cluster.Failed), slots, 4*slots)

	spec.HistoryLimit = 1
	check("history is cut", largest(t, e, &now, RunJob{Spec: spec}), slots, slots)
	check("the job is removed", largest(t, e, &now, RemoveJob{Job: "big"}), 0, 0)
}

// However many records name a node, it is removed over several turns.
func TestRemovingANodeIsBounded(t *testing.T) {
	e, now := New(Config{MaxChanges: 10}, NewState("test"), cluster.Time{}), cluster.Time{}
	join(e, 1, "n1")
	at := obey(t, e, 2)
	for i := range 30 {
		step(e, at, run(fmt.Sprintf("j%d", i), func(s *cluster.JobSpec) {
			s.Restart.Condition, s.Task.Resources.MilliCPU = cluster.RestartNone, 10
		}))
		at = obey(t, e, at)
	}
	for task := range e.View().Tasks() {
		at++
		step(e, at, AgentReports{Node: "n1", Session: 1, Tasks: []TaskReport{{Task: task.ID, State: cluster.Failed}}})
	}
	at = obey(t, e, at)
	step(e, at, command{op: Decommission{Node: "n1", Force: true}})
	now.Engine = at
	rounds := 0
	for more := true; more; rounds++ {
		now = now.Add(time.Millisecond)
		out := e.Step([]Input{command{op: RemoveNode{Node: "n1"}}}, now)
		puts, deletes := e.Records(out.Turn)
		e.Publish(out.Turn)
		r, ok := out.Replies[0].value.(NodeResult)
		if !ok || out.Replies[0].err != nil || len(puts)+len(deletes) > 40 {
			t.Fatalf("%d records, and %v", len(puts)+len(deletes), out.Replies[0].err)
		}
		more = r.More
	}
	left := 0
	for range e.View().Tasks() {
		left++
	}
	if left != 0 || e.View().Node("n1") != nil || rounds < 3 {
		t.Errorf("after %d turns %d tasks are left, and node %v", rounds, left, e.View().Node("n1"))
	}
}

// taken is what a turn takes of what waits.
func taken(e *Engine) []Input {
	batch, _ := e.drainQueue(nil, 0)
	return batch
}
