package engine

import (
	"testing"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// A question is answered about what the turn has made, however early in it the question came: nobody sees the midst of a turn.
func TestQuestionsAreAnsweredAtTheEndOfTheTurn(t *testing.T) {
	e := New(Config{Heartbeat: time.Hour}, NewState("test"), cluster.Time{})
	about := cluster.NodeDescription{Drivers: []string{"sim"}, Capacity: cluster.Resources{MilliCPU: 1000, Memory: 8 << 30}}
	step(e, 1, command{op: JoinNode{ID: "n1", Name: "n1", Description: about}})
	step(e, 2, AgentUp{Node: "n1", Session: 1, Description: about}, AgentReports{Node: "n1", Session: 1, Full: true, Last: true})
	spec := cluster.JobSpec{
		Name: "web", Type: cluster.TypeReplicated, Count: 2,
		Task: cluster.TaskSpec{Driver: "sim", Command: []string{"x"}, Resources: cluster.Resources{MilliCPU: 600}},
	}.WithDefaults()
	out := step(e, 3, command{op: Inspect{}}, command{op: RunJob{Spec: spec}})
	v, err := out.Replies[0].Result()
	if err != nil {
		t.Fatal(err)
	}
	got := v.(InspectResult)
	if got.State != e.View() || len(got.Nodes) != 1 || got.Nodes[0].Reserved.MilliCPU != 600 || got.Nodes[0].Free.MilliCPU != 400 {
		t.Errorf("at revision %d of %d: %+v", got.State.Revision, e.View().Revision, got.Nodes)
	}

	// A turn without changes leaves the state that there was.
	out = step(e, 4, command{op: Inspect{}})
	v, err = out.Replies[0].Result()
	if again := v.(InspectResult); err != nil || again.State != got.State || again.Nodes[0].Reserved.MilliCPU != 600 {
		t.Errorf("asked again: %+v, %v", again, err)
	}

	var waits cluster.TaskID
	for task := range e.View().TasksOf("web") {
		if !task.Placed() {
			waits = task.ID
		}
	}
	more := about
	more.Capacity.MilliCPU = 2000
	out = step(e, 5, command{op: Why{Task: waits}}, AgentDescribes{Node: "n1", Session: 1, Description: more})
	v, err = out.Replies[0].Result()
	if why := v.(WhyResult); err != nil || !why.Task.Placed() || why.Sentence != "" {
		t.Errorf("it was placed in that turn, and the answer is %+v, %v", why, err)
	}
}
