package engine

import (
	"testing"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// step takes inputs, and commits and publishes what comes of them.
func step(e *Engine, at time.Duration, in ...Input) Output {
	out := e.Step(in, cluster.Time{Engine: at})
	e.Publish(out.Turn)
	return out
}

// A class that was named as late does not stand at that revision by an answer at an earlier one.
func TestOldAnswerDoesNotEndLateness(t *testing.T) {
	e := New(Config{Plugins: []string{"f"}, Heartbeat: time.Hour}, NewState("test"), cluster.Time{})
	about := cluster.NodeDescription{Drivers: []string{"sim"}, Capacity: cluster.Resources{MilliCPU: 8000, Memory: 8 << 30}}
	job := func(name string) Input {
		return command{op: RunJob{Spec: cluster.JobSpec{Name: name, Type: cluster.TypeReplicated, Count: 1, Task: cluster.TaskSpec{Driver: "sim", Command: []string{"x"}}}.WithDefaults()}}
	}
	step(e, 1, command{op: JoinNode{ID: "n1", Name: "n1", Description: about}})
	step(e, 2, AgentUp{Node: "n1", Session: 1, Description: about}, AgentReports{Node: "n1", Session: 1, Full: true, Last: true})
	step(e, 3, PluginUp{Name: "f", Session: 1, Filter: true, Watches: cluster.Mask(cluster.FieldLabels)})
	told := step(e, 4, job("one")).Plugins
	c := told[0].AddClasses[0]
	before := e.View().Revision
	allowed := ClassVerdict{Class: c.ID, ClassRevision: c.Revision, Full: &FullVerdict{Allowed: []byte{1}}}
	unchanged := ClassVerdict{Class: c.ID, ClassRevision: c.Revision, Flips: &FlipVerdict{}}
	step(e, 5, PluginVerdicts{Name: "f", Session: 1, Revision: before, Classes: []ClassVerdict{allowed}}, PluginApplied{Name: "f", Session: 1, Revision: before})
	if placed(e, "one") != "n1" {
		t.Fatal("a verdict that counts did not place")
	}
	told = step(e, 6, command{op: LabelNode{Node: "n1", Set: map[string]string{"a": "b"}}}).Plugins
	after := told[0].Revision
	step(
		e, 7, PluginApplied{Name: "f", Session: 1, Revision: after, LateClasses: []uint32{c.ID}},
		PluginVerdicts{Name: "f", Session: 1, Revision: before, Classes: []ClassVerdict{unchanged}}, job("two"),
	)
	if n := placed(e, "two"); n != "" {
		t.Fatalf("placed on %s by a verdict from before the node changed", n)
	}
	step(e, 8, PluginVerdicts{Name: "f", Session: 1, Revision: after, Classes: []ClassVerdict{unchanged}})
	if placed(e, "two") != "n1" {
		t.Fatal("a verdict that counts again did not place")
	}
}

// placed returns where a job's first task is, if anywhere.
func placed(e *Engine, job string) cluster.NodeID {
	for t := range e.View().TasksOf(job) {
		return t.Placement.Node
	}
	return ""
}
