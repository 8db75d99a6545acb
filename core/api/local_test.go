package api_test

import (
	"context"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/proto/setpoint/api/v1/apiv1connect"
)

// local returns a client within the process, for somebody of a role.
func local(t *testing.T, e *fakeEngine, events *api.Events, role pki.Role) apiv1connect.ApiServiceClient {
	t.Helper()
	authority, err := pki.NewAuthority("c1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	a, err := api.New(api.Options{
		Engine: e, Plugins: &fakePlugins{}, Logs: &fakeLogs{text: "one\ntwo\n"}, Tokens: &fakeTokens{authority: authority}, Signer: authority, Events: events, Log: hclog.NewNullLogger(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return a.ClientFor(pki.Credential{Identity: pki.Identity{ClusterID: "c1", Role: role, Name: "ann"}, Authority: authority.Fingerprint()})
}

func TestClientWithinTheProcessPassesTheGate(t *testing.T) {
	e := &fakeEngine{}
	e.set(9, node("a", "n1"), job("web", 1))
	e.answer(func(engine.Op) (any, error) { return engine.JobResult{Job: job("web", 3), Changed: true}, nil })
	reader, operator := local(t, e, api.NewEvents(9), pki.RoleReader), local(t, e, api.NewEvents(9), pki.RoleOperator)
	if res, err := reader.GetJob(t.Context(), connect.NewRequest(&apiv1.GetJobRequest{Job: "web"})); err != nil || res.Msg.GetJob().GetName() != "web" {
		t.Errorf("the job is %v, %v", res, err)
	}
	if _, err := reader.GetJob(t.Context(), connect.NewRequest(&apiv1.GetJobRequest{Job: "none"})); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("an unknown job gave %v", err)
	}
	scale := connect.NewRequest(&apiv1.ScaleJobRequest{Job: "web", Count: 3})
	if _, err := reader.ScaleJob(t.Context(), scale); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("a reader who scales got %v", err)
	}
	if _, err := operator.ScaleJob(t.Context(), scale); err != nil || e.by != "ann" {
		t.Errorf("an operator who scales got %v, as %q", err, e.by)
	}
}

func TestStreamsWithinTheProcess(t *testing.T) {
	e := &fakeEngine{}
	e.set(9, node("a", "n1"), job("web", 1), running("web/1/3", "a"))
	c := local(t, e, api.NewEvents(9), pki.RoleReader)
	logs, err := c.TaskLogs(t.Context(), connect.NewRequest(&apiv1.TaskLogsRequest{Task: "web/1"}))
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for logs.Receive() {
		text += string(logs.Msg().GetData())
	}
	if err := logs.Err(); err != nil || text != "one\ntwo\n" {
		t.Errorf("it printed %q, %v", text, err)
	}
	if err := logs.Close(); err != nil {
		t.Error(err)
	}
	// One that goes on ends with who asks.
	ctx, cancel := context.WithCancel(t.Context())
	events, err := c.WatchEvents(ctx, connect.NewRequest(&apiv1.WatchEventsRequest{Follow: true}))
	if err != nil {
		t.Fatal(err)
	}
	if !events.Receive() || events.Msg().GetRevision() != 9 {
		t.Errorf("the watch begins with %v, %v", events.Msg(), events.Err())
	}
	cancel()
	if events.Receive() {
		t.Errorf("the watch goes on with %v", events.Msg())
	}
	_ = events.Close()
}

type fakeDashboard struct {
	id     pki.Identity
	serial string
	swept  int
}

func (f *fakeDashboard) Sweep() { f.swept++ }

func (f *fakeDashboard) Invite(who pki.Credential) (string, time.Time, error) {
	f.id, f.serial = who.Identity, who.Serial
	return "https://s1:7481/login#x", time.Unix(1060, 0), nil
}

func TestOpenDashboard(t *testing.T) {
	s := serve(t, nil)
	if _, err := s.as(pki.RoleReader).OpenDashboard(t.Context(), connect.NewRequest(&apiv1.OpenDashboardRequest{})); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("without a dashboard it gave %v", err)
	}
	f := &fakeDashboard{}
	s = serve(t, func(o *api.Options) { o.Dashboard = f })
	res, err := s.as(pki.RoleReader).OpenDashboard(t.Context(), connect.NewRequest(&apiv1.OpenDashboardRequest{}))
	if err != nil || res.Msg.GetUrl() != "https://s1:7481/login#x" || res.Msg.GetExpires().GetSeconds() != 1060 || f.id.Name != "someone" || f.id.Role != pki.RoleReader {
		t.Errorf("it gave %v, %v for %v", res, err, f.id)
	}
	if _, err := s.as(pki.RoleNode).OpenDashboard(t.Context(), connect.NewRequest(&apiv1.OpenDashboardRequest{})); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("a node got %v", err)
	}
}
