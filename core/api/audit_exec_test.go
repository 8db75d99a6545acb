package api_test

import (
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// What a command inside a task is given may be a password: the audit log has the program alone.
func TestAuditLeavesOutWhatACommandIsGiven(t *testing.T) {
	s := serveAudit(t)
	s.engine.set(9, node("a", "n1"), job("web", 1), task("web/1/3"))
	stream := begin(t, s.as(pki.RoleOperator), t.Context(), &apiv1.TaskExecBegin{
		Task: "web/1", Command: []string{"psql", "--password=hunter2"}, Env: map[string]string{"PGPASSWORD": "letmein"},
	})
	if _, err := stream.Receive(); connect.CodeOf(err) != connect.CodeFailedPrecondition { // the task does not run
		t.Fatalf("received %v", err)
	}
	entries := readAudit(t, s.as(pki.RoleAdmin), &apiv1.ReadAuditRequest{})
	if len(entries) != 2 {
		t.Fatalf("%d entries, want that it began and how it ended: %v", len(entries), entries)
	}
	for _, e := range entries {
		if e.GetCall() != "TaskExec" || e.GetOn()["task"] != "web/1" || e.GetOn()["program"] != "psql" {
			t.Errorf("entry %v", e)
		}
		if text := e.String(); strings.Contains(text, "hunter2") || strings.Contains(text, "letmein") {
			t.Errorf("it has what the command was given: %s", text)
		}
	}
}
