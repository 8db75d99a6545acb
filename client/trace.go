package client

import (
	"context"

	"connectrpc.com/connect"
)

// The headers by which a caller says of which trace a call is part (w3.org/TR/trace-context).
const (
	headerTraceParent = "Traceparent"
	headerTraceState  = "Tracestate"
)

type traceKey struct{}

// traceContext is what the headers say.
type traceContext struct{ parent, state string }

// WithTrace returns a context whose calls are part of a trace, by what the headers traceparent and tracestate of W3C Trace Context say, such as
// "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" and "". A server that exports traces continues it with what becomes of the calls; others take no
// notice. What is not of that form is no trace.
func WithTrace(ctx context.Context, parent, state string) context.Context {
	return context.WithValue(ctx, traceKey{}, traceContext{parent, state})
}

// traced sends along of which trace a call is part, unless its request says so itself.
func traced(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if t, ok := ctx.Value(traceKey{}).(traceContext); ok && t.parent != "" && req.Header().Get(headerTraceParent) == "" {
			req.Header().Set(headerTraceParent, t.parent)
			if t.state != "" {
				req.Header().Set(headerTraceState, t.state)
			}
		}
		return next(ctx, req)
	}
}
