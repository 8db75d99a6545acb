package main

import (
	"encoding/json"
	"strings"
	"testing"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

func stallOn(kind, id, code, source string) *apiv1.Stall {
	return &apiv1.Stall{Subject: &apiv1.Subject{Kind: kind, Id: id}, Code: code, Source: source, Message: kind + " " + id + " waits"}
}

// A job without tasks shows what its slots and its update wait for, and what is behind that elsewhere.
func TestJobWhyWithoutTasks(t *testing.T) {
	f := newFake(t)
	f.tasks = func(*apiv1.ListTasksRequest) *apiv1.ListTasksResponse {
		return &apiv1.ListTasksResponse{Tasks: []*apiv1.Task{{Id: "web/1/4", Job: "web", NodeId: "id-n1", Phase: "running"}}}
	}
	j := webJob("stalled", 2, 0)
	slot := stallOn("slot", "web/2", "plugin_pending", "global")
	j.Stalls = []*apiv1.Stall{slot, stallOn("update", "web", "update_paused", "core")}
	f.job = frames(j)
	drain, other := stallOn("node", "id-n1", "plugin_timeout", "drain"), stallOn("node", "id-n2", "plugin_timeout", "drain")
	drain.NodeId, drain.Node, other.NodeId, other.Node = "id-n1", "n1", "id-n2", "n2"
	f.wait(slot, stallOn("update", "web", "update_paused", "core"), stallOn("plugin", "global", "plugin_unavailable", "core"),
		stallOn("plugin", "constraint", "plugin_unavailable", "core"), stallOn("cluster", "nodes", "mass_silence", "core"), drain, other)
	r := f.run(t, "job", "why", "web")
	r.expect(t, exitDone, []string{
		"web/2 stalled", "update web stalled", "\nElsewhere:\n", "plugin global stalled", "cluster stalled", "node n1 stalled",
	}, nil)
	_, elsewhere, _ := strings.Cut(r.out, "Elsewhere:")
	for _, text := range []string{"plugin constraint", "node n2", "web/2 stalled"} {
		if strings.Contains(elsewhere, text) {
			t.Errorf("%q is said to be in the job's way:\n%s", text, elsewhere)
		}
	}
	var got struct{ Behind []struct{ Code string } }
	if err := json.Unmarshal([]byte(f.run(t, "job", "why", "web", "-o", "json").out), &got); err != nil || len(got.Behind) != 3 {
		t.Errorf("behind %+v, %v", got, err)
	}
}

func TestJobWhyNothingIsWanted(t *testing.T) {
	for text, edit := range map[string]func(*apiv1.Job){
		"its count is 0":                    func(*apiv1.Job) {},
		"It was stopped":                    func(j *apiv1.Job) { j.Stopped = true },
		"of 3 nodes 0 are eligible":         func(j *apiv1.Job) { j.Type, j.Counts.Limited, j.Counts.EligibleOf = "global", true, 3 },
		"its type names none for the nodes": func(j *apiv1.Job) { j.Type = "rack" },
		"It waits for nothing.":             func(*apiv1.Job) {},
	} {
		f := newFake(t)
		f.tasks = func(*apiv1.ListTasksRequest) *apiv1.ListTasksResponse { return &apiv1.ListTasksResponse{} }
		j := webJob("empty", 1, 0)
		j.Counts = &apiv1.JobCounts{}
		edit(j)
		f.job = frames(j)
		f.run(t, "job", "why", "web").expect(t, exitDone, []string{text}, nil)
	}
}

// What stalls more than one job is shown with the status.
func TestStatusShowsWideStalls(t *testing.T) {
	f := newFake(t)
	f.status = func() (*apiv1.GetStatusResponse, error) { return &apiv1.GetStatusResponse{Ready: true, Stalls: 2}, nil }
	f.wait(stallOn("cluster", "nodes", "mass_silence", "core"), stallOn("slot", "web/1", "waiting_for_budget", "core"))
	r := f.run(t, "status")
	r.expect(t, exitDone, []string{"cluster stalled", "mass_silence"}, nil)
	if strings.Contains(r.out, "web/1") {
		t.Errorf("a single slot is shown with the status:\n%s", r.out)
	}
}
