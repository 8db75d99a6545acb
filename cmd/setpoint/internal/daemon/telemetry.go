package daemon

import (
	"context"

	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/metrics"
	"github.com/setpointd/setpoint/core/pluginhost"
	"github.com/setpointd/setpoint/core/trace"
)

// newTracer returns what exports spans as the configuration says, nil if it says nothing. Then nobody is told of anything.
func (s *Server) newTracer(clusterID string) *trace.Tracer {
	t := &s.opts.Config.Telemetry
	if t.OTLP.Endpoint == "" {
		return nil
	}
	return trace.New(trace.Options{
		Export: trace.Export{
			Endpoint: t.OTLP.Endpoint, HeadersFile: t.OTLP.HeadersFile, CA: t.OTLP.TLS.CA, Cert: t.OTLP.TLS.Cert, Key: t.OTLP.TLS.Key, Timeout: t.OTLP.Timeout,
		},
		SampleRatio: t.SampleRatio,
		Server:      trace.Server{Service: t.Service, Instance: s.opts.Config.Name, Version: s.opts.Version, Cluster: clusterID, Attributes: t.Attributes},
		Log:         s.opts.Log.Named("telemetry"),
	})
}

// exportSpans exports spans until it is stopped, which is after all that is told of in them. It returns what stops it and waits for the last of them.
func (s *Server) exportSpans(ctx context.Context) (stop func()) {
	if s.tracer == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.tracer.Run(ctx) // it has no error: what fails is logged and counted
	}()
	return func() {
		cancel()
		<-ended
	}
}

// follow is told of calls; nil: nobody is.
func (s *Server) follow() func(api.Call) api.FollowedCall {
	if s.tracer == nil {
		return nil
	}
	return func(c api.Call) api.FollowedCall {
		if span := s.tracer.Command(trace.Command(c)); span != nil {
			return followedCall{span}
		}
		return nil
	}
}

type followedCall struct{ *trace.CommandSpan }

// Ended implements api.FollowedCall.
func (f followedCall) Ended(code api.Code, replayed bool) { f.End(string(code), replayed) }

// traced is told of turns; nil: nobody is.
func (s *Server) traced() func(*engine.TracedTurn) engine.Trace {
	if s.tracer == nil {
		return nil
	}
	return func(x *engine.TracedTurn) engine.Trace {
		last := s.backend.Stats().Last // the one that commits is the one that calls
		return s.tracer.Turn(x, trace.Written{Bytes: last.Bytes, Sync: last.Sync})
	}
}

// asked is told of questions to plugins; nil: nobody is.
func (s *Server) asked() func(engine.Trace, pluginhost.Question) pluginhost.Asked {
	if s.tracer == nil {
		return nil
	}
	return func(because engine.Trace, q pluginhost.Question) pluginhost.Asked {
		return followedQuestion{s.tracer.Question(because, trace.Question{Plugin: q.Plugin, Kind: string(q.Kind), Count: q.Count, Names: q.Names})}
	}
}

type followedQuestion struct{ *trace.QuestionSpan }

// Ended implements pluginhost.Asked.
func (f followedQuestion) Ended(o pluginhost.Outcome) { f.End(string(o)) }

// measuredSpans returns how the export of spans goes, as metrics have it; nil: there is none.
func (s *Server) measuredSpans() *metrics.Spans {
	if s.tracer == nil {
		return nil
	}
	x := s.tracer.Status()
	return &metrics.Spans{Waiting: x.Waiting, Exported: x.Exported, Dropped: x.Dropped, Failing: x.Failing}
}
