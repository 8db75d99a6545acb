package trace

import (
	"crypto/rand"
	"encoding/binary"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"github.com/setpointd/setpoint/core/engine"
)

// Options are what a Tracer is made of.
type Options struct {
	Export      Export
	SampleRatio float64 // of commands that come without a trace
	Server      Server
	Log         hclog.Logger
	Now         func() time.Time // nil: time.Now
}

// Server is what is said of the server with every export.
type Server struct {
	Service    string // its name among others
	Instance   string // which of the servers of that name it is
	Version    string
	Cluster    string // id
	Attributes map[string]string
}

// Tracer makes spans and exports them. It is safe for use by several goroutines, and never makes one wait.
type Tracer struct {
	opts  Options
	pace  pace
	queue chan *tracepb.Span

	exported, dropped atomic.Uint64
	failing           atomic.Bool
}

// queueLimit is how many spans wait to be exported. Those beyond it are dropped, and counted.
const queueLimit = 4096

// New returns a tracer. Nothing is exported before Run.
func New(opts Options) *Tracer {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Tracer{opts: opts, pace: pace{gather: gatherFor, retry: firstRetry}, queue: make(chan *tracepb.Span, queueLimit)}
}

// Status is how the export goes.
type Status struct {
	Waiting  int
	Exported uint64 // spans that were taken
	Dropped  uint64 // spans that were lost: the queue was full, or they were refused
	Failing  bool   // the last export failed
}

// Status returns how the export goes.
func (t *Tracer) Status() Status {
	return Status{Waiting: len(t.queue), Exported: t.exported.Load(), Dropped: t.dropped.Load(), Failing: t.failing.Load()}
}

// put has a span exported.
func (t *Tracer) put(s *tracepb.Span) {
	select {
	case t.queue <- s:
	default:
		t.dropped.Add(1)
	}
}

// begin returns a span of a trace that began and ended, below another one, "" below none.
func begin(trace, parent []byte, name string, from, to time.Time) *tracepb.Span {
	return &tracepb.Span{
		TraceId: trace, SpanId: newID(8), ParentSpanId: parent, Name: name, Kind: tracepb.Span_SPAN_KIND_INTERNAL, Flags: flagSampled | flagKnown,
		StartTimeUnixNano: uint64(from.UnixNano()), EndTimeUnixNano: uint64(max(to.UnixNano(), from.UnixNano())),
	}
}

// below returns a span below one of which the engine knows.
func below(t engine.Trace, name string, from, to time.Time) *tracepb.Span {
	return begin(t.ID[:], t.Span[:], name, from, to)
}

// The flags of a span: those of W3C Trace Context, and whether its parent is of another process (opentelemetry/proto/trace/v1/trace.proto, SpanFlags).
const (
	flagSampled = 0x1
	flagKnown   = 0x100
	flagRemote  = 0x200
)

// traceOf returns a span as the engine knows it, after so many turns.
func traceOf(s *tracepb.Span, turns uint8) engine.Trace {
	return engine.Trace{ID: [16]byte(s.GetTraceId()), Span: [8]byte(s.GetSpanId()), Turns: turns}
}

// newID returns a random id, which is not zero.
func newID(size int) []byte {
	for {
		id := make([]byte, size)
		_, _ = rand.Read(id) // never fails
		if slices.ContainsFunc(id, func(b byte) bool { return b != 0 }) {
			return id
		}
	}
}

// sampled decides about a new trace by its id, so that all who ask with one ratio decide alike.
func sampled(id []byte, ratio float64) bool {
	return ratio >= 1 || float64(binary.BigEndian.Uint64(id[8:])>>11) < ratio*(1<<53)
}

// sorted returns the keys of a map in order.
func sorted(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
