package api_test

import (
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// The records that tests are made of.

func node(id, name string) *cluster.Node {
	return &cluster.Node{
		ID: cluster.NodeID(id), Joined: at(time.Second), Spec: cluster.NodeSpec{Name: name, Availability: cluster.Active},
		Description: cluster.NodeDescription{Hostname: name, Capacity: cluster.Resources{MilliCPU: 4000, Memory: 1 << 30}},
		Status:      cluster.NodeStatus{State: cluster.NodeReady, Since: at(2 * time.Second)},
	}
}

func job(name string, count int) *cluster.Job {
	spec := cluster.JobSpec{
		Name: name, Type: cluster.TypeReplicated, Count: count, Task: cluster.TaskSpec{Driver: "process", Command: []string{"/srv/" + name}},
	}
	return &cluster.Job{Name: name, Created: at(time.Second), CreatedRev: 1, Control: cluster.JobControl{
		Spec: spec, Version: 2, SpecVersion: 2, Changed: at(3 * time.Second),
		Versions: []cluster.JobVersion{{Version: 1, SpecVersion: 1, Spec: spec, Reason: "submitted"}, {Version: 2, SpecVersion: 2, Spec: spec, Reason: "scaled"}},
	}}
}

func slot(jobName, key string) *cluster.Slot {
	return &cluster.Slot{Job: jobName, Key: cluster.SlotKey(key), Version: 2, SpecVersion: 2}
}

// task returns a task that waits to be placed.
func task(id string) *cluster.Task {
	jobName, key, rev, err := cluster.TaskID(id).Parts()
	if err != nil {
		panic(err)
	}
	return &cluster.Task{
		ID: cluster.TaskID(id), Job: jobName, Slot: key, JobVersion: 2, SpecVersion: 2, Created: at(4 * time.Second), CreatedRev: rev, Why: "new slot",
		Desired: cluster.Desired{State: cluster.DesiredRunning, Reason: "wanted", By: "core", Since: at(4 * time.Second), Grace: -1},
	}
}

// running returns a task that runs on a node.
func running(id, nodeID string) *cluster.Task {
	t := task(id)
	t.Placement = cluster.Placement{Node: cluster.NodeID(nodeID), Since: at(5 * time.Second), Ports: []cluster.PortGrant{{Name: "http", Number: 8080}}}
	t.Observed = cluster.Observed{State: cluster.Running, Message: "started", Healthy: true, At: at(6 * time.Second)}
	return t
}

// with returns a copy of a record, changed.
func with[T any](r *T, change func(*T)) *T {
	c := *r
	change(&c)
	return &c
}

// groupStall is why the waiting tasks of a job cannot be placed.
func groupStall(jobName string) *cluster.Stall {
	return &cluster.Stall{
		Subject: cluster.Subject{Kind: cluster.SubjectGroup, ID: jobName + "@2"}, Source: cluster.SourcePlacement, Code: cluster.CodeConstraint,
		Since: at(3 * time.Second), Changed: at(8 * time.Second),
		Facts: cluster.Facts{Nodes: 3, Excluded: []cluster.Exclusion{
			{Source: "constraint", Code: cluster.CodeConstraint, Detail: "node.labels.disk == ssd", Count: 2},
			{Source: "core", Code: cluster.CodeInsufficientResources, Detail: "cpu", Count: 1},
		}},
	}
}
