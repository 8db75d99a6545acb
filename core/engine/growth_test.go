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

	spent uint64  // allocations of all steps
	says  []Input // that the drainer answered and was not taken yet
}

// newLarge returns an engine in which a job of that many slots, made by edit, was placed and runs on some nodes.
func newLarge(t testing.TB, slots, nodes int, edit func(*cluster.JobSpec)) *large {
	t.Helper()
	l := &large{Engine: New(Config{Heartbeat: time.Hour}, NewState("test"), cluster.Time{}), t: t}
	l.job = cluster.JobSpec{Name: "big", Count: slots, Task: cluster.TaskSpec{Driver: "sim", Command: []string{"x"}}}.WithDefaults()
	l.job.HistoryLimit = 1
	edit(&l.job)
	l.settle(PluginUp{Name: "d", Session: 1, Drainer: true})
	for i := range nodes {
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
	for _, p := range out.Plugins {
		for _, q := range p.Drains {
			answer := PluginDrain{Name: p.Plugin, Session: 1, Question: q.ID}
			for _, x := range q.Tasks {
				answer.Transitions = append(answer.Transitions, cluster.Transition{Task: x.Task.ID, To: cluster.DesiredShutdown, Strength: cluster.Voluntary, Reason: "drain", Grace: -1})
			}
			l.says = append(l.says, answer)
		}
	}
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
		if in, l.says = l.says, nil; len(in) == 0 && !out.More && (out.Wake == 0 || out.Wake > time.Second) {
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
				in = append(in, l.saysOf(c.Task, cluster.Running))
			case cluster.SetDesired:
				if x := out.Turn.State.Task(c.Task); x != nil && x.Placed() && !x.Dead() {
					in = append(in, l.saysOf(c.Task, cluster.Stopped))
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

func (l *large) saysOf(task cluster.TaskID, s cluster.ObservedState) Input {
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
func (l *large) stops() { l.settle(l.saysOf(l.running(false).ID, cluster.Stopped)) }

// moves has one of the tasks stop that were told to, and its successor run.
func (l *large) moves() {
	l.stops()
	for x := range l.View().Unsettled() {
		if x.Desired.State.Wanted() {
			l.settle(l.saysOf(x.ID, cluster.Running))
		}
	}
}

// TestStepsOfALargeJobCostWhatChanges holds that what one thing costs that happens to a job does not follow how many slots the job has.
func TestStepsOfALargeJobCostWhatChanges(t *testing.T) {
	for _, c := range []struct {
		name    string
		perNode int // 0: there are ten nodes
		edit    func(*cluster.JobSpec)
		begin   func(*large)
		event   func(*large)
	}{
		{
			"a task has moved while half of all wait for the budget", 50,
			func(s *cluster.JobSpec) { s.MaxUnavailable = cluster.Amount{Count: 2} },
			func(l *large) {
				var nodes []string
				for i := range l.job.Count / 100 {
					nodes = append(nodes, fmt.Sprintf("n%d", i))
				}
				l.settle(command{op: SetAvailability{Nodes: nodes, Availability: cluster.Drain}})
			},
			(*large).moves,
		},
		{
			"a task of a batch job in turns completes", 0,
			func(s *cluster.JobSpec) { s.Type, s.Parallelism = cluster.TypeBatch, 20 },
			func(*large) {},
			func(l *large) { l.obey(l.saysOf(l.running(true).ID, cluster.Complete)) },
		},
		{
			"a task of a job that was stopped stops", 0,
			func(*cluster.JobSpec) {},
			func(l *large) { l.settle(command{op: StopJob{Job: "big"}}) },
			(*large).stops,
		},
		{
			"a task of a job that was removed stops", 0,
			func(*cluster.JobSpec) {},
			func(l *large) { l.settle(command{op: RemoveJob{Job: "big"}}) },
			(*large).stops,
		},
		{
			"a task stops that is one too many", 0,
			func(*cluster.JobSpec) {},
			func(l *large) { l.job.Count = 10; l.settle(command{op: RunJob{Spec: l.job}}) },
			(*large).stops,
		},
		{
			"a task has moved to a better place", 0,
			func(s *cluster.JobSpec) { s.MaxUnavailable, s.Update.Monitor = cluster.Amount{Count: 1}, 0 },
			func(l *large) {
				l.join("n10")
				l.settle(command{op: RebalanceJob{Job: "big"}})
			},
			(*large).moves,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var cost [2]uint64
			for i, slots := range []int{1_000, 10_000} {
				nodes := 10
				if c.perNode > 0 {
					nodes = slots / c.perNode
				}
				l := newLarge(t, slots, nodes, c.edit)
				c.begin(l)
				c.event(l) // what is found out once
				l.spent = 0
				for range 5 {
					c.event(l)
				}
				cost[i] = l.spent / 5
			}
			t.Logf("%d allocations with 1,000 slots, %d with 10,000", cost[0], cost[1])
			if cost[1] > 2*cost[0] {
				t.Errorf("%d allocations with 1,000 slots, and %d with 10,000: it looks at more than changes", cost[0], cost[1])
			}
		})
	}
}
