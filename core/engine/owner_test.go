package engine

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

var about = cluster.NodeDescription{Drivers: []string{"sim"}, Capacity: cluster.Resources{MilliCPU: 4000, Memory: 8 << 30}}

// join lets machines join, connect and report that they run nothing.
func join(e *Engine, at time.Duration, ids ...cluster.NodeID) {
	for _, id := range ids {
		step(e, at, command{op: JoinNode{ID: id, Name: string(id), Description: about}})
		step(e, at, AgentUp{Node: id, Session: 1, Description: about}, AgentReports{Node: id, Session: 1, Full: true, Last: true})
	}
}

// run submits a job.
func run(name string, edit func(*cluster.JobSpec)) Input {
	spec := cluster.JobSpec{Name: name, Task: cluster.TaskSpec{Driver: "sim", Command: []string{"x"}, Resources: cluster.Resources{MilliCPU: 1000}}}.WithDefaults()
	if edit != nil {
		edit(&spec)
	}
	return command{op: RunJob{Spec: spec}}
}

// one returns a job's only task.
func one(t *testing.T, e *Engine, job string) *cluster.Task {
	t.Helper()
	var out *cluster.Task
	for x := range e.View().TasksOf(job) {
		if out != nil {
			t.Fatalf("%s has more than one task", job)
		}
		out = x
	}
	if out == nil {
		t.Fatalf("%s has no task", job)
	}
	return out
}

// panics returns what f panics with.
func panics(t *testing.T, f func()) (what any) {
	t.Helper()
	defer func() {
		if what = recover(); what == nil {
			t.Error("it was accepted")
		}
	}()
	f()
	return nil
}

func TestOneWriter(t *testing.T) {
	authors := []cluster.Author{
		cluster.AuthorOperator, cluster.AuthorAgent, cluster.AuthorMonitor, cluster.AuthorReconcile, cluster.AuthorPlace, cluster.AuthorEngine, cluster.AuthorNotifier,
	}
	changes := []cluster.Change{
		cluster.AddNode{},
		cluster.SetNodeSpec{},
		cluster.SetNodeDescription{},
		cluster.SetNodeStatus{},
		cluster.SetDrain{},
		cluster.RemoveNode{},
		cluster.PutJob{},
		cluster.RemoveJob{},
		cluster.SetUpdate{},
		cluster.PutSlot{},
		cluster.RemoveSlot{},
		cluster.AddTask{},
		cluster.SetDesired{},
		cluster.SetPlacement{},
		cluster.SetObserved{},
		cluster.SetCondition{},
		cluster.RemoveTask{},
		cluster.PutStall{},
		cluster.RemoveStall{},
		cluster.PutRequest{},
		cluster.RemoveRequest{},
		cluster.PutNotice{},
		cluster.RemoveNotice{},
	}
	e := New(Config{}, NewState("test"), cluster.Time{})
	for _, c := range changes {
		for _, by := range authors {
			if by == c.Owner() {
				continue
			}
			err, ok := panics(t, func() { e.apply(by, c) }).(error)
			if !ok || !errors.Is(err, cluster.ErrNotOwner) {
				t.Errorf("%T by %s: %v", c, by, err)
			}
		}
	}
	if len(e.changes) > 0 {
		t.Errorf("applied %+v", e.changes)
	}
}

func TestNothingGoesBackwards(t *testing.T) {
	e := New(Config{}, NewState("test"), cluster.Time{})
	join(e, 1, "n1")
	step(e, 2, run("web", nil))
	x := one(t, e, "web")
	report := func(st cluster.ObservedState) Input {
		return AgentReports{Node: "n1", Session: 1, Tasks: []TaskReport{{Task: x.ID, State: st, Healthy: true}}}
	}
	step(e, 3, report(cluster.Running))
	step(e, 4, command{op: StopJob{Job: "web", Grace: -1}})
	for _, c := range []struct {
		by   cluster.Author
		c    cluster.Change
		want string
	}{
		{cluster.AuthorReconcile, cluster.SetDesired{Task: x.ID, Desired: cluster.Desired{State: cluster.DesiredRunning}}, "cannot go from shutdown to running"},
		{cluster.AuthorReconcile, cluster.SetDesired{Task: x.ID, Desired: cluster.Desired{State: cluster.DesiredShutdown, Grace: -1}}, "cannot go from shutdown to shutdown"},
		{cluster.AuthorAgent, cluster.SetObserved{Task: x.ID, Observed: cluster.Observed{State: cluster.Starting}}, "was observed running and cannot be starting"},
		{cluster.AuthorPlace, cluster.SetPlacement{Task: x.ID, Placement: cluster.Placement{Node: "n1"}}, "was placed already"},
		{cluster.AuthorReconcile, cluster.AddTask{Task: x}, "exists already"},
		{cluster.AuthorReconcile, cluster.RemoveTask{Task: "web/1/99"}, "no task web/1/99"},
	} {
		if got, _ := panics(t, func() { e.apply(c.by, c.c) }).(string); !strings.Contains(got, c.want) {
			t.Errorf("%T: panics with %q, want %q", c.c, got, c.want)
		}
	}
	e.begin(cluster.Time{Engine: 5})
	step(e, 5, report(cluster.Starting)) // from outside it is no fault of the program: it is left out
	if got := one(t, e, "web").Observed.State; got != cluster.Running {
		t.Errorf("observed %s, want running", got)
	}
}

func TestCommitBeforePublish(t *testing.T) {
	e := New(Config{}, NewState("test"), cluster.Time{})
	join(e, 1, "n1")
	before := e.View()
	received := false
	out := e.Step([]Input{
		run("web", nil), AgentReports{Node: "n1", Session: 1, Received: func() { received = true }},
	}, cluster.Time{Engine: 2})
	if e.View() != before || before.Job("web") != nil || received {
		t.Fatal("readers see a turn that is not durable")
	}
	if len(out.Acks) != 1 || len(out.Replies) != 1 || out.Turn.State.Revision != before.Revision+1 {
		t.Errorf("output %+v", out)
	}
	puts, deletes := e.Records(out.Turn)
	if len(puts) != 3 || len(deletes) != 0 { // a job, its slot and its task
		t.Errorf("to be committed: %d and %d deleted, want 3 and 0", len(puts), len(deletes))
	}
	e.Publish(out.Turn)
	if e.View().Job("web") == nil || before.Job("web") != nil {
		t.Error("readers do not see what is durable, or an earlier state changed")
	}
	if out := e.Step(nil, cluster.Time{Engine: 3}); len(out.Turn.Changes) != 0 || out.Turn.State != e.View() {
		t.Errorf("a turn in which nothing happened makes a revision: %+v", out.Turn.Changes)
	}
}
