package daemon

import (
	"testing"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/datadir"
	"github.com/setpointd/setpoint/core/trace/tracetest"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	setpointv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/v1"
)

// Without a place to export to nobody is told of anything, and nothing runs.
func TestNoTelemetry(t *testing.T) {
	s, err := open(t, testConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.tracer != nil || s.follow() != nil || s.traced() != nil || s.asked() != nil || s.measuredSpans() != nil {
		t.Errorf("tracer %v, somebody is told of what is done", s.tracer)
	}
	s.exportSpans(t.Context())() // there is nothing to wait for
}

// What was done last is exported before the server ends.
func TestTelemetryUntilTheEnd(t *testing.T) {
	c := tracetest.New()
	defer c.Close()
	cfg := testConfig(t)
	cfg.Telemetry.OTLP.Endpoint, cfg.Name = c.Endpoint(), "s1"
	s, stop := serve(t, cfg)
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	api, err := client.New(client.Options{Addr: s.Address(), Pair: datadir.Dir(cfg.DataDir).AdminPair()})
	if err != nil {
		t.Fatal(err)
	}
	spec := &setpointv1.JobSpec{Name: "web", Count: 2, Task: &setpointv1.TaskSpec{Command: []string{"x"}}}
	if _, err := api.RunJob(t.Context(), connect.NewRequest(&apiv1.RunJobRequest{Spec: spec})); err != nil {
		t.Fatal(err)
	}
	api.Close()
	stop()
	names := map[string]int{}
	for _, span := range c.Spans() {
		names[span.GetName()]++
	}
	if names["setpoint.command RunJob"] != 1 || names["turn"] != 1 || names["decide"] != 1 || names["commit"] != 1 || len(names) != 4 {
		t.Errorf("spans %v\n%s", names, tracetest.Draw(c.Spans(), false))
	}
	if got := s.measuredSpans(); got == nil || got.Exported != 4 {
		t.Errorf("metrics %+v", got)
	}
	if about := tracetest.Text(c.Resource().GetAttributes()[1].GetValue()); about != "s1" {
		t.Errorf("the server is called %s", about)
	}
}
