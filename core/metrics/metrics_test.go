package metrics_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/metrics"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// at returns a moment on both clocks.
func at(d time.Duration) cluster.Time {
	return cluster.Time{Engine: d, Wall: time.Unix(1_700_000_000, 0).Add(d).UnixNano()}
}

// sources are those of a small cluster: a node that is ready, one that is down, and a job of which one slot is up and one waits.
func sources() metrics.Sources {
	ready := &cluster.Node{ID: "a", Spec: cluster.NodeSpec{Name: "n1", Availability: cluster.Active}, Status: cluster.NodeStatus{State: cluster.NodeReady}}
	down := &cluster.Node{ID: "b", Spec: cluster.NodeSpec{Name: "n2", Availability: cluster.Drain}, Status: cluster.NodeStatus{State: cluster.NodeDown}}
	left := &cluster.Node{ID: "c", Spec: cluster.NodeSpec{Name: "n3", Availability: cluster.Active, Decommissioned: true}}
	job := &cluster.Job{Name: "web"}
	job.Control.Spec.Type = "replicated"
	runs := &cluster.Task{
		ID: "web/1/2", Job: "web", Slot: "1", Desired: cluster.Desired{State: cluster.DesiredRunning}, Placement: cluster.Placement{Node: "a"},
		Observed: cluster.Observed{State: cluster.Running, Healthy: true},
	}
	waits := &cluster.Task{ID: "web/2/2", Job: "web", Slot: "2", Desired: cluster.Desired{State: cluster.DesiredRunning}, Created: at(2 * time.Second)}
	state := engine.Assemble("c1", 7, at(10*time.Second), ready, down, left, job, runs, waits,
		&cluster.Slot{Job: "web", Key: "1", UpSince: at(3 * time.Second)}, &cluster.Slot{Job: "web", Key: "2"}, &cluster.Slot{Job: "web", Key: "3", Unwanted: true},
		&cluster.Stall{
			Subject: cluster.Subject{Kind: cluster.SubjectGroup, ID: "web@0"}, Source: cluster.SourcePlacement, Code: cluster.CodeConstraint,
			Since: at(4 * time.Second),
		})
	return metrics.Sources{
		Version: "1.2.3", View: func() *engine.State { return state }, Queue: func() int { return 3 }, Sessions: func() int { return 1 },
		Plugins: func() []metrics.Plugin {
			return []metrics.Plugin{{Name: "constraint", Running: true, Restarts: 2, Classes: 4, Answers: 9, Taken: 3 * time.Second, Latency: map[float64]time.Duration{0.5: time.Millisecond}}}
		},
		Sinks: func() []metrics.Sink {
			return []metrics.Sink{{Name: "oncall", Open: 2, Waiting: 3, Omitted: 4, Delivered: 5, Failed: 6, Failing: true}}
		},
		Spans: func() *metrics.Spans { return &metrics.Spans{Waiting: 7, Exported: 8, Dropped: 9, Failing: true} },
		Store: func() metrics.Store { return metrics.Store{Size: 4096} },
	}
}

// scrape returns what a handler answers.
func scrape(t *testing.T, h http.Handler) string {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if rec.Code != http.StatusOK {
		t.Fatalf("the answer is %d: %s", rec.Code, rec.Body)
	}
	return rec.Body.String()
}

func TestHowThingsAre(t *testing.T) {
	text := scrape(t, metrics.New(sources()).Handler())
	for _, line := range []string{
		`setpoint_build_info{version="1.2.3"} 1`,
		`setpoint_revision 7`,
		`setpoint_queue_length 3`,
		`setpoint_agent_sessions 1`,
		`setpoint_nodes{availability="active",state="ready"} 1`,
		`setpoint_nodes{availability="drain",state="down"} 1`,
		`setpoint_jobs{type="replicated"} 1`,
		`setpoint_tasks{phase="running"} 1`,
		`setpoint_tasks{phase="stalled"} 1`,
		`setpoint_job_slots{job="web",state="wanted"} 2`,
		`setpoint_job_slots{job="web",state="up"} 1`,
		`setpoint_job_slots{job="web",state="done"} 0`,
		`setpoint_jobs_omitted 0`,
		`setpoint_stalls{code="constraint",source="placement",subject="group"} 1`,
		`setpoint_stall_oldest_seconds{code="constraint"} 6`,
		`setpoint_job_stalled_seconds{job="web"} 6`,
		`setpoint_plugin_up{plugin="constraint"} 1`,
		`setpoint_plugin_restarts_total{plugin="constraint"} 2`,
		`setpoint_plugin_questions{kind="class",plugin="constraint"} 4`,
		`setpoint_plugin_answer_seconds{plugin="constraint",quantile="0.5"} 0.001`,
		`setpoint_plugin_answer_seconds_count{plugin="constraint"} 9`,
		`setpoint_plugin_answer_seconds_sum{plugin="constraint"} 3`,
		`setpoint_notify_causes{sink="oncall",state="open"} 2`,
		`setpoint_notify_causes{sink="oncall",state="waiting"} 3`,
		`setpoint_notify_causes{sink="oncall",state="omitted"} 4`,
		`setpoint_notify_deliveries_total{result="delivered",sink="oncall"} 5`,
		`setpoint_notify_deliveries_total{result="failed",sink="oncall"} 6`,
		`setpoint_notify_failing{sink="oncall"} 1`,
		`setpoint_telemetry_queue_length 7`,
		`setpoint_telemetry_spans_total{result="exported"} 8`,
		`setpoint_telemetry_spans_total{result="dropped"} 9`,
		`setpoint_telemetry_failing 1`,
		`setpoint_store_size_bytes 4096`,
		`setpoint_store_full 0`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("missing: %s", line)
		}
	}
	if strings.Contains(text, `state=""`) {
		t.Error("a node that left is counted")
	}
}

func TestWhatHappens(t *testing.T) {
	m := metrics.New(sources())
	m.Timed(engine.Timing{Inputs: 5, Decide: time.Millisecond})
	m.Timed(engine.Timing{Inputs: 1, Changes: 3, Decide: time.Millisecond, Commit: 2 * time.Millisecond})
	m.Committed(engine.Turn{Changes: []engine.Authored{
		{Change: cluster.SetPlacement{}},
		{Change: cluster.SetObserved{Observed: cluster.Observed{State: cluster.Running}}},
		{Change: cluster.SetObserved{Observed: cluster.Observed{State: cluster.Failed}}},
		{Change: cluster.PutStall{Stall: &cluster.Stall{Code: cluster.CodePortTaken}}},
	}})
	text := scrape(t, m.Handler())
	for _, line := range []string{
		`setpoint_turns_total 1`,
		`setpoint_inputs_total 6`,
		`setpoint_turn_decide_seconds_count 2`,
		`setpoint_turn_commit_seconds_count 1`,
		`setpoint_turn_commit_seconds_sum 0.002`,
		`setpoint_placements_total 1`,
		`setpoint_tasks_ended_total{state="failed"} 1`,
		`setpoint_stalls_begun_total{code="port_taken"} 1`,
		`setpoint_changes_total{kind="set_placement"} 1`,
		`setpoint_changes_total{kind="set_observed"} 2`,
		`setpoint_changes_total{kind="put_stall"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("missing: %s", line)
		}
	}
}

// It can be seen that the net caught nothing, and what it caught.
func TestTheNetIsCounted(t *testing.T) {
	m := metrics.New(sources())
	if text := scrape(t, m.Handler()); strings.Count(text, "\nsetpoint_net_caught_total{") != len(engine.AllMissed()) || !strings.Contains(text, `setpoint_net_caught_total{what="decision"} 0`) {
		t.Errorf("what was not caught is not told:\n%s", text)
	}
	m.Swept(engine.Swept{Round: true})
	m.Swept(engine.Swept{Caught: []engine.Caught{{What: engine.MissedUse, About: "node n1"}, {What: engine.MissedUse, About: "node n2"}}})
	text := scrape(t, m.Handler())
	for _, line := range []string{`setpoint_net_caught_total{what="use"} 2`, `setpoint_net_caught_total{what="decision"} 0`, `setpoint_net_rounds_total 1`} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("missing: %s", line)
		}
	}
}

func TestNamesFollowConventions(t *testing.T) {
	problems, err := promlint.New(strings.NewReader(scrape(t, metrics.New(sources()).Handler()))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "setpoint_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// However many jobs and tasks there are, there are not many series.
func TestSeriesAreBounded(t *testing.T) {
	from := sources()
	var records []any
	for i := range 3000 {
		name := fmt.Sprintf("job%04d", i)
		records = append(records, &cluster.Job{Name: name}, &cluster.Slot{Job: name, Key: "1"}, &cluster.Stall{
			Subject: cluster.Subject{Kind: cluster.SubjectSlot, ID: name + "/1"}, Source: cluster.SourceCore, Code: cluster.CodeRestartDelay,
		})
	}
	state := engine.Assemble("c1", 7, at(time.Second), records...)
	from.View = func() *engine.State { return state }
	text := scrape(t, metrics.New(from).Handler())
	if n := strings.Count(text, "\nsetpoint_"); n > 4200 {
		t.Errorf("there are %d series", n)
	}
	if !strings.Contains(text, "setpoint_jobs_omitted 2000\n") || !strings.Contains(text, `setpoint_stalls{code="restart_delay",source="core",subject="slot"} 3000`) {
		t.Error("what is left out is not counted")
	}
}

// The page for operators lists what there is, and nothing else.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented, have []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(setpoint_[a-z_]+)`").FindAllSubmatch(page, -1) {
		documented = append(documented, string(row[1]))
	}
	m := metrics.New(sources())
	m.Committed(engine.Turn{Changes: []engine.Authored{
		{Change: cluster.SetObserved{Observed: cluster.Observed{State: cluster.Failed}}}, {Change: cluster.PutStall{Stall: &cluster.Stall{Code: cluster.CodePortTaken}}},
	}})
	for _, row := range regexp.MustCompile(`(?m)^# TYPE (setpoint_[a-z_]+) `).FindAllStringSubmatch(scrape(t, m.Handler()), -1) {
		have = append(have, row[1])
	}
	slices.Sort(documented)
	slices.Sort(have)
	if !slices.Equal(documented, have) {
		t.Errorf("docs/METRICS.md lists\n%q, and there are\n%q", documented, have)
	}
}
