package trace

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/propagation"
	oteltrace "go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"github.com/setpointd/setpoint/core/engine"
)

// Command is a call of the API that changes something.
type Command struct {
	Procedure string            // such as RunJob
	Role      string            // of the caller
	About     map[string]string // names of what it is about, by kind
	DryRun    bool
	Parent    string // the caller's headers traceparent and tracestate; "": it sent none
	State     string
}

// CommandSpan is the span of a command that is being carried out.
type CommandSpan struct {
	tracer *Tracer
	span   *tracepb.Span
	began  time.Time
	about  attributes
}

// Command begins the span of a command. It returns nil for one of which there is to be none: the caller says so, or the sample ratio does.
func (t *Tracer) Command(c Command) *CommandSpan {
	id, parent, flags := newID(16), []byte(nil), uint32(0)
	from := contextOf(c.Parent, c.State)
	if from.IsValid() {
		if !from.IsSampled() {
			return nil
		}
		of, span := from.TraceID(), from.SpanID()
		id, parent, flags = of[:], span[:], flagRemote
	} else if !sampled(id, t.opts.SampleRatio) {
		return nil
	}
	now := t.opts.Now()
	out := &CommandSpan{tracer: t, span: begin(id, parent, "setpoint.command "+c.Procedure, now, now), began: now}
	out.span.Kind, out.span.Flags = tracepb.Span_SPAN_KIND_SERVER, out.span.GetFlags()|flags
	if parent != nil {
		out.span.TraceState = from.TraceState().String()
	}
	out.about.text("setpoint.procedure", c.Procedure)
	out.about.text("setpoint.role", c.Role)
	for _, kind := range sorted(c.About) {
		out.about.text("setpoint."+kind, c.About[kind])
	}
	out.about.flag("setpoint.dry_run", c.DryRun)
	return out
}

// Trace is that of which is part what the command brings about.
func (s *CommandSpan) Trace() engine.Trace { return traceOf(s.span, 0) }

// End ends the span. The code is why the command was not carried out, "" if it was; replayed says that it was before, under its key.
func (s *CommandSpan) End(code string, replayed bool) {
	s.span.EndTimeUnixNano = s.span.GetStartTimeUnixNano() + uint64(max(s.tracer.opts.Now().Sub(s.began), 0))
	if code != "" {
		s.span.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: code}
	} else {
		code = "ok"
	}
	s.about.text("setpoint.code", code)
	s.about.flag("setpoint.replayed", replayed)
	s.span.Attributes = s.about
	s.tracer.put(s.span)
}

// maxState is how long a caller's tracestate may be, since it waits with its span (w3.org/TR/trace-context, 3.3.1.5: at least 512 characters are passed on).
const maxState = 1024

// contextOf reads the headers by which a caller says of which trace its call is part. What cannot be read is none, and a state of which that is so, or that is too
// long, is none of its own.
func contextOf(parent, state string) oteltrace.SpanContext {
	if parent == "" {
		return oteltrace.SpanContext{}
	}
	if len(state) > maxState {
		state = ""
	}
	carrier := propagation.MapCarrier{"traceparent": parent, "tracestate": state}
	return oteltrace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}
