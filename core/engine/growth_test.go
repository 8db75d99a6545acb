package engine

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// large is an engine with one job of many slots and the agents that do what it tells them.
type large struct {
	*Engine
	t   testing.TB
	at  time.Duration
	job cluster.JobSpec

	spent, most uint64 // allocations of all steps, and of the largest
}

// newLarge returns an engine in which a job of that many slots, made by edit, was placed and runs on ten nodes.
func newLarge(t testing.TB, slots int, edit func(*cluster.JobSpec)) *large {
	t.Helper()
	l := &large{Engine: New(Config{Heartbeat: time.Hour}, NewState("test"), cluster.Time{}), t: t}
	l.job = cluster.JobSpec{Name: "big", Count: slots, Task: cluster.TaskSpec{Driver: "sim", Command: []string{"x"}}}.WithDefaults()
	l.job.HistoryLimit = 1
	edit(&l.job)
	for i := range 10 {
		l.join(cluster.NodeID(fmt.Sprintf("n%d", i)))
	}
	l.obey(command{op: RunJob{Spec: l.job}})
	return l
}

// join lets a vast machine join that runs nothing.
func (l *large) join(id cluster.NodeID) {
	l.t.Helper()
	vast := about
	vast.Capacity = cluster.Resources{MilliCPU: 1e9, Memory: 1 << 50}
	l.settle(command{op: JoinNode{ID: id, Name: string(id), Description: vast}})
	l.settle(AgentUp{Node: id, Session: 1, Description: vast}, AgentReports{Node: id, Session: 1, Full: true, Last: true})
}

// step takes a turn, and counts what it allocates: whatever it looks at takes some memory.
func (l *large) step(in ...Input) Output {
	l.t.Helper()
	l.at += time.Millisecond
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	out := l.Step(in, cluster.Time{Engine: l.at})
	runtime.ReadMemStats(&after)
	l.Publish(out.Turn)
	l.spent += after.Mallocs - before.Mallocs
	l.most = max(l.most, after.Mallocs-before.Mallocs)
	for _, r := range out.Replies {
		if r.err != nil {
			l.t.Fatal(r.err)
		}
	}
	return out
}

// settle takes turns until nothing is left to be decided.
func (l *large) settle(in ...Input) {
	l.t.Helper()
	for range 10_000 {
		out := l.step(in...)
		if in = nil; !out.More && (out.Wake == 0 || out.Wake > time.Second) {
			return
		}
	}
	l.t.Fatal("it never settles")
}

// obey takes turns until nothing is left to be done: what is placed runs at once, and what is told to stop has stopped.
func (l *large) obey(in ...Input) {
	l.t.Helper()
	for range 200_000 {
		out := l.step(in...)
		in = nil
		for _, c := range out.Turn.Changes {
			switch c := c.Change.(type) {
			case cluster.SetPlacement:
				in = append(in, l.says(c.Task, cluster.Running))
			case cluster.SetDesired:
				if x := out.Turn.State.Task(c.Task); x != nil && x.Placed() && !x.Dead() {
					in = append(in, l.says(c.Task, cluster.Stopped))
				}
			}
		}
		switch {
		case len(in) > 0 || out.More:
		case out.Wake > 0 && out.Wake < 30*time.Minute:
			l.at += out.Wake
		default:
			return
		}
	}
	l.t.Fatal("it never settles")
}

func (l *large) says(task cluster.TaskID, s cluster.ObservedState) Input {
	x := l.View().Task(task)
	return AgentReports{Node: x.Placement.Node, Session: 1, Tasks: []TaskReport{{Task: task, State: s, Healthy: s == cluster.Running}}}
}

// running returns the first task of the job that runs and is wanted, or not.
func (l *large) running(wanted bool) *cluster.Task {
	for x := range l.View().TasksOf(l.job.Name) {
		if x.Observed.State == cluster.Running && x.Desired.State.Wanted() == wanted {
			return x
		}
	}
	l.t.Fatal("nothing runs")
	return nil
}

// stops has one of the tasks stop that were told to.
func (l *large) stops() { l.settle(l.says(l.running(false).ID, cluster.Stopped)) }

// allocations returns what the steps that f takes allocate, all together and the largest.
func (l *large) allocations(f func()) (all, most uint64) {
	l.spent, l.most = 0, 0
	f()
	return l.spent, l.most
}

// TestStepsOfALargeJobCostWhatChanges holds that what one thing costs that happens to a job does not follow how many slots the job has.
func TestStepsOfALargeJobCostWhatChanges(t *testing.T) {
	for _, c := range []struct {
		name  string
		edit  func(*cluster.JobSpec)
		begin func(*large)
		event func(*large)
	}{
		{
			"a task of a batch job in turns completes",
			func(s *cluster.JobSpec) { s.Type, s.Parallelism = cluster.TypeBatch, 20 },
			func(*large) {},
			func(l *large) { l.obey(l.says(l.running(true).ID, cluster.Complete)) },
		},
		{
			"a task of a job that was stopped stops",
			func(*cluster.JobSpec) {},
			func(l *large) { l.settle(command{op: StopJob{Job: "big"}}) },
			(*large).stops,
		},
		{
			"a task of a job that was removed stops",
			func(*cluster.JobSpec) {},
			func(l *large) { l.settle(command{op: RemoveJob{Job: "big"}}) },
			(*large).stops,
		},
		{
			"a task stops that is one too many",
			func(*cluster.JobSpec) {},
			func(l *large) { l.job.Count = 10; l.settle(command{op: RunJob{Spec: l.job}}) },
			(*large).stops,
		},
		{
			"a task has moved to a better place",
			func(s *cluster.JobSpec) { s.MaxUnavailable, s.Update.Monitor = cluster.Amount{Count: 1}, 0 },
			func(l *large) {
				l.join("n10")
				l.settle(command{op: RebalanceJob{Job: "big"}})
			},
			func(l *large) {
				l.stops()
				for x := range l.View().Unsettled() {
					if x.Desired.State.Wanted() {
						l.settle(l.says(x.ID, cluster.Running))
					}
				}
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var cost [2]uint64
			for i, slots := range []int{1_000, 10_000} {
				l := newLarge(t, slots, c.edit)
				c.begin(l)
				c.event(l) // what is found out once
				all, _ := l.allocations(func() {
					for range 5 {
						c.event(l)
					}
				})
				cost[i] = all / 5
			}
			t.Logf("%d allocations with 1,000 slots, %d with 10,000", cost[0], cost[1])
			if cost[1] > 2*cost[0] {
				t.Errorf("%d allocations with 1,000 slots, and %d with 10,000: it looks at more than changes", cost[0], cost[1])
			}
		})
	}
}
