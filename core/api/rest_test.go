package api_test

import (
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// upSlot is a slot whose task is up.
func upSlot(job, key string, nodes ...cluster.NodeID) *cluster.Slot {
	s := slot(job, key)
	s.UpSince, s.EverUp, s.Nodes = at(7e9), true, nodes
	return s
}

func ended(id, node string) *cluster.Task {
	return with(running(id, node), func(t *cluster.Task) { t.Observed.State = cluster.Complete })
}

// A job at rest has the counts that a look at each of its slots gives.
func TestJobAtRestIsCountedWithoutItsSlots(t *testing.T) {
	down := with(node("b", "n2"), func(n *cluster.Node) { n.Status.State = cluster.NodeDown })
	global := func(j *cluster.Job) { j.Control.Spec.Type = cluster.TypeGlobal }
	for _, tt := range []struct {
		name    string
		job     *cluster.Job
		records []any
		rest    bool
	}{
		{"all up", job("web", 2), []any{upSlot("web", "1"), upSlot("web", "2"), running("web/1/3", "a"), running("web/2/3", "a")}, true},
		{"and history", job("web", 1), []any{upSlot("web", "1"), ended("web/1/2", "a"), running("web/1/3", "a")}, true},
		{"one unwanted", job("web", 1), []any{upSlot("web", "1"), running("web/1/3", "a"), with(slot("web", "2"), func(s *cluster.Slot) { s.Unwanted = true })}, true},
		{"done, one badly", job("web", 2), []any{
			with(slot("web", "1"), func(s *cluster.Slot) { s.Done = true }), ended("web/1/3", "a"),
			with(slot("web", "2"), func(s *cluster.Slot) { s.Done, s.Failed = true, true }), with(ended("web/2/3", "a"), func(t *cluster.Task) { t.Observed.State = cluster.Failed }),
		}, true},
		{"on each node", with(job("web", 0), global), []any{upSlot("web", "a", "a"), running("web/a/3", "a")}, true},
		{"on one of two nodes", job("web", 1), []any{upSlot("web", "1", "a", "b"), running("web/1/3", "a")}, true},
		{"stale", job("web", 1), []any{
			with(upSlot("web", "1"), func(s *cluster.Slot) { s.Version, s.SpecVersion = 1, 1 }),
			with(running("web/1/3", "a"), func(t *cluster.Task) { t.JobVersion, t.SpecVersion = 1, 1 }),
		}, false},
		{"an update was cancelled", with(job("web", 1), func(j *cluster.Job) { j.Update.State = cluster.UpdateCancelled }), []any{
			upSlot("web", "1"), with(running("web/1/3", "a"), func(t *cluster.Task) { t.JobVersion, t.SpecVersion = 1, 1 }),
		}, false},
		{"empty", job("web", 0), nil, true},
		{"one not up", job("web", 2), []any{upSlot("web", "1"), slot("web", "2"), running("web/1/3", "a"), task("web/2/3")}, false},
		{"one unhealthy", job("web", 1), []any{upSlot("web", "1"), with(running("web/1/3", "a"), func(t *cluster.Task) { t.Observed.Healthy = false })}, false},
		{"one lost", job("web", 1), []any{upSlot("web", "1"), running("web/1/3", "b")}, false},
		{"one held", job("web", 1), []any{with(upSlot("web", "1"), func(s *cluster.Slot) { s.Held = "not now" }), running("web/1/3", "a")}, false},
		{"updating", with(job("web", 1), func(j *cluster.Job) { j.Update.State = cluster.Updating }), []any{upSlot("web", "1"), running("web/1/3", "a")}, false},
		{"refused by filters", with(job("web", 0), global), []any{slot("web", "a")}, false},
		{"stalled", job("web", 1), []any{upSlot("web", "1"), running("web/1/3", "a"), &cluster.Stall{
			Subject: cluster.Subject{Kind: cluster.SubjectSlot, ID: "web/1"}, Source: cluster.SourceCore, Code: cluster.CodeWaitingForBudget, Since: at(8e9), Changed: at(8e9),
		}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			records := append([]any{tt.job, node("a", "n1"), down}, tt.records...)
			st := engine.NewState("rest")
			for _, r := range records {
				if err := st.Restore(r); err != nil {
					t.Fatal(err)
				}
			}
			if got := st.Rest().Of("web"); got != tt.rest {
				t.Errorf("at rest: %v, want %v", got, tt.rest)
			}
			s := serve(t, nil)
			s.engine.set(9, records...)
			c := s.as(pki.RoleReader)
			list, err := c.ListJobs(t.Context(), connect.NewRequest(&apiv1.ListJobsRequest{}))
			if err != nil || len(list.Msg.GetJobs()) != 1 {
				t.Fatalf("%v, %v, want one job", list, err)
			}
			one, err := c.GetJob(t.Context(), connect.NewRequest(&apiv1.GetJobRequest{Job: "web"}))
			if err != nil {
				t.Fatal(err)
			}
			want := one.Msg.GetJob()
			want.Slots, want.Versions = nil, nil
			if diff := cmp.Diff(want, list.Msg.GetJobs()[0], protocmp.Transform()); diff != "" {
				t.Errorf("a look at the slots says (-), the list (+):\n%s", diff)
			}
		})
	}
}
