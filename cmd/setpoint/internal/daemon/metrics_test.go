package daemon

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Metrics are for readers; they count what the server does.
func TestMetricsAreForReaders(t *testing.T) {
	s, stop := serve(t, testConfig(t))
	defer stop()
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	spec := cluster.JobSpec{Name: "web", Count: 2, Task: cluster.TaskSpec{Command: []string{"x"}}}.WithDefaults()
	if _, err := s.engine.Do(t.Context(), "test", engine.RunJob{Spec: spec}); err != nil {
		t.Fatal(err)
	}
	fetch := func(holder *pki.Holder) (status int, text string) {
		transport := &http.Transport{TLSClientConfig: pki.ClientTLS(holder, s.certs.Authorities().Current.Certificate()), ForceAttemptHTTP2: true}
		defer transport.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Address()+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(body)
	}
	as := func(id pki.Identity) *pki.Holder {
		pair, err := s.certs.Authorities().Current.Issue(time.Now(), id)
		if err != nil {
			t.Fatal(err)
		}
		return pki.NewHolder(pair)
	}
	if status, _ := fetch(nil); status != http.StatusUnauthorized {
		t.Errorf("without a certificate the answer is %d", status)
	}
	if status, _ := fetch(as(pki.Identity{Role: pki.RoleNode, Name: "n1", NodeID: "n1"})); status != http.StatusForbidden {
		t.Errorf("a node gets %d", status)
	}
	status, text := fetch(as(pki.Identity{Role: pki.RoleReader, Name: "prometheus"}))
	if status != http.StatusOK {
		t.Fatalf("a reader gets %d: %s", status, text)
	}
	for _, line := range []string{
		`setpoint_build_info{version="test"} 1`, `setpoint_jobs{type="replicated"} 1`, `setpoint_job_slots{job="web",state="wanted"} 2`,
		`setpoint_changes_total{kind="add_task"} 2`, `setpoint_agent_sessions 0`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("missing: %s", line)
		}
	}
	if strings.Contains(text, "setpoint_store_size_bytes 0\n") || strings.Contains(text, "setpoint_turn_commit_seconds_count 0\n") {
		t.Errorf("the store is not looked at:\n%s", text)
	}
}
