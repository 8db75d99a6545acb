package api_test

import (
	"errors"
	"maps"
	"testing"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
	setpointv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/v1"
)

// followed is a call that the test follows.
type followed struct {
	api.Call
	ended    int
	code     api.Code
	replayed bool
}

func (f *followed) Trace() engine.Trace { return engine.Trace{ID: [16]byte{1}, Span: [8]byte{2}} }

func (f *followed) Ended(code api.Code, replayed bool) {
	f.ended++
	f.code, f.replayed = code, replayed
}

// Calls that change something are followed, with names and nothing else of what they say; what they bring about is part of their trace.
func TestCallsAreFollowed(t *testing.T) {
	var calls []*followed
	s := serve(t, func(o *api.Options) {
		o.Follow = func(c api.Call) api.FollowedCall {
			calls = append(calls, &followed{Call: c})
			return calls[len(calls)-1]
		}
	})
	job := &cluster.Job{Name: "web"}
	s.engine.set(3, job)
	s.engine.answer(func(op engine.Op) (any, error) {
		if op, ok := op.(engine.ScaleJob); ok && op.Count == 7 {
			return nil, &engine.Repeated{Request: &cluster.Request{Key: "k", Outcomes: []cluster.Outcome{{ID: "web"}}}}
		}
		if _, ok := op.(engine.RemoveJob); ok {
			return nil, &engine.OpError{Kind: engine.Conflict, Message: "not now: T0K3N"}
		}
		return engine.JobResult{Job: job, Changed: true}, nil
	})
	c := s.as(pki.RoleOperator)
	ctx := client.WithTrace(t.Context(), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "a=b")
	last := func() *followed {
		t.Helper()
		if len(calls) != 1 || calls[0].ended != 1 {
			t.Fatalf("calls %+v, want one that has ended", calls)
		}
		defer func() { calls = nil }()
		return calls[0]
	}

	spec := &setpointv1.JobSpec{Name: "web", Count: 1, Task: &setpointv1.TaskSpec{Driver: "sim", Command: []string{"x", "T0K3N"}, Env: map[string]string{"A": "T0K3N"}}}
	if _, err := c.RunJob(ctx, connect.NewRequest(&apiv1.RunJobRequest{Spec: spec, Reason: "T0K3N"})); err != nil {
		t.Fatal(err)
	}
	x := last()
	if x.Procedure != "RunJob" || x.Role != "operator" || !maps.Equal(x.About, map[string]string{"job": "web"}) || x.DryRun || x.code != "" || x.replayed {
		t.Errorf("a job that runs: %+v", x)
	}
	if x.Parent != "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" || x.State != "a=b" {
		t.Errorf("the caller's trace is %q %q", x.Parent, x.State)
	}
	if s.engine.trace != x.Trace() {
		t.Errorf("the command is part of %v", s.engine.trace)
	}
	if _, err := c.RunJob(t.Context(), connect.NewRequest(&apiv1.RunJobRequest{Spec: spec, DryRun: true})); err != nil {
		t.Fatal(err)
	}
	if x = last(); !x.DryRun || x.Parent != "" {
		t.Errorf("a dry run: %+v", x)
	}
	if _, err := c.ScaleJob(ctx, connect.NewRequest(&apiv1.ScaleJobRequest{Job: "web", Count: 7})); err != nil {
		t.Fatal(err)
	}
	if x = last(); !x.replayed || x.code != "" {
		t.Errorf("what was carried out before: %+v", x)
	}
	if _, err := c.RemoveJob(ctx, connect.NewRequest(&apiv1.RemoveJobRequest{Job: "web"})); err == nil {
		t.Fatal("it was carried out")
	}
	if x = last(); x.code != api.CodeConflict {
		t.Errorf("a call that was refused: %+v", x)
	}

	// Neither reading, nor what the caller may not do.
	if _, err := c.ListJobs(ctx, connect.NewRequest(&apiv1.ListJobsRequest{})); err != nil {
		t.Fatal(err)
	}
	var refused *connect.Error
	if _, err := s.as(pki.RoleReader).RemoveJob(ctx, connect.NewRequest(&apiv1.RemoveJobRequest{Job: "web"})); !errors.As(err, &refused) || refused.Code() != connect.CodePermissionDenied {
		t.Fatalf("a reader gets %v", err)
	}
	if len(calls) != 0 {
		t.Errorf("followed are %+v", calls)
	}
}

// A call that nobody follows is carried out like any.
func TestNobodyFollowsACall(t *testing.T) {
	s := serve(t, func(o *api.Options) { o.Follow = func(api.Call) api.FollowedCall { return nil } })
	s.engine.answer(func(engine.Op) (any, error) { return engine.JobResult{Job: &cluster.Job{Name: "web"}}, nil })
	if _, err := s.as(pki.RoleOperator).ScaleJob(t.Context(), connect.NewRequest(&apiv1.ScaleJobRequest{Job: "web", Count: 1})); err != nil {
		t.Fatal(err)
	}
	if s.engine.trace.Followed() {
		t.Errorf("the command is part of %v", s.engine.trace)
	}
}
