package engine

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// A task that an operator stops is told so for ever, and its slot gets another once it was seen to stop, which spends no restart.
func TestOneTaskIsStopped(t *testing.T) {
	for _, test := range []struct {
		name string
		edit func(*cluster.JobSpec)
	}{
		{"replicated", nil},
		{"never restarted", func(s *cluster.JobSpec) { s.Restart = cluster.RestartSpec{Condition: cluster.RestartNone} }},
		{"slow to restart", func(s *cluster.JobSpec) {
			s.Restart = cluster.RestartSpec{Condition: cluster.RestartAny, Delay: time.Hour, MaxDelay: time.Hour, Attempts: 1}
		}},
		{"batch", func(s *cluster.JobSpec) { s.Type = cluster.TypeBatch }},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := New(Config{Heartbeat: time.Hour}, NewState("test"), cluster.Time{})
			join(e, 1, "n1")
			step(e, 2, run("web", test.edit))
			old := one(t, e, "web")
			report := func(at time.Duration, state cluster.ObservedState) {
				step(e, at, AgentReports{Node: "n1", Session: 1, Tasks: []TaskReport{{Task: old.ID, State: state}}})
			}
			report(3, cluster.Running)
			answer := func(at time.Duration, op Op) (any, error) {
				t.Helper()
				out := step(e, at, command{op: op, by: "ada", ticket: 1})
				if len(out.Replies) != 1 {
					t.Fatalf("%d replies", len(out.Replies))
				}
				return out.Replies[0].value, out.Replies[0].err
			}
			value, err := answer(4, StopTask{Task: old.ID, Grace: -1})
			if r, ok := value.(TaskResult); err != nil || !ok || !r.Changed || r.Task.ID != old.ID {
				t.Fatalf("answered %+v, %v", value, err)
			}
			want := cluster.Desired{State: cluster.DesiredShutdown, Reason: "ada stopped it", By: cluster.SourceCore, Since: cluster.Time{Engine: 4}, Grace: -1}
			if got := e.View().Task(old.ID).Desired; got != want {
				t.Errorf("desired is %+v, want %+v", got, want)
			}
			if got := e.View().Task(old.ID).Observed.State; got != cluster.Running {
				t.Errorf("observed became %s without the agent", got)
			}
			if value, err = answer(5, StopTask{Task: old.ID, Grace: -1}); err != nil || value.(TaskResult).Changed {
				t.Errorf("once more: %+v, %v", value, err)
			}
			if value, err = answer(6, StopTask{Task: old.ID, Grace: 0}); err != nil || !value.(TaskResult).Changed {
				t.Errorf("with less time: %+v, %v", value, err)
			}
			if n := len(slices.Collect(e.View().TasksOf("web"))); n != 1 {
				t.Fatalf("there are %d tasks before it was seen to stop", n)
			}
			report(7, cluster.Stopped)
			tasks := slices.Collect(e.View().TasksOf("web"))
			if len(tasks) != 2 {
				t.Fatalf("there are %d tasks after it was seen to stop", len(tasks))
			}
			next := tasks[1]
			if next.ID == old.ID {
				next = tasks[0]
			}
			if next.Slot != old.Slot || !next.Placed() || !next.Desired.State.Wanted() || next.Why != "ada stopped it" {
				t.Errorf("the next task is %+v", next)
			}
			if s := e.View().Slot("web", old.Slot); len(s.Restarts) != 0 || s.Done {
				t.Errorf("the slot is %+v", s)
			}
		})
	}
}

func TestTasksThatCannotBeStopped(t *testing.T) {
	e := New(Config{Heartbeat: time.Hour}, NewState("test"), cluster.Time{})
	refusal := func(at time.Duration, id cluster.TaskID) Kind {
		t.Helper()
		out := step(e, at, command{op: StopTask{Task: id, Grace: -1}, ticket: 1})
		var why *OpError
		if !errors.As(out.Replies[0].err, &why) || why.Hint == "" {
			t.Fatalf("answered %v", out.Replies[0].err)
		}
		return why.Kind
	}
	if kind := refusal(1, "web/1/1"); kind != NotFound {
		t.Errorf("one that never was: %s", kind)
	}
	step(e, 2, run("web", nil))
	waits := one(t, e, "web")
	if kind := refusal(3, waits.ID); kind != Refused {
		t.Errorf("one that waits for a node: %s", kind)
	}
	if e.View().Task(waits.ID) == nil {
		t.Error("it is gone")
	}
	join(e, 4, "n1")
	step(e, 5, AgentReports{Node: "n1", Session: 1, Tasks: []TaskReport{{Task: waits.ID, State: cluster.Failed}}})
	if kind := refusal(6, waits.ID); kind != Refused {
		t.Errorf("one that has ended: %s", kind)
	}
}
