package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// obey has every agent do what it is told, at once, until nothing changes: what waits runs, and what is told to stop has stopped.
func obey(t *testing.T, e *Engine, at time.Duration) time.Duration {
	t.Helper()
	for range 1000 {
		at += 10 * time.Millisecond
		var in []Input
		for x := range e.View().Tasks() {
			n := e.View().Node(x.Placement.Node)
			r := TaskReport{Task: x.ID, State: cluster.Running, Healthy: true}
			if !x.Desired.State.Wanted() {
				r.State, r.Healthy = cluster.Stopped, false
			}
			if n != nil && n.Status.State == cluster.NodeReady && !x.Dead() && x.Observed.State != r.State {
				in = append(in, AgentReports{Node: n.ID, Session: 1, Tasks: []TaskReport{r}})
			}
		}
		if out := step(e, at, in...); len(in) == 0 && !out.More && len(out.Turn.Changes) == 0 {
			return at
		}
	}
	t.Fatal("it never settles")
	return at
}

// perNode returns how many tasks of a job run on each of the nodes n1, n2, …
func perNode(e *Engine, job string) string {
	nodes, _, _, _ := e.View().Counts()
	out := make([]string, nodes)
	for i := range out {
		count := 0
		for x := range e.View().TasksOn(cluster.NodeID(fmt.Sprintf("n%d", i+1))) {
			if x.Job == job && x.Observed.State == cluster.Running && x.Desired.State.Wanted() {
				count++
			}
		}
		out[i] = fmt.Sprint(count)
	}
	return strings.Join(out, "/")
}

// quarter is a job of 16 small tasks, of which 4 may be down at a time.
func quarter(order cluster.Order) Input {
	return run("web", func(s *cluster.JobSpec) {
		s.Count, s.Update.Order = 16, order
		s.Task.Resources = cluster.Resources{MilliCPU: 100}
	})
}

func TestRebalanceAfterANodeCameToo(t *testing.T) {
	for _, order := range []cluster.Order{cluster.StopFirst, cluster.StartFirst} {
		e := New(Config{Heartbeat: time.Hour}, NewState("test"), cluster.Time{})
		join(e, 1, "n1", "n2", "n3")
		step(e, 2, quarter(order))
		at := obey(t, e, time.Second)
		join(e, at, "n4")
		at = obey(t, e, at)
		if got := perNode(e, "web"); got != "6/5/5/0" {
			t.Fatalf("tasks are %s before anybody asked, want 6/5/5/0", got)
		}
		step(e, at, command{op: RebalanceJob{Job: "web"}})
		at = obey(t, e, at)
		if got, r := perNode(e, "web"), e.View().Job("web").Rebalance; got != "4/4/4/4" || !r.Ended || r.Moved != 4 {
			t.Errorf("%s: tasks are %s after %+v, want 4/4/4/4 after 4 moves", order, got, r)
		}
		before := e.View().Revision
		step(e, at, command{op: RebalanceJob{Job: "web"}})
		obey(t, e, at)
		if r := e.View().Job("web").Rebalance; r.Ask != 2 || !r.Ended || r.Moved != 0 || e.View().Revision != before+1 {
			t.Errorf("%s: asked again it is %+v after %d turns, want nothing moved", order, r, e.View().Revision-before)
		}
	}
}

func TestRebalanceMovesOnlyWhatFits(t *testing.T) {
	e := New(Config{Heartbeat: time.Hour}, NewState("test"), cluster.Time{})
	join(e, 1, "n1")
	step(e, 2, quarter(cluster.StopFirst))
	at := obey(t, e, time.Second)
	join(e, at, "n2")
	step(e, at, run("other", func(s *cluster.JobSpec) {
		s.Task.Resources = cluster.Resources{MilliCPU: about.Capacity.MilliCPU - 250}
	}))
	at = obey(t, e, at)
	if got := perNode(e, "other"); got != "0/1" {
		t.Fatalf("the other is on %s", got)
	}
	step(e, at, command{op: RebalanceJob{Job: "web"}})
	obey(t, e, at)
	if got := perNode(e, "web"); got != "14/2" {
		t.Errorf("tasks are %s, want 14/2: there is room for two", got)
	}
}

func TestRebalanceIsRefused(t *testing.T) {
	e := New(Config{Heartbeat: time.Hour}, NewState("test"), cluster.Time{})
	join(e, 1, "n1")
	step(e, 2, run("once", func(s *cluster.JobSpec) { s.Type = cluster.TypeBatch }), run("web", nil), command{op: StopJob{Job: "web", Grace: -1}})
	for _, job := range []string{"once", "web", "none"} {
		out := step(e, 3, command{op: RebalanceJob{Job: job}})
		var refusal *OpError
		if _, err := out.Replies[0].Result(); !errors.As(err, &refusal) || refusal.Hint == "" {
			t.Errorf("%s: %v, want a refusal with a hint", job, err)
		}
	}
}
