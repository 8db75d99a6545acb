package main

import (
	"testing"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

func TestRestartsOf(t *testing.T) {
	for want, s := range map[string]*apiv1.Slot{
		"-": {}, "2 spent": {Restarts: 2}, "7 in a row": {Backoff: 7}, "2 spent, 2 in a row": {Restarts: 2, Backoff: 2},
	} {
		if got := restartsOf(s); got != want {
			t.Errorf("%v: %q, want %q", s, got, want)
		}
	}
}

func TestHeldText(t *testing.T) {
	j := &apiv1.Job{
		Counts: &apiv1.JobCounts{Held: 4},
		Slots: []*apiv1.Slot{
			{Key: "a"},
			{Key: "b", Held: "node_paused"},
			{Key: "c", Held: "node_down"},
			{Key: "d", Held: "node_paused"},
			{Key: "e", Held: "plugin_error"},
			{Key: "f", Held: "node_down", Unwanted: true},
		},
	}
	if got, want := heldText(j), ", 1 down, 2 paused, 1 held"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := heldText(&apiv1.Job{}); got != "" {
		t.Errorf("%q, want nothing", got)
	}
}
