package sdk

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// The errors with which a plugin ends calls. They survive the wire as details of the gRPC status: errors.Is finds them in the errors of a client that NewClient
// made, besides context.DeadlineExceeded and context.Canceled. What authors' code says travels in answers, as stalls, diagnostics and failures.
var (
	// ErrStopping: the plugin was told to stop and begins nothing any more.
	ErrStopping = errors.New("the plugin is stopping")
	// ErrProtocol: the daemon did not keep to the protocol. The error's text says where.
	ErrProtocol = errors.New("protocol violated")
	// ErrPanic: the author's code panicked. The stack is in the plugin's log.
	ErrPanic = errors.New("the plugin's code panicked")
)

// sentinels are the errors that travel, by the reason that stands for each on the wire.
var sentinels = map[string]error{"stopping": ErrStopping, "protocol": ErrProtocol, "panic": ErrPanic}

// wireError returns a call's error that carries a sentinel.
func wireError(code codes.Code, sentinel error, text string) error {
	st := status.New(code, text)
	for reason, err := range sentinels {
		if err != sentinel { //nolint:errorlint // it is looked up, not examined
			continue
		}
		if with, err := st.WithDetails(&pluginv1.CallError{Reason: reason}); err == nil {
			st = with
		}
	}
	return st.Err()
}

// fromWire makes a call's error one in which errors.Is finds the sentinel that it carries.
func fromWire(err error) error {
	if err == nil {
		return nil
	}
	st, ok := status.FromError(err)
	if !ok {
		return err
	}
	for _, d := range st.Details() {
		if c, ok := d.(*pluginv1.CallError); ok && sentinels[c.Reason] != nil {
			return &callError{sentinel: sentinels[c.Reason], err: err, status: st}
		}
	}
	switch st.Code() {
	case codes.DeadlineExceeded:
		return &callError{sentinel: context.DeadlineExceeded, err: err, status: st}
	case codes.Canceled:
		return &callError{sentinel: context.Canceled, err: err, status: st}
	}
	return err
}

// callError is a call's error with the sentinel that it stands for.
type callError struct {
	sentinel, err error
	status        *status.Status
}

func (e *callError) Error() string { return e.err.Error() }

func (e *callError) Unwrap() []error { return []error{e.sentinel, e.err} }

// GRPCStatus makes status.FromError find the status as it came.
func (e *callError) GRPCStatus() *status.Status { return e.status }

// NewClient returns a client of the plugin protocol in whose errors errors.Is finds the sentinels of this package.
func NewClient(conn grpc.ClientConnInterface) pluginv1.PluginClient {
	return pluginv1.NewPluginClient(restoring{conn})
}

// restoring restores the errors of calls.
type restoring struct{ conn grpc.ClientConnInterface }

func (r restoring) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return fromWire(r.conn.Invoke(ctx, method, args, reply, opts...))
}

func (r restoring) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := r.conn.NewStream(ctx, desc, method, opts...)
	if err != nil {
		return nil, fromWire(err)
	}
	return restoringStream{s}, nil
}

type restoringStream struct{ grpc.ClientStream }

func (s restoringStream) RecvMsg(m any) error { return fromWire(s.ClientStream.RecvMsg(m)) }

func (s restoringStream) SendMsg(m any) error { return fromWire(s.ClientStream.SendMsg(m)) }
