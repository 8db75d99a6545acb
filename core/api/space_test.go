package api_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

func TestAFullStoreKeepsNobodyWaiting(t *testing.T) {
	var full atomic.Bool
	s := serve(t, func(o *api.Options) {
		o.Full = full.Load
	})
	s.engine.stuck = &full
	c := s.as(pki.RoleOperator)
	for _, when := range []string{"while it waits", "from the start"} {
		_, err := c.ScaleJob(t.Context(), connect.NewRequest(&apiv1.ScaleJobRequest{Job: "web", Count: 1}))
		if connect.CodeOf(err) != connect.CodeResourceExhausted || !strings.Contains(err.Error(), "no space left") || client.Detail(err).GetCode() != "no_space" {
			t.Errorf("%s: %v", when, err)
		}
	}
	if _, err := c.ListJobs(t.Context(), connect.NewRequest(&apiv1.ListJobsRequest{})); err != nil {
		t.Errorf("reading: %v", err)
	}
}
