package engine

import (
	"testing"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// A task waits for a node that has its driver and can keep its secrets, and is placed once an agent says so; nothing else of such a node is looked at meanwhile.
func TestTasksWaitForNodesThatCanRunThem(t *testing.T) {
	e := New(Config{Heartbeat: time.Hour}, NewState("test"), cluster.Time{})
	join(e, 1, "n1", "n2")
	describe := func(node cluster.NodeID, edit func(*cluster.NodeDescription)) Input {
		d := about
		d.Attributes = map[string]string{cluster.AttributeSecrets: cluster.Unavailable}
		d.Drivers = []string{cluster.DriverProcess}
		edit(&d)
		return AgentDescribes{Node: node, Session: 1, Description: d}
	}
	same := func(*cluster.NodeDescription) {}
	step(e, 2, describe("n1", same), describe("n2", same))
	step(e, 3, run("web", func(s *cluster.JobSpec) {
		s.Task.Driver, s.Task.Config = cluster.DriverDocker, map[string]string{"image": "x"}
		s.Task.Secrets = []cluster.Secret{{Name: "key", Target: "key", Mode: 0o400, Version: 1}}
	}))
	waiting := func(nodes int, want ...cluster.Exclusion) {
		t.Helper()
		stalls := e.View().StallsOf(cluster.Subject{Kind: cluster.SubjectGroup, ID: "web@1"})
		if len(stalls) != 1 || stalls[0].Facts.Nodes != nodes || stalls[0].Code != want[len(want)-1].Code {
			t.Fatalf("stalls %+v, want %v", stalls, want)
		}
		sum := 0
		for i, x := range stalls[0].Facts.Excluded {
			if i >= len(want) || x != want[i] {
				t.Errorf("excluded %+v, want %v", stalls[0].Facts.Excluded, want)
				break
			}
			sum += x.Count
		}
		if sum != nodes {
			t.Errorf("the counts sum to %d of %d nodes", sum, nodes)
		}
	}
	noDriver := cluster.Exclusion{Source: cluster.SourceCore, Code: cluster.CodeNoDriver, Detail: cluster.DriverDocker, Count: 2}
	noSecrets := cluster.Exclusion{Source: cluster.SourceCore, Code: cluster.CodeNoSecrets, Count: 1}
	waiting(2, noDriver)

	id := e.View().SlotTasks("web", "1")[0].ID
	out := step(e, 4, command{op: Why{Task: id}})
	v, err := out.Replies[0].Result()
	if why := v.(WhyResult); err != nil || len(why.Nodes) != 2 || len(why.Nodes[0].Reasons) != 2 || why.Nodes[0].Reasons[0].Code != cluster.CodeNoDriver ||
		why.Nodes[0].Reasons[1].Code != cluster.CodeNoSecrets || why.Nearest != "n1" {
		t.Errorf("why: %+v, %v", why, err)
	}

	// What is free on nodes that cannot run it is nothing to it.
	step(e, 5, describe("n1", func(d *cluster.NodeDescription) { d.Capacity.MilliCPU += 1000 }))
	if g := e.groups["web@1"]; len(e.changesFor(g)) > 0 || g.dirty {
		t.Error("it is to be looked at again")
	}
	step(e, 6, describe("n1", func(d *cluster.NodeDescription) { d.Drivers = []string{cluster.DriverDocker} }))
	noDriver.Count = 1
	waiting(2, noDriver, noSecrets)
	step(e, 7, describe("n1", func(d *cluster.NodeDescription) {
		d.Drivers, d.Attributes = []string{cluster.DriverDocker}, map[string]string{cluster.AttributeSecrets: "memory"}
	}))
	if task := e.View().Task(id); task.Placement.Node != "n1" {
		t.Errorf("placed on %q, want n1", task.Placement.Node)
	}
}
