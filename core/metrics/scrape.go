package metrics

import (
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// maxJobs limits of how many jobs there are series of their own: the first by name. A metric says how many are left out.
const maxJobs = 1000

// What is read from the state when somebody asks.
var (
	buildInfo   = describe("build_info", "1, with the server's version.", "version")
	revision    = describe("revision", "Revision of the newest committed turn.")
	queue       = describe("queue_length", "Inputs that wait for a turn.")
	sessions    = describe("agent_sessions", "Agents that are connected.")
	nodes       = describe("nodes", "Nodes that were not decommissioned, by state and availability.", "state", "availability")
	jobs        = describe("jobs", "Jobs, by type.", "type")
	tasks       = describe("tasks", "Tasks of which there is a record, by phase.", "phase")
	slots       = describe("job_slots", "Slots of a job that are wanted, up, or done.", "job", "state")
	omitted     = describe("jobs_omitted", "Jobs beyond the limit, of which there are no series of their own.")
	stalls      = describe("stalls", "Stalls now, by what waits, who says so and why.", "subject", "source", "code")
	oldest      = describe("stall_oldest_seconds", "How long the oldest stall of a code has lasted.", "code")
	jobStalled  = describe("job_stalled_seconds", "How long a job has had something that waits; absent while nothing does.", "job")
	pluginUp    = describe("plugin_up", "Whether a plugin answers.", "plugin")
	pluginStart = describe("plugin_restarts_total", "Failures of a plugin since the server's start, each followed by a start.", "plugin")
	pluginAsks  = describe("plugin_questions", "Standing questions that a plugin answers: classes of a filter, jobs of a job type.", "plugin", "kind")
	pluginTime  = describe("plugin_answer_seconds", "Time that a plugin took to answer for changed nodes; its quantiles are of the latest answers.", "plugin")
	sinkCauses  = describe("notify_causes", "Causes of stalls by sink: told and not ended, still to be told, or left out since too many are open.", "sink", "state")
	sinkSent    = describe("notify_deliveries_total", "Deliveries of a sink since the server's start, by result.", "sink", "result")
	sinkFails   = describe("notify_failing", "Whether what a sink told last has not arrived.", "sink")
	spansWait   = describe("telemetry_queue_length", "Spans that wait to be exported.")
	spansSent   = describe("telemetry_spans_total", "Spans since the server's start, by what became of them.", "result")
	spansFail   = describe("telemetry_failing", "Whether the last export of spans failed.")
	storeSize   = describe("store_size_bytes", "Size of the store on disk.")
	storeFull   = describe("store_full", "Whether there is no space, so that nothing can change.")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
}

// scrape is a prometheus.Collector that looks when it is asked.
type scrape struct{ from Sources }

// Describe implements prometheus.Collector.
func (s *scrape) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		buildInfo, revision, queue, sessions, nodes, jobs, tasks, slots, omitted, stalls, oldest, jobStalled, pluginUp, pluginStart, pluginAsks, pluginTime,
		sinkCauses, sinkSent, sinkFails, spansWait, spansSent, spansFail, storeSize, storeFull,
	} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (s *scrape) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	view := s.from.View()
	gauge(buildInfo, 1, s.from.Version)
	gauge(revision, float64(view.Revision))
	gauge(queue, float64(s.from.Queue()))
	gauge(sessions, float64(s.from.Sessions()))
	collectNodes(view, gauge)
	collectTasks(view, gauge)
	collectJobs(view, gauge)
	collectStalls(view, gauge)
	for _, p := range s.from.Plugins() {
		gauge(pluginUp, oneIf(p.Running), p.Name)
		to <- prometheus.MustNewConstMetric(pluginStart, prometheus.CounterValue, float64(p.Restarts), p.Name)
		gauge(pluginAsks, float64(p.Classes), p.Name, "class")
		gauge(pluginAsks, float64(p.Jobs), p.Name, "job")
		quantiles := make(map[float64]float64, len(p.Latency))
		for q, d := range p.Latency {
			quantiles[q] = d.Seconds()
		}
		to <- prometheus.MustNewConstSummary(pluginTime, p.Answers, p.Taken.Seconds(), quantiles, p.Name)
	}
	for _, x := range s.from.Sinks() {
		gauge(sinkCauses, float64(x.Open), x.Name, "open")
		gauge(sinkCauses, float64(x.Waiting), x.Name, "waiting")
		gauge(sinkCauses, float64(x.Omitted), x.Name, "omitted")
		to <- prometheus.MustNewConstMetric(sinkSent, prometheus.CounterValue, float64(x.Delivered), x.Name, "delivered")
		to <- prometheus.MustNewConstMetric(sinkSent, prometheus.CounterValue, float64(x.Failed), x.Name, "failed")
		gauge(sinkFails, oneIf(x.Failing), x.Name)
	}
	if x := s.from.Spans(); x != nil {
		gauge(spansWait, float64(x.Waiting))
		to <- prometheus.MustNewConstMetric(spansSent, prometheus.CounterValue, float64(x.Exported), "exported")
		to <- prometheus.MustNewConstMetric(spansSent, prometheus.CounterValue, float64(x.Dropped), "dropped")
		gauge(spansFail, oneIf(x.Failing))
	}
	disk := s.from.Store()
	gauge(storeSize, float64(disk.Size))
	gauge(storeFull, oneIf(disk.Full))
}

type emit func(d *prometheus.Desc, value float64, labels ...string)

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func collectNodes(view *engine.State, gauge emit) {
	count := map[[2]string]int{}
	for n := range view.Nodes() {
		if !n.Spec.Decommissioned {
			count[[2]string{string(n.Status.State), string(n.Spec.Availability)}]++
		}
	}
	for k, n := range count {
		gauge(nodes, float64(n), k[0], k[1])
	}
}

func collectTasks(view *engine.State, gauge emit) {
	for phase, n := range view.Phases() {
		gauge(tasks, float64(n), string(phase))
	}
}

func collectJobs(view *engine.State, gauge emit) {
	types, named := map[string]int{}, 0
	for j := range view.Jobs() {
		types[j.Control.Spec.Type]++
		if named++; named > maxJobs {
			continue
		}
		n := view.SlotCounts(j.Name)
		gauge(slots, float64(n.Wanted), j.Name, "wanted")
		gauge(slots, float64(n.Up), j.Name, "up")
		gauge(slots, float64(n.Done), j.Name, "done")
	}
	for t, n := range types {
		gauge(jobs, float64(n), t)
	}
	gauge(omitted, float64(max(0, named-maxJobs)))
}

func collectStalls(view *engine.State, gauge emit) {
	type kind struct {
		subject cluster.SubjectKind
		source  string
		code    cluster.Code
	}
	count, since, ofJob := map[kind]int{}, map[cluster.Code]time.Duration{}, map[string]time.Duration{}
	for s := range view.Stalls() {
		count[kind{s.Subject.Kind, s.Source, s.Code}]++
		age := view.Now.Sub(s.Since)
		since[s.Code] = max(since[s.Code], age)
		if job := s.Subject.Job(); job != "" {
			ofJob[job] = max(ofJob[job], age)
		}
	}
	for k, n := range count {
		gauge(stalls, float64(n), string(k.subject), k.source, string(k.code))
	}
	for code, age := range since {
		gauge(oldest, age.Seconds(), string(code))
	}
	for i, job := range slices.Sorted(maps.Keys(ofJob)) {
		if i == maxJobs {
			break
		}
		gauge(jobStalled, ofJob[job].Seconds(), job)
	}
}
