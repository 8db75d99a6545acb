package cluster_test

import (
	"testing"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// TestOverdueOnASilentNode: a node's silence is another reason to wait, and begins no new patience.
func TestOverdueOnASilentNode(t *testing.T) {
	start := cluster.Time{}.Add(time.Hour)
	at := func(d time.Duration) cluster.Time { return start.Add(d) }
	task := &cluster.Task{
		ID: "web/1/5", Job: "web", Slot: "1", Placement: cluster.Placement{Node: "n1", Since: start},
		Desired: cluster.Desired{State: cluster.DesiredShutdown, Since: start, Reason: "drain"}, Condition: cluster.Condition{State: cluster.OK},
		Observed: cluster.Observed{State: cluster.Running, Healthy: true, At: start},
	}
	node := &cluster.Node{
		ID: "n1", Spec: cluster.NodeSpec{Name: "n1", Availability: cluster.Drain},
		Status: cluster.NodeStatus{State: cluster.NodeSilent, Since: at(4 * time.Second)},
	}
	if got := cluster.Overdue(task, node, at(4500*time.Millisecond)); got != nil {
		t.Errorf("before its time: %+v", got)
	}
	got := cluster.Overdue(task, node, at(5*time.Second))
	if got == nil || got.Code != cluster.CodeNodeSilent || got.Since != at(4*time.Second) {
		t.Errorf("told to stop 5 s ago, on a node that is silent for 1 s: %+v", got)
	}
	node.Status = cluster.NodeStatus{State: cluster.NodeReady}
	if got = cluster.Overdue(task, node, at(5*time.Second)); got == nil || got.Code != cluster.CodeWaitingForStop || got.Since != start {
		t.Errorf("told to stop 5 s ago: %+v", got)
	}
}
