package api

import (
	"context"

	"connectrpc.com/connect"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// Sinks tell people of what waits for too long.
type Sinks interface {
	// Sinks returns how all of them are, in the order of the configuration.
	Sinks() []*apiv1.Sink
	// Test has those of these names, or all, tell that nothing is wrong. The error names a sink that there is not.
	Test(ctx context.Context, names []string) ([]*apiv1.SinkTest, *UnknownSink)
}

// UnknownSink is the name of a sink that there is not.
type UnknownSink struct{ Name string }

// ListSinks returns how people are told.
func (v *service) ListSinks(context.Context, *connect.Request[apiv1.ListSinksRequest]) (*connect.Response[apiv1.ListSinksResponse], error) {
	out := &apiv1.ListSinksResponse{}
	if v.opts.Sinks != nil {
		out.Sinks = v.opts.Sinks.Sinks()
	}
	return connect.NewResponse(out), nil
}

// TestSinks has sinks tell that nothing is wrong.
func (v *service) TestSinks(ctx context.Context, req *connect.Request[apiv1.TestSinksRequest]) (*connect.Response[apiv1.TestSinksResponse], error) {
	names := req.Msg.GetSinks()
	if v.opts.Sinks == nil {
		if len(names) > 0 {
			return nil, notFound("sink", names[0], noSinks)
		}
		return connect.NewResponse(&apiv1.TestSinksResponse{}), nil
	}
	tests, unknown := v.opts.Sinks.Test(ctx, names)
	if unknown != nil {
		return nil, notFound("sink", unknown.Name, noSinks)
	}
	return connect.NewResponse(&apiv1.TestSinksResponse{Tests: tests}), nil
}

const noSinks = "notify ls lists those that there are; notify blocks of the server's configuration make them"
