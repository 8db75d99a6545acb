package metrics

import (
	"net/http"
	"reflect"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Sources are what is asked when somebody asks. All are required.
type Sources struct {
	Version  string
	View     func() *engine.State // the newest committed state
	Queue    func() int           // inputs that wait for a turn
	Sessions func() int           // agents that are connected
	Plugins  func() []Plugin
	Sinks    func() []Sink
	Spans    func() *Spans // nil result: none are exported
	Store    func() Store
}

// Plugin is how a plugin is.
type Plugin struct {
	Name     string
	Running  bool
	Restarts int                       // since the server's start
	Classes  int                       // that it answers for
	Jobs     int                       // that it answers for
	Answers  uint64                    // for changed nodes, since its process began to serve
	Taken    time.Duration             // by all of these
	Latency  map[float64]time.Duration // of its latest answers, by quantile
}

// Sink is how a sink is that tells people of what waits.
type Sink struct {
	Name      string
	Open      int // causes that it told and that have not ended
	Waiting   int // that it is still to tell
	Omitted   int // causes of which it does not tell, since too many are open
	Delivered uint64
	Failed    uint64
	Failing   bool
}

// Spans are how the export of spans goes.
type Spans struct {
	Waiting  int
	Exported uint64
	Dropped  uint64
	Failing  bool
}

// Store is how the store is.
type Store struct {
	Size int64 // bytes on disk; 0: it has none
	Full bool  // there is no space, and nothing can change
}

// Metrics counts what happens. It is safe for use by several goroutines.
type Metrics struct {
	registry   *prometheus.Registry
	turns      prometheus.Counter
	inputs     prometheus.Counter
	decide     prometheus.Histogram
	commit     prometheus.Histogram
	changes    *prometheus.CounterVec
	placements prometheus.Counter
	ended      *prometheus.CounterVec
	began      *prometheus.CounterVec
	caught     *prometheus.CounterVec
	rounds     prometheus.Counter
}

// turnBuckets are the bounds of the histograms, in seconds: from a tenth of a millisecond, which is a small turn, to many seconds, which is a disk in trouble.
var turnBuckets = prometheus.ExponentialBuckets(0.0001, 3, 12)

// New returns metrics that have counted nothing yet.
func New(from Sources) *Metrics {
	m := &Metrics{
		registry:   prometheus.NewRegistry(),
		turns:      counter("turns_total", "Turns that changed something and were committed."),
		inputs:     counter("inputs_total", "Inputs that turns took: commands, agents' reports and plugins' answers."),
		decide:     histogram("turn_decide_seconds", "Time to take a turn's inputs and decide."),
		commit:     histogram("turn_commit_seconds", "Time to make a turn durable, for turns that changed something."),
		changes:    counters("changes_total", "Changes to records that were committed, by kind.", "kind"),
		placements: counter("placements_total", "Tasks that were given a node."),
		ended:      counters("tasks_ended_total", "Tasks that were observed to end, by how.", "state"),
		began:      counters("stalls_begun_total", "Stalls that began or changed their reason, by code.", "code"),
		caught:     counters("net_caught_total", "Things that the engine had missed and only its slow look at everything found, by kind. It must stay 0.", "what"),
		rounds:     counter("net_rounds_total", "Times that everything was looked at once more."),
	}
	for _, what := range engine.AllMissed() {
		m.caught.WithLabelValues(string(what)) // it can be seen that it is 0
	}
	m.registry.MustRegister(
		m.turns, m.inputs, m.decide, m.commit, m.changes, m.placements, m.ended, m.began, m.caught, m.rounds,
		&scrape{from},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

const namespace = "setpoint"

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func histogram(name, help string) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: turnBuckets})
}

// Handler answers with all metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2})
}

// Timed counts how long a turn took. Turns that changed nothing are not committed, and Commit is 0.
func (m *Metrics) Timed(t engine.Timing) {
	m.inputs.Add(float64(t.Inputs))
	m.decide.Observe(t.Decide.Seconds())
	if t.Changes > 0 {
		m.commit.Observe(t.Commit.Seconds())
	}
}

// Swept counts what only the net found.
func (m *Metrics) Swept(s engine.Swept) {
	for _, c := range s.Caught {
		m.caught.WithLabelValues(string(c.What)).Inc()
	}
	if s.Round {
		m.rounds.Inc()
	}
}

// Committed counts what a turn changed.
func (m *Metrics) Committed(t engine.Turn) {
	m.turns.Inc()
	for _, a := range t.Changes {
		c := a.Change
		m.changes.WithLabelValues(kindOf(c)).Inc()
		switch c := c.(type) {
		case cluster.SetPlacement:
			m.placements.Inc()
		case cluster.SetObserved:
			if c.Observed.State.Terminal() {
				m.ended.WithLabelValues(c.Observed.State.String()).Inc()
			}
		case cluster.PutStall:
			m.began.WithLabelValues(string(c.Stall.Code)).Inc()
		}
	}
}

// kindOf names a change as its type does: a SetPlacement is a set_placement.
func kindOf(c cluster.Change) string {
	name := reflect.TypeOf(c).Name()
	out := make([]byte, 0, len(name)+2)
	for i := range len(name) {
		if letter := name[i]; letter < 'a' {
			if i > 0 {
				out = append(out, '_')
			}
			out = append(out, letter+'a'-'A')
		} else {
			out = append(out, letter)
		}
	}
	return string(out)
}
