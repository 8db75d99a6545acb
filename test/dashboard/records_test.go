package dashboard

import (
	"fmt"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// began is when the engine of a made state was started.
const began = 24 * time.Hour

// ago returns a moment so long before now, on both clocks.
func ago(d time.Duration) cluster.Time {
	return cluster.Time{Engine: began - d, Wall: time.Now().Add(-d).UnixNano()}
}

// busy returns a cluster of so many nodes, of which most are ready, with jobs that run, one that is updated and two that wait.
func busy(nodes int) []any {
	var out []any
	for i := range nodes {
		n := &cluster.Node{
			ID: cluster.NodeID(fmt.Sprintf("id-%05d", i)), Joined: ago(20 * time.Hour),
			Spec:        cluster.NodeSpec{Name: fmt.Sprintf("n%d", i+1), Availability: cluster.Active, Labels: map[string]string{"zone": string(rune('a' + i%3)), "disk": "ssd"}},
			Description: cluster.NodeDescription{Hostname: fmt.Sprintf("host-%d", i+1), OS: "linux", Arch: "amd64", Drivers: []string{"process", "docker"}, Capacity: cluster.Resources{MilliCPU: 16_000, Memory: 64 << 30}},
			Status:      cluster.NodeStatus{State: cluster.NodeReady, Since: ago(19 * time.Hour)},
		}
		switch {
		case i%97 == 11:
			n.Spec.Labels["gpu"] = "a100"
		case i%211 == 40:
			n.Status = cluster.NodeStatus{State: cluster.NodeDown, Since: ago(7 * time.Minute)}
		case i%311 == 60:
			n.Status = cluster.NodeStatus{State: cluster.NodeSilent, Since: ago(2 * time.Second)}
		case i%157 == 80:
			n.Spec.Availability, n.Drain = cluster.Drain, cluster.DrainStatus{State: cluster.Draining, Since: ago(90 * time.Second), Left: 3}
		case i%229 == 100:
			n.Spec.Availability = cluster.Pause
		}
		out = append(out, n)
	}
	for k, name := range []string{"api", "cache", "checkout", "frontend", "ingest", "mail", "search"} {
		out = append(out, job(name, nodes*(k+2)/12, nodes, 6_000/(int64(k)+2))...)
	}
	out = append(out, train(nodes)...)
	return out
}

// job returns a job that runs, with its slots and tasks.
func job(name string, count, nodes int, milli int64) []any {
	spec := cluster.JobSpec{Name: name, Count: count, Task: cluster.TaskSpec{Driver: "process", Command: []string{"/srv/" + name}}}.WithDefaults()
	j := &cluster.Job{Name: name, Created: ago(18 * time.Hour), CreatedRev: 1, Control: cluster.JobControl{
		Spec: spec, Version: 2, SpecVersion: 2, Changed: ago(3 * time.Hour),
		Versions: []cluster.JobVersion{{Version: 1, SpecVersion: 1, Created: ago(18 * time.Hour), Spec: spec, Reason: "submitted", By: "ann@ops"}, {Version: 2, SpecVersion: 2, Created: ago(3 * time.Hour), Spec: spec, Reason: "submitted", By: "bob@ops"}},
	}}
	if name == "search" {
		j.Update = cluster.Update{State: cluster.Updating, From: 1, To: 2, Started: ago(4 * time.Minute), Total: count, Moved: count * 2 / 5}
	}
	out := []any{j}
	for i := range count {
		key := fmt.Sprint(i + 1)
		out = append(out, &cluster.Slot{Job: name, Key: cluster.SlotKey(key), Created: 1, Version: 2, SpecVersion: 2, UpSince: ago(3 * time.Hour), EverUp: true})
		t := task(name, key, ago(3*time.Hour))
		t.Reserve = cluster.Reserve{Resources: cluster.Resources{MilliCPU: milli, Memory: 2 << 30}}
		t.Placement = cluster.Placement{Node: cluster.NodeID(fmt.Sprintf("id-%05d", (i*7+i/nodes+len(name))%nodes)), Since: ago(3 * time.Hour)}
		t.Observed = cluster.Observed{State: cluster.Running, Message: "started", Healthy: true, At: ago(3*time.Hour - time.Second)}
		out = append(out, t)
	}
	return out
}

func task(job, key string, created cluster.Time) *cluster.Task {
	return &cluster.Task{
		ID: cluster.TaskID(job + "/" + key + "/1"), Job: job, Slot: cluster.SlotKey(key), CreatedRev: 1, JobVersion: 2, SpecVersion: 2, Created: created, Why: "new slot",
		Desired: cluster.Desired{State: cluster.DesiredRunning, Reason: "new slot", Since: created, Grace: -1}, Condition: cluster.Condition{State: cluster.OK},
	}
}

// train returns a job whose tasks no node can run, and one that waits for its budget.
func train(nodes int) []any {
	out := job("train", 0, nodes, 8000)
	for i := range 12 {
		t := task("train", fmt.Sprint(i+1), ago(26*time.Minute))
		t.Reserve = cluster.Reserve{Resources: cluster.Resources{MilliCPU: 8000}}
		out = append(out, t, &cluster.Slot{Job: "train", Key: t.Slot, Created: 1, Version: 2, SpecVersion: 2, NotUpSince: ago(26 * time.Minute)})
		if i == 0 {
			out = append(out, &cluster.Stall{
				Subject: cluster.Subject{Kind: cluster.SubjectGroup, ID: engine.GroupKey(t)}, Source: cluster.SourcePlacement, Code: cluster.CodeConstraint, Since: ago(26 * time.Minute), Changed: ago(7 * time.Minute),
				Facts: cluster.Facts{Nodes: nodes, Excluded: []cluster.Exclusion{{Source: "constraint", Code: cluster.CodeConstraint, Detail: "node.labels.gpu == a100", Count: nodes}}},
			})
		}
	}
	return append(out, &cluster.Stall{
		Subject: cluster.Subject{Kind: cluster.SubjectSlot, ID: "checkout/3"}, Source: cluster.SourceCore, Code: cluster.CodeWaitingForBudget, Since: ago(80 * time.Second),
		Message: "the drain of n81 waits: 1 of 50 slots is not up, and max_unavailable is 1", Clears: "checkout/17 is up again",
	})
}
