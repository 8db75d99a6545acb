package trace

import (
	"time"

	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"github.com/setpointd/setpoint/core/engine"
)

// Question is what a plugin is asked because of a turn.
type Question struct {
	Plugin string
	Kind   string   // class, job, drain or node
	Count  int      // of the classes, jobs or nodes
	Names  []string // of the first of them, where they have names
}

// QuestionSpan is the span of a question that is not answered yet.
type QuestionSpan struct {
	tracer *Tracer
	span   *tracepb.Span
	began  time.Time
	about  attributes
	turns  uint8
}

// answered is the outcome of a question with which nothing is wrong, and so are these.
const (
	answered  = "answered"
	stalled   = "stall"
	withdrawn = "withdrawn"
)

// Question begins the span of a question. A server asks plugins in the traces of commands only, so it is never nil.
func (t *Tracer) Question(because engine.Trace, q Question) *QuestionSpan {
	now := t.opts.Now()
	out := &QuestionSpan{tracer: t, span: below(because, "plugin question "+q.Plugin, now, now), began: now, turns: because.Turns}
	out.span.Kind = tracepb.Span_SPAN_KIND_CLIENT
	out.about.text("setpoint.plugin", q.Plugin)
	out.about.text("setpoint.question.kind", q.Kind)
	switch q.Kind {
	case "class":
		out.about.number("setpoint.question.classes", int64(q.Count))
	case "job":
		out.about.number("setpoint.question.jobs", int64(q.Count))
		out.about.texts("setpoint.question.job_names", q.Names)
	default:
		out.about.number("setpoint.question.nodes", int64(q.Count))
		out.about.texts("setpoint.question.node_names", q.Names)
	}
	return out
}

// Trace is that of which is part what the plugin answers.
func (s *QuestionSpan) Trace() engine.Trace { return traceOf(s.span, s.turns) }

// End ends the span with how the question ended.
func (s *QuestionSpan) End(outcome string) {
	s.span.EndTimeUnixNano = s.span.GetStartTimeUnixNano() + uint64(max(s.tracer.opts.Now().Sub(s.began), 0))
	switch outcome {
	case answered, stalled, withdrawn:
	default:
		s.span.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: outcome}
	}
	s.about.text("setpoint.question.outcome", outcome)
	s.span.Attributes = s.about
	s.tracer.put(s.span)
}
