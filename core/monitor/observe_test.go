package monitor_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpointd/setpoint/core/monitor"
	"github.com/setpointd/setpoint/sdk/cluster"
)

func task(id cluster.TaskID, o cluster.Observed) *cluster.Task {
	return &cluster.Task{
		ID: id, Placement: cluster.Placement{Node: "n"}, Observed: o, Desired: cluster.Desired{State: cluster.DesiredRunning},
		Condition: cluster.Condition{State: cluster.OK},
	}
}

func TestObserve(t *testing.T) {
	running := cluster.Observed{State: cluster.Running, Healthy: true, At: ago(1)}
	failed := cluster.Observed{State: cluster.Failed, Err: "exit code 1", ExitCode: 1, At: ago(1)}
	for _, c := range []struct {
		name string
		was  cluster.Observed
		node cluster.NodeID
		r    monitor.Report
		want *cluster.Observed // nil: nothing new
	}{
		{"first word", cluster.Observed{}, "n", monitor.Report{State: cluster.Accepted}, &cluster.Observed{State: cluster.Accepted, At: now}},
		{
			"goes on",
			cluster.Observed{State: cluster.Starting, At: ago(1)},
			"n",
			monitor.Report{State: cluster.Running, Healthy: true},
			&cluster.Observed{State: cluster.Running, Healthy: true, At: now},
		},
		{
			"steps may be left out",
			cluster.Observed{},
			"n",
			monitor.Report{State: cluster.Rejected, Err: "no such driver"},
			&cluster.Observed{State: cluster.Rejected, Err: "no such driver", At: now},
		},
		{"same again", running, "n", monitor.Report{State: cluster.Running, Healthy: true}, nil},
		{"unhealthy", running, "n", monitor.Report{State: cluster.Running, Message: "503"}, &cluster.Observed{State: cluster.Running, Message: "503", At: now}},
		{"backwards", running, "n", monitor.Report{State: cluster.Starting}, nil},
		{"an end is final", failed, "n", monitor.Report{State: cluster.Stopped}, nil},
		{"an end is final, and so is what is said of it", failed, "n", monitor.Report{State: cluster.Failed, Err: "exit code 2", ExitCode: 2}, nil},
		{"another node", running, "m", monitor.Report{State: cluster.Failed}, nil},
		{"no state", cluster.Observed{}, "n", monitor.Report{}, nil},
		{
			"ends", running, "n",
			monitor.Report{State: cluster.Failed, Err: "exit code 3", ExitCode: 3},
			&cluster.Observed{State: cluster.Failed, Err: "exit code 3", ExitCode: 3, At: now},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := task("j/1/1", c.was)
			got := monitor.Observe(x, c.node, c.r, now)
			if (got != nil) != (c.want != nil) {
				t.Fatalf("got %+v, want %+v", got, c.want)
			}
			if got == nil {
				return
			}
			if diff := cmp.Diff(cluster.SetObserved{Task: "j/1/1", Observed: *c.want}, *got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if x.Observed != c.was {
				t.Error("the task was changed")
			}
		})
	}
	if got := monitor.Observe(nil, "n", monitor.Report{State: cluster.Running}, now); got != nil {
		t.Errorf("a task without a record: %+v", got)
	}
	waiting := task("j/1/2", cluster.Observed{})
	waiting.Placement = cluster.Placement{}
	if got := monitor.Observe(waiting, "n", monitor.Report{State: cluster.Running}, now); got != nil {
		t.Errorf("a task that was never placed: %+v", got)
	}
}

func TestMissing(t *testing.T) {
	gone := task("j/5/1", cluster.Observed{State: cluster.Running})
	gone.Condition.State = cluster.Gone
	told := task("j/6/1", cluster.Observed{State: cluster.Running, Message: "pulled"})
	told.Desired.State = cluster.DesiredShutdown
	all := []*cluster.Task{
		task("j/1/1", cluster.Observed{State: cluster.Running}),  // named
		task("j/2/1", cluster.Observed{State: cluster.Accepted}), // not named
		task("j/3/1", cluster.Observed{}),                        // never observed: assigned again
		task("j/4/1", cluster.Observed{State: cluster.Failed}),   // ended
		gone,
		told, // not named
	}
	var got []cluster.TaskID
	for _, c := range monitor.Missing(slices.Values(all), map[cluster.TaskID]bool{"j/1/1": true}, now) {
		set := c.(cluster.SetObserved)
		got = append(got, set.Task)
		if o := set.Observed; o.State != cluster.Failed || !o.Unknown || o.Healthy || o.At != now || o.Err == "" {
			t.Errorf("%s: %+v", set.Task, o)
		}
	}
	if want := []cluster.TaskID{"j/2/1", "j/6/1"}; !slices.Equal(got, want) {
		t.Errorf("missing %v, want %v", got, want)
	}
}

func TestGone(t *testing.T) {
	n := &cluster.Node{ID: "n", Spec: cluster.NodeSpec{Name: "web-1"}}
	all := []*cluster.Task{
		task("j/1/1", cluster.Observed{State: cluster.Running}),
		task("j/2/1", cluster.Observed{State: cluster.Complete}),
		task("j/3/1", cluster.Observed{}),
	}
	if got := monitor.Gone(n, slices.Values(all), now); got != nil {
		t.Errorf("a node that may come back: %+v", got)
	}
	n.Spec.Decommissioned = true
	want := []cluster.Change{
		cluster.SetCondition{Task: "j/1/1", Condition: cluster.Condition{State: cluster.Gone, Since: now, Reason: "node web-1 was decommissioned"}},
		cluster.SetCondition{Task: "j/3/1", Condition: cluster.Condition{State: cluster.Gone, Since: now, Reason: "node web-1 was decommissioned"}},
	}
	if diff := cmp.Diff(want, monitor.Gone(n, slices.Values(all), now)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
