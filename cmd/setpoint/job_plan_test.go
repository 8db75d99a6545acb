package main

import (
	"encoding/json"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// somePlan moves a task, has another wait for a while, and ends with one that finds no node.
func somePlan() *apiv1.PlanResponse {
	at := func(d time.Duration) *durationpb.Duration { return durationpb.New(d) }
	return &apiv1.PlanResponse{
		Revision: 7, Took: at(3 * time.Second), Turns: 9, Settled: true, Counts: &apiv1.PlanCounts{Move: 1, Stall: 1},
		Events: []*apiv1.PlanEvent{
			{At: at(0), Kind: "stop", Job: "web", Slot: "1", Task: "web/1/4", Node: "n1", Text: "node n1 is drained", By: "drain"},
			{At: at(time.Second), Kind: "create", Job: "web", Slot: "1", Node: "n2", Text: "node n1 is drained, version 1", By: "core"},
			{At: at(2 * time.Second), Kind: "stall", Job: "db", Text: "no node can run it (2 nodes)", By: "placement"},
		},
		Slots: []*apiv1.PlanSlot{{Job: "web", Slot: "1", Change: "move", From: "n1", To: "n2", Task: "web/1/4"}},
		Stalls: []*apiv1.PlanStall{
			{Stall: &apiv1.Stall{Subject: &apiv1.Subject{Kind: "slot", Id: "web/1"}, Code: "waiting_for_stop", Message: "web/1/4 stops", Slot: "1", Job: "web"}, Begins: at(0), Ends: at(time.Second)},
			{Stall: &apiv1.Stall{Subject: &apiv1.Subject{Kind: "job", Id: "db"}, Code: "constraint", Message: "no node can run it (2 nodes)", Clears: "n3 joins"}, Begins: at(2 * time.Second)},
			{Stall: &apiv1.Stall{Subject: &apiv1.Subject{Kind: "job", Id: "old"}, Code: "constraint"}, Begins: at(0), Before: true},
		},
		Assumptions: []string{"nodes stay as they are"},
	}
}

func TestDryRun(t *testing.T) {
	f := newFake(t)
	f.plan = somePlan()
	f.run(t, "node", "drain", "n1", "--dry-run", "--deadline", "5m", "--horizon", "2h").expect(t, exitStalled, []string{
		"+0s    stop web/1/4  n1     node n1 is drained (drain)", "+1s    create web/1  n2     node n1 is drained, version 1",
		"+2s    stall db      -      no node can run it (2 nodes)", "In all: create 0, stop 0, move 1, replace 0, stall 1, within 3s",
		"job db clears when: n3 joins", "1 stall that there is already would stay", "Assumed, from revision 7:\n  nodes stay as they are",
	}, nil)
	req := f.noted()[0].(*apiv1.PlanRequest)
	if d := req.GetCommands()[0].GetSetAvailability(); d.GetAvailability() != "drain" || d.GetDrainDeadline().AsDuration() != 5*time.Minute || req.GetHorizon().AsDuration() != 2*time.Hour {
		t.Errorf("asked %v", req)
	}
	f.run(t, "job", "rm", "web", "--dry-run", "--all").expect(t, exitStalled, []string{"wait web/1", "waiting_for_stop: web/1/4 stops, until +1s"}, nil)
	f.plan.Counts.Stall = 0
	r := f.run(t, "job", "scale", "web", "5", "--dry-run", "-o", "json")
	var got struct {
		Move   int
		Events []struct{ Kind, At string }
		Stalls []struct {
			Code, Begins string
			Ends         *string
		}
	}
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || r.code != exitDone {
		t.Fatalf("%d: %v: %s", r.code, err, r.out)
	}
	if got.Move != 1 || len(got.Events) != 3 || got.Events[1].At != "1s" || len(got.Stalls) != 3 || *got.Stalls[0].Ends != "1s" || got.Stalls[1].Ends != nil {
		t.Errorf("printed %+v", got)
	}
	f.plan.Settled = false
	if r := f.run(t, "job", "restart", "web", "--dry-run"); r.code != exitStalled {
		t.Errorf("what still moves in the end gives exit code %d", r.code)
	}
	for _, req := range f.noted() {
		if _, ok := req.(*apiv1.PlanRequest); !ok {
			t.Errorf("a dry run asked for %T", req)
		}
	}
}

func TestJobPlan(t *testing.T) {
	f := newFake(t)
	f.plan = &apiv1.PlanResponse{Settled: true, Counts: &apiv1.PlanCounts{}}
	f.runJob = func(r *apiv1.RunJobRequest) (*apiv1.JobResponse, error) {
		if !r.GetDryRun() {
			t.Error("the job was run")
		}
		return &apiv1.JobResponse{Job: &apiv1.Job{Name: "web"}}, nil
	}
	file := jobFile(t, "job \"web\" {\n  type = \"replicated\"\n  task {\n    driver = \"sim\"\n    command = [\"x\"]\n  }\n}\n")
	f.run(t, "job", "plan", file).expect(t, exitDone, []string{"nothing: no task would be created, stopped or moved", "stall 0"}, nil)
	last := f.noted()[len(f.noted())-1].(*apiv1.PlanRequest)
	if len(last.GetCommands()) != 1 || last.GetCommands()[0].GetRunJob().GetSpec().GetName() != "web" || !last.GetCommands()[0].GetRunJob().GetHasDefaults() {
		t.Errorf("asked %v", last)
	}
}
