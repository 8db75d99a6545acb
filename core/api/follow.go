package api

import (
	"context"
	"errors"
	"strings"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/engine"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/proto/setpoint/api/v1/apiv1connect"
)

// The headers by which a caller says of which trace a call is part (w3.org/TR/trace-context).
const (
	HeaderTraceParent = "Traceparent"
	HeaderTraceState  = "Tracestate"
)

// Call is a call that changes something, for whoever follows it.
type Call struct {
	Procedure string            // as people say it, such as RunJob
	Role      string            // of the caller
	About     map[string]string // what it is about, by names: job, node, nodes, task, plugin
	DryRun    bool
	Parent    string // the caller's headers; "": it sent none
	State     string
}

// FollowedCall is a call that somebody follows.
type FollowedCall interface {
	// Trace is that of which is part what the call brings about.
	Trace() engine.Trace
	// Ended says how the call ended: with a code, which is "" for one that was carried out, and whether that was before, under its key. It is called once.
	Ended(code Code, replayed bool)
}

// named are the fields of requests whose value is a name.
var named = [...]string{"job", "node", "nodes", "task", "plugin"}

// follower has calls followed that change something, in front of everything that is done for them. Calls of those who may not make them are nobody's business.
type follower struct {
	follow func(Call) FollowedCall
}

// WrapUnary implements connect.Interceptor.
func (f follower) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		spec := req.Spec()
		if !audited(spec) || !strings.HasPrefix(spec.Procedure, "/"+apiv1connect.ApiServiceName+"/") || allow(ctx, spec.Procedure) != nil {
			return next(ctx, req)
		}
		call := Call{
			Procedure: callName(spec.Procedure), Role: string(callerOf(ctx).Identity.Role), About: map[string]string{}, DryRun: isDryRun(req.Any()),
			Parent: single(req.Header().Values(HeaderTraceParent)), State: strings.Join(req.Header().Values(HeaderTraceState), ","),
		}
		about := aboutOf(req.Any())
		for _, name := range named {
			if v := about[name]; v != "" {
				call.About[name] = v
			}
		}
		followed := f.follow(call)
		if followed == nil {
			return next(ctx, req)
		}
		res, err := next(engine.WithTrace(ctx, followed.Trace()), req)
		followed.Ended(codeSaid(err), err == nil && res.Header().Get(HeaderAgain) != "")
		return res, err
	}
}

// single returns what a header says that may be there once.
func single(values []string) string {
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

// codeSaid returns the code that a caller is told.
func codeSaid(err error) Code {
	if err == nil {
		return ""
	}
	if coded, ok := errors.AsType[*connect.Error](err); ok {
		for _, d := range coded.Details() {
			if v, err := d.Value(); err == nil {
				if detail, ok := v.(*apiv1.ErrorDetail); ok {
					return Code(detail.GetCode())
				}
			}
		}
	}
	return Code(connect.CodeOf(err).String())
}

// WrapStreamingHandler implements connect.Interceptor. What is said in a stream is no command.
func (f follower) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// WrapStreamingClient implements connect.Interceptor; nobody is followed at clients.
func (f follower) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}
