package api_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/hashicorp/go-hclog"
	"google.golang.org/protobuf/proto"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/audit"
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

func TestWhoChangedWhatIsLogged(t *testing.T) {
	var log bytes.Buffer
	s := serve(t, func(o *api.Options) { o.Log = hclog.New(&hclog.LoggerOptions{Output: &log, JSONFormat: true}) })
	s.engine.answer(func(engine.Op) (any, error) { return []engine.NodeResult{{Node: node("a", "n1"), Changed: true}}, nil })
	s.engine.set(9, node("a", "n1"))
	c := s.as(pki.RoleOperator)
	if _, err := c.SetAvailability(t.Context(), connect.NewRequest(&apiv1.SetAvailabilityRequest{Nodes: []string{"n1"}, Availability: "drain"})); err != nil {
		t.Fatal(err)
	}
	label := &apiv1.LabelNodeRequest{Node: "n1", Set: map[string]string{"b": "2", "a": "1"}, Remove: []string{"x", "y"}}
	s.engine.answer(func(op engine.Op) (any, error) {
		if _, ok := op.(engine.TrialLabels); ok {
			return engine.Trial{}, nil
		}
		return engine.NodeResult{Node: node("a", "n1"), Changed: true}, nil
	})
	if _, err := c.LabelNode(t.Context(), connect.NewRequest(label)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ListJobs(t.Context(), connect.NewRequest(&apiv1.ListJobsRequest{})); err != nil {
		t.Fatal(err)
	}
	text := log.String()
	for _, want := range []string{`"@message":"call carried out"`, `"availability":"drain"`, `"node":"n1"`, `"caller":"`, "SetAvailability", `"set":"a=1 b=2"`, `"remove":"x y"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %s: %s", want, text)
		}
	}
	if strings.Count(text, "call carried out") != 2 {
		t.Errorf("reading is logged too: %s", text)
	}
}

// serveAudit serves with an audit log.
func serveAudit(t *testing.T) *server {
	t.Helper()
	log, err := audit.Open(filepath.Join(t.TempDir(), "audit.log"), audit.Limits{FileSize: 1 << 20, Files: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return serve(t, func(o *api.Options) { o.Audit = log })
}

func readAudit(t *testing.T, c *client.Client, req *apiv1.ReadAuditRequest) []*apiv1.AuditEntry {
	t.Helper()
	stream, err := c.ReadAudit(t.Context(), connect.NewRequest(req))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var out []*apiv1.AuditEntry
	for stream.Receive() {
		out = append(out, stream.Msg().GetEntries()...)
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAuditSaysWhoDidWhatAndWhoWasRefused(t *testing.T) {
	s := serveAudit(t)
	s.engine.answer(func(op engine.Op) (any, error) {
		switch op.(type) {
		case engine.RunJob:
			return engine.JobResult{Job: job("web", 1), Changed: true}, nil
		}
		return nil, &engine.OpError{Kind: engine.NotFound, Message: "there is no job \"x\"", Hint: "job ls"}
	})
	operator, reader, ctx := s.as(pki.RoleOperator), s.as(pki.RoleReader), t.Context()
	spec := webSpec()
	spec.Task.Env = map[string]string{"PASSWORD": "hunter2"}
	if _, err := operator.RunJob(ctx, connect.NewRequest(&apiv1.RunJobRequest{Spec: spec, DryRun: true})); err != nil {
		t.Fatal(err)
	}
	if _, err := operator.RunJob(ctx, connect.NewRequest(&apiv1.RunJobRequest{Spec: spec, Reason: "because"})); err != nil {
		t.Fatal(err)
	}
	if _, err := operator.RemoveJob(ctx, connect.NewRequest(&apiv1.RemoveJobRequest{Job: "x"})); !client.IsNotFound(err) {
		t.Fatal(err)
	}
	if _, err := operator.ListJobs(ctx, connect.NewRequest(&apiv1.ListJobsRequest{})); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.StopJob(ctx, connect.NewRequest(&apiv1.StopJobRequest{Job: "web"})); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Fatal(err)
	}
	refused, err := reader.ReadAudit(ctx, connect.NewRequest(&apiv1.ReadAuditRequest{}))
	if err == nil && (refused.Receive() || connect.CodeOf(refused.Err()) != connect.CodePermissionDenied) {
		t.Fatalf("a reader read the audit log: %v", refused.Err())
	}
	got := readAudit(t, s.as(pki.RoleAdmin), &apiv1.ReadAuditRequest{})
	want := []*apiv1.AuditEntry{
		{Role: "operator", Call: "RunJob", On: map[string]string{"job": "web", "reason": "because"}, Result: "ok"},
		{Role: "operator", Call: "RemoveJob", On: map[string]string{"job": "x"}, Result: "not_found", Message: "there is no job \"x\""},
		{Role: "reader", Call: "StopJob", Result: "permission_denied", Message: "someone has the role reader; this needs operator"},
		{Role: "reader", Call: "ReadAudit", Result: "permission_denied", Message: "someone has the role reader; this needs admin"},
	}
	if len(got) != len(want) {
		t.Fatalf("%d entries, want %d: %v", len(got), len(want), got)
	}
	for i, e := range got {
		if e.GetWho() != "someone" || len(e.GetSerial()) != 32 || !strings.HasPrefix(e.GetFrom(), "127.0.0.1:") || e.GetTime() == nil || strings.Contains(e.String(), "hunter2") {
			t.Errorf("entry %v", e)
		}
		e.Who, e.Serial, e.From, e.Time = "", "", "", nil
		if !proto.Equal(e, want[i]) {
			t.Errorf("got  %v\nwant %v", e, want[i])
		}
	}
	if some := readAudit(t, s.as(pki.RoleAdmin), &apiv1.ReadAuditRequest{Refused: true, Tail: 1}); len(some) != 1 || some[0].GetCall() != "ReadAudit" {
		t.Errorf("the last that was refused: %v", some)
	}
}

// Nobody pushes out what the log has by being refused.
func TestRefusalsAreCountedWhenThereAreTooMany(t *testing.T) {
	s := serveAudit(t)
	reader := s.as(pki.RoleReader)
	for range 70 {
		if _, err := reader.StopJob(t.Context(), connect.NewRequest(&apiv1.StopJobRequest{Job: "web"})); err == nil {
			t.Fatal("it was not refused")
		}
	}
	if got := readAudit(t, s.as(pki.RoleAdmin), &apiv1.ReadAuditRequest{}); len(got) != 60 {
		t.Errorf("%d entries of 70 refusals, want 60", len(got))
	}
}
