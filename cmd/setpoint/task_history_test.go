package main

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

func (f *fakeServer) TaskHistory(_ context.Context, req *connect.Request[apiv1.TaskHistoryRequest]) (*connect.Response[apiv1.TaskHistoryResponse], error) {
	at := func(s int64) *timestamppb.Timestamp { return timestamppb.New(time.Unix(1000+s, 0)) }
	return respond(&apiv1.TaskHistoryResponse{
		Task: req.Msg.GetTask(), ReachesBackTo: 4, Cut: "the log reaches back to revision 4",
		Entries: []*apiv1.HistoryEntry{
			{Revision: 4, Time: at(0), Kind: "task_created", Text: "web/1/4 was created: new slot", Author: "reconcile", Facts: []string{"version 1 of job web, asked for by alice"}},
			{Revision: 9, Time: at(60), Kind: "job_changed", Text: "web was told to stop", Author: "operator", By: "bob"},
		},
		Stalls: []*apiv1.PastStall{{
			Stall:        &apiv1.Stall{Code: "constraint", Source: "placement", Message: "no node can run it", Since: at(0)},
			FromRevision: 4, ToRevision: 6, Until: at(30),
		}},
	}, nil)
}

func TestTaskHistory(t *testing.T) {
	f := newFake(t)
	f.run(t, "task", "history", "web/1/4").expect(t, exitDone, []string{
		"web/1/4: its record is gone", "the log reaches back to revision 4", "web/1/4 was created: new slot", "version 1 of job web, asked for by alice", "bob",
		"for 30s", "from revision 4 constraint (placement): no node can run it",
	}, nil)
	r := f.run(t, "task", "history", "web/1/4", "-o", "json")
	var got struct {
		Now     *struct{}
		Entries []struct {
			By    string
			Facts []string
		}
		Stalls []struct{ Until time.Time }
	}
	if err := json.Unmarshal([]byte(r.out), &got); err != nil {
		t.Fatalf("%v: %s", err, r.out)
	}
	if got.Now != nil || len(got.Entries) != 2 || got.Entries[1].By != "bob" || len(got.Entries[0].Facts) != 1 || got.Stalls[0].Until.Unix() != 1030 {
		t.Errorf("printed %+v", got)
	}
}
