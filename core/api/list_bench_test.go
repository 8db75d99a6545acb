package api_test

import (
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// BenchmarkLists measures what a list costs that is short, or one page of a long one, among many tasks: three tasks wait, and the others run.
func BenchmarkLists(b *testing.B) {
	for _, tasks := range []int{1_000, 10_000, 100_000} {
		s := serve(b, nil)
		records := []any{node("a", "n1"), job("web", tasks), groupStall("web"), task("web/1/3"), task("web/2/3")}
		records = append(records, with(running("web/3/3", "a"), func(t *cluster.Task) { t.Observed.Healthy, t.Observed.At = false, at(time.Second) }))
		records = append(records, job("rest", tasks))
		for i := range tasks {
			records = append(records, running(fmt.Sprintf("web/%07d/3", i), "a"), upSlot("rest", fmt.Sprint(i)), running(fmt.Sprintf("rest/%d/3", i), "a"))
		}
		s.engine.set(9, records...)
		s.engine.answer(func(engine.Op) (any, error) { return engine.WhyResult{}, nil })
		c := s.as(pki.RoleReader)
		b.Run(fmt.Sprintf("stalls/tasks=%d", tasks), func(b *testing.B) {
			for b.Loop() {
				res, err := c.ListStalls(b.Context(), connect.NewRequest(&apiv1.ListStallsRequest{}))
				if err != nil || len(res.Msg.GetStalls()) != 3 {
					b.Fatalf("%d stalls and %v, want 3", len(res.Msg.GetStalls()), err)
				}
			}
		})
		b.Run(fmt.Sprintf("status/tasks=%d", tasks), func(b *testing.B) {
			for b.Loop() {
				res, err := c.GetStatus(b.Context(), connect.NewRequest(&apiv1.GetStatusRequest{}))
				if err != nil || res.Msg.GetTasks()["running"] != int64(2*tasks) {
					b.Fatalf("%v and %v, want %d that run", res.Msg.GetTasks(), err, 2*tasks)
				}
			}
		})
		b.Run(fmt.Sprintf("jobs/tasks=%d", tasks), func(b *testing.B) {
			for b.Loop() {
				res, err := c.ListJobs(b.Context(), connect.NewRequest(&apiv1.ListJobsRequest{}))
				if err != nil || len(res.Msg.GetJobs()) != 2 || res.Msg.GetJobs()[0].GetCounts().GetRunning() != int64(tasks) {
					b.Fatalf("%v and %v, want %d that run", res.Msg.GetJobs(), err, tasks)
				}
			}
		})
		b.Run(fmt.Sprintf("last-page/tasks=%d", tasks), func(b *testing.B) {
			before := base64.RawURLEncoding.EncodeToString([]byte("web/2/3"))
			for b.Loop() {
				res, err := c.ListTasks(b.Context(), connect.NewRequest(&apiv1.ListTasksRequest{Job: "web", PageToken: before}))
				if err != nil || len(res.Msg.GetTasks()) != 1 {
					b.Fatalf("%d tasks and %v, want 1", len(res.Msg.GetTasks()), err)
				}
			}
		})
	}
}
