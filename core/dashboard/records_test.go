package dashboard

import (
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

func node(id, name string) *cluster.Node {
	return &cluster.Node{
		ID: cluster.NodeID(id), Joined: moment(0), Spec: cluster.NodeSpec{Name: name, Availability: cluster.Active},
		Description: cluster.NodeDescription{Hostname: name, Capacity: cluster.Resources{MilliCPU: 4000, Memory: 8 << 30}},
		Status:      cluster.NodeStatus{State: cluster.NodeReady, Since: moment(0)},
	}
}

func job(name string, count int) *cluster.Job {
	spec := cluster.JobSpec{Name: name, Count: count}.WithDefaults()
	return &cluster.Job{Name: name, Created: moment(0), CreatedRev: 1, Control: cluster.JobControl{
		Spec: spec, Version: 2, SpecVersion: 2, Changed: moment(0), Versions: []cluster.JobVersion{{Version: 1, SpecVersion: 1, Spec: spec}, {Version: 2, SpecVersion: 2, Spec: spec}},
	}}
}

func slot(job, key string, change func(*cluster.Slot)) *cluster.Slot {
	s := &cluster.Slot{Job: job, Key: cluster.SlotKey(key), Created: 1, Version: 2, SpecVersion: 2}
	if change != nil {
		change(s)
	}
	return s
}

func up(s *cluster.Slot) { s.UpSince = moment(time.Second) }

// waiting returns a task that waits to be placed.
func waiting(id string) *cluster.Task {
	job, key, rev, err := cluster.TaskID(id).Parts()
	if err != nil {
		panic(err)
	}
	return &cluster.Task{
		ID: cluster.TaskID(id), Job: job, Slot: key, CreatedRev: rev, JobVersion: 2, SpecVersion: 2, Created: moment(time.Second),
		Desired: cluster.Desired{State: cluster.DesiredRunning, Since: moment(time.Second), Grace: -1}, Condition: cluster.Condition{State: cluster.OK},
	}
}

// running returns a task that runs on a node.
func running(id, on string) *cluster.Task {
	t := waiting(id)
	t.Placement = cluster.Placement{Node: cluster.NodeID(on), Since: moment(time.Second)}
	t.Observed = cluster.Observed{State: cluster.Running, Healthy: true, At: moment(2 * time.Second)}
	return t
}

// groupStall returns the stall of a job's waiting tasks.
func groupStall(t *cluster.Task, detail string) *cluster.Stall {
	return &cluster.Stall{
		Subject: cluster.Subject{Kind: cluster.SubjectGroup, ID: engine.GroupKey(t)}, Source: cluster.SourcePlacement, Code: cluster.CodeConstraint,
		Since: moment(time.Second), Changed: moment(time.Second), Facts: cluster.Facts{Nodes: 1, Excluded: []cluster.Exclusion{{Source: "constraint", Code: cluster.CodeConstraint, Detail: detail, Count: 1}}},
	}
}
