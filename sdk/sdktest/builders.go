package sdktest

import (
	"fmt"
	"strings"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Node returns an active, ready node whose id and name are name, with the given labels, written key=value. A word without = is a label with an empty value.
func Node(name string, labels ...string) *cluster.Node {
	n := &cluster.Node{
		ID: cluster.NodeID(name),
		Spec: cluster.NodeSpec{
			Name: name, Availability: cluster.Active, Labels: make(map[string]string, len(labels)),
		},
		Description: cluster.NodeDescription{
			Hostname: name, OS: "linux", Arch: "amd64", Attributes: map[string]string{},
			Capacity: cluster.Resources{MilliCPU: 4000, Memory: 8 << 30},
		},
		Status: cluster.NodeStatus{State: cluster.NodeReady},
	}
	for _, l := range labels {
		key, value, _ := strings.Cut(l, "=")
		n.Spec.Labels[key] = value
	}
	return n
}

// Nodes returns n nodes named n00000, n00001, … each made by Node and then changed by with, which may be nil.
func Nodes(n int, with func(i int, n *cluster.Node)) []*cluster.Node {
	out := make([]*cluster.Node, n)
	for i := range out {
		out[i] = Node(fmt.Sprintf("n%05d", i))
		if with != nil {
			with(i, out[i])
		}
	}
	return out
}

// Job returns a job of a type that a plugin serves.
func Job(name, jobType string) sdk.Job { return sdk.Job{Name: name, Type: jobType, Count: 1} }

// Task returns a healthy, running task of a replicated job in its first slot, as a Drainer sees it.
func Task(job string, revision uint64) sdk.DrainTask {
	return sdk.DrainTask{
		ID: cluster.NewTaskID(job, "1", cluster.Revision(revision)), Job: job, JobType: cluster.TypeReplicated, Slot: "1", Priority: 50,
		OnDrain: cluster.DrainFirst, Desired: cluster.DesiredRunning, Observed: cluster.Running, Healthy: true,
	}
}
