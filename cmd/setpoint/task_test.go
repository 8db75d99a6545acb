package main

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// A task that ran for a day and was told to stop just now has not been stopping for a day.
func TestSinceWhenATaskIsInItsPhase(t *testing.T) {
	at := func(second int64) *timestamppb.Timestamp { return timestamppb.New(time.Unix(second, 0)) }
	task := func(phase, observed string) *apiv1.Task {
		return &apiv1.Task{
			Phase: phase, Created: at(1), Observed: &apiv1.Observed{State: observed, At: at(2)}, Desired: &apiv1.Desired{Since: at(3)}, Condition: &apiv1.Condition{Since: at(4)},
		}
	}
	for _, c := range []struct {
		task *apiv1.Task
		want int64
	}{{task("stalled", ""), 1}, {task("running", "running"), 2}, {task("stopped", "stopped"), 2}, {task("stopping", "running"), 3}, {task("lost", "running"), 4}} {
		if got := phaseSince(c.task).AsTime().Unix(); got != c.want {
			t.Errorf("%s since %d, want %d", c.task.GetPhase(), got, c.want)
		}
	}
}
