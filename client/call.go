package client

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/proto/setpoint/api/v1/apiv1connect"
)

// The headers by which a command is made once, or for one version of a job; see docs/API.md.
const (
	headerKey     = "Idempotency-Key"
	headerIfMatch = "If-Match"
	headerAgain   = "Idempotent-Replayed"
)

// How often a call is made that got no answer, and how long is waited before the second time; each further time twice as long.
const (
	attempts   = 6
	firstPause = 100 * time.Millisecond
)

// keyed are the calls that take a key, so that they can be made again.
var keyed = map[string]bool{
	apiv1connect.ApiServiceRunJobProcedure:           true,
	apiv1connect.ApiServiceStopJobProcedure:          true,
	apiv1connect.ApiServiceStartJobProcedure:         true,
	apiv1connect.ApiServiceRestartJobProcedure:       true,
	apiv1connect.ApiServiceScaleJobProcedure:         true,
	apiv1connect.ApiServiceRollbackJobProcedure:      true,
	apiv1connect.ApiServiceRebalanceJobProcedure:     true,
	apiv1connect.ApiServiceRemoveJobProcedure:        true,
	apiv1connect.ApiServiceControlUpdateProcedure:    true,
	apiv1connect.ApiServiceStopTaskProcedure:         true,
	apiv1connect.ApiServiceSetAvailabilityProcedure:  true,
	apiv1connect.ApiServiceLabelNodeProcedure:        true,
	apiv1connect.ApiServiceDecommissionNodeProcedure: true,
	apiv1connect.ApiServiceRemoveNodeProcedure:       true,
	apiv1connect.ApiServiceConfirmDownProcedure:      true,
	apiv1connect.ApiServiceConfirmPluginProcedure:    true,
}

// TakesKey reports whether a call, by the name of its procedure, takes a key, under which it can be made again.
func TakesKey(procedure string) bool { return keyed[procedure] }

// once gives every command a key, unless it has one, or is only tried.
func once(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		tried, ok := req.Any().(interface{ GetDryRun() bool })
		if TakesKey(req.Spec().Procedure) && !(ok && tried.GetDryRun()) && req.Header().Get(headerKey) == "" {
			req.Header().Set(headerKey, rand.Text())
		}
		return next(ctx, req)
	}
}

// again makes a call again that got no answer, if that does no harm: it reads, or has a key. A server that was never reached is not asked again: it is not there.
func again(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		harmless := req.Spec().IdempotencyLevel == connect.IdempotencyNoSideEffects || req.Header().Get(headerKey) != ""
		pause, reached := firstPause, false
		for try := 1; ; try++ {
			res, err := next(ctx, req)
			reached = reached || !errors.Is(err, errDial)
			if !IsLost(err) || !harmless || !reached || try == attempts {
				return res, err
			}
			timer := time.NewTimer(pause)
			select {
			case <-ctx.Done():
				timer.Stop()
				return nil, err
			case <-timer.C:
			}
			pause *= 2
		}
	}
}

// IsLost reports whether a call failed because no answer came, or not all of it: there was no connection, or it broke, or the server ended. A command may have been
// carried out.
func IsLost(err error) bool {
	switch code := connect.CodeOf(err); {
	case code == connect.CodeUnavailable:
		return true
	case errors.Is(err, io.ErrUnexpectedEOF): // how Connect says that a connection broke off within a stream
		return !connect.IsWireError(err)
	case code == connect.CodeInternal: // how Connect says that one stream of a connection was broken off
		return !connect.IsWireError(err) && strings.Contains(err.Error(), "stream error: ")
	}
	return false
}

// errDial is wrapped by the error of a call for which no connection could be made.
var errDial = errors.New("no connection")

// OnlyOnce makes a request one that is carried out once under the key, whoever makes it again: a program that was started again, say, that keeps its key. Without it
// a client makes a key of its own for each command. Keys are 1 to 128 letters, digits and . _ : - of the caller's choice.
func OnlyOnce[T any](req *connect.Request[T], key string) *connect.Request[T] {
	req.Header().Set(headerKey, key)
	return req
}

// IfMatch makes a command about a job one for the version that an earlier answer showed, by that answer's ETag.
func IfMatch[T any](req *connect.Request[T], etag string) *connect.Request[T] {
	req.Header().Set(headerIfMatch, etag)
	return req
}

// Repeated reports whether an answer tells of a command that was carried out before, under the same key.
func Repeated(header http.Header) bool { return header.Get(headerAgain) != "" }

// IsConflict reports whether a command failed because its job is at another version than it was for.
func IsConflict(err error) bool { return Detail(err).GetCode() == "conflict" }
