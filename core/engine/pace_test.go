package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

func TestPaceStretchesWithTheNodes(t *testing.T) {
	cfg := Config{Heartbeat: time.Second, Silent: 2 * time.Second, Down: 5 * time.Second, HeardPerSecond: 500, ReturnsPerSecond: 50}
	for _, c := range []struct {
		nodes int
		want  Pace
	}{
		{0, Pace{time.Second, 2 * time.Second, 5 * time.Second, 5 * time.Second}},
		{100, Pace{time.Second, 2 * time.Second, 5 * time.Second, 7 * time.Second}},
		{500, Pace{time.Second, 2 * time.Second, 5 * time.Second, 15 * time.Second}},
		{2000, Pace{4 * time.Second, 8 * time.Second, 20 * time.Second, 60 * time.Second}},
	} {
		if got := cfg.Pace(c.nodes); got != c.want {
			t.Errorf("%d nodes: %+v, want %+v", c.nodes, got, c.want)
		}
	}
	cfg.HeardPerSecond, cfg.ReturnsPerSecond = 0, 0
	if got, want := cfg.Pace(1_000_000), (Pace{time.Second, 2 * time.Second, 5 * time.Second, 5 * time.Second}); got != want {
		t.Errorf("without limits: %+v, want %+v", got, want)
	}
}

// Agents of a cluster that becomes smaller hear with their next heartbeat that they are to speak more often. Until then their silence is judged as before.
func TestASmallerClusterIsJudgedLater(t *testing.T) {
	cfg := Config{Heartbeat: time.Second, Silent: 2 * time.Second, Down: 3 * time.Second, HeardPerSecond: 10}
	var c crowd
	for _, step := range []struct {
		nodes int
		now   time.Duration
		down  time.Duration
	}{
		{10, 0, 3 * time.Second},
		{40, time.Second, 12 * time.Second},
		{10, 5 * time.Second, 12 * time.Second},
		{20, 12 * time.Second, 12 * time.Second},
		{20, 13 * time.Second, 6 * time.Second},
		{10, 19 * time.Second, 3 * time.Second},
	} {
		if got := c.judge(cfg, step.nodes, step.now).Down; got != step.down {
			t.Errorf("%d nodes after %s: down after %s, want %s", step.nodes, step.now, got, step.down)
		}
	}
}

// When a server starts, all agents come back at once, which takes the longer the more they are: only who was not back by then is down.
func TestManyNodesGetLongerToComeBack(t *testing.T) {
	cfg := Config{Heartbeat: time.Second, ReturnsPerSecond: 2}
	var records []any
	for i := range 10 {
		id := cluster.NodeID(fmt.Sprintf("n%02d", i))
		records = append(records, &cluster.Node{ID: id, Spec: cluster.NodeSpec{Name: string(id)}, Status: cluster.NodeStatus{State: cluster.NodeReady}})
	}
	e := New(cfg, Assemble("test", 1, cluster.Time{}, records...), cluster.Time{}.Add(time.Minute))
	back := func(from, to int, at time.Duration) {
		var in []Input
		for i := from; i < to; i++ {
			id := cluster.NodeID(fmt.Sprintf("n%02d", i))
			in = append(in, AgentUp{Node: id, Session: 1}, AgentReports{Node: id, Session: 1, Full: true, Last: true})
		}
		for i := range from {
			in = append(in, heard(cluster.NodeID(fmt.Sprintf("n%02d", i))))
		}
		step(e, time.Minute+at, in...)
	}
	back(0, 6, time.Second)
	back(6, 9, 5*time.Second)
	back(9, 9, 7900*time.Millisecond)
	if got := e.View().Node("n09").Status.State; got != cluster.NodeSilent {
		t.Errorf("the last is %s, want silent: it may still come back", got)
	}
	back(9, 9, 8*time.Second)
	for n := range e.View().Nodes() {
		want := cluster.NodeReady
		if n.ID == "n09" {
			want = cluster.NodeDown
		}
		if n.Status.State != want {
			t.Errorf("node %s is %s, want %s", n.ID, n.Status.State, want)
		}
	}
}
