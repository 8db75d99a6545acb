package dispatch

import (
	"errors"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
)

// How sessions end that nothing is wrong with.
var (
	errStopping   = errors.New("the server is stopping")
	errSuperseded = errors.New("a newer session of this node has begun")
	errTaken      = errors.New("another agent has a session with this node's certificate: a data directory serves one agent, and a copy of it is none of its own")
	errLeft       = errors.New("the node was told to leave")
	errHungUp     = errors.New("the agent ended the session")
)

// ErrNoSession is returned for a node whose agent has no session with this server.
var ErrNoSession = errors.New("the node's agent is not connected")

// ErrLogsBusy is returned when a node serves as many log streams as it may.
var ErrLogsBusy = errors.New("too many log streams are open on the node")

// ErrExecBusy is returned when as many commands run inside a node's tasks as may.
var ErrExecBusy = errors.New("too many commands run inside tasks of the node")

// ErrExecSilent ends a command about which the node's agent says nothing.
var ErrExecSilent = errors.New("the node's agent does not say that it has begun: it may be of a version that cannot run commands inside tasks")

// ErrLogsSlow ends a log stream whose reader did not take what came.
var ErrLogsSlow = errors.New("the log was not read as fast as it came; ask for fewer lines")

// asConnect gives an error the code by which a client can tell what to do.
func asConnect(err error) error {
	var coded *connect.Error
	if err == nil || errors.As(err, &coded) {
		return err
	}
	return connect.NewError(codeOf(err), err)
}

func codeOf(err error) connect.Code {
	var op *engine.OpError
	switch {
	case errors.As(err, &op):
		return codeOfKind(op.Kind)
	case errors.Is(err, errStopping), errors.Is(err, engine.ErrStopped):
		return connect.CodeUnavailable
	case errors.Is(err, errSuperseded), errors.Is(err, errTaken):
		return connect.CodeAborted
	case errors.Is(err, pki.ErrTokenRefused), errors.Is(err, pki.ErrTokenExpired), errors.Is(err, pki.ErrNoCertificate),
		errors.Is(err, pki.ErrNotIssued), errors.Is(err, pki.ErrRevoked):
		return connect.CodeUnauthenticated
	}
	return connect.CodeInternal
}

func codeOfKind(kind engine.Kind) connect.Code {
	switch kind {
	case engine.NotFound:
		return connect.CodeNotFound
	case engine.Conflict:
		return connect.CodeAborted
	case engine.Invalid:
		return connect.CodeInvalidArgument
	case engine.Refused:
		return connect.CodeFailedPrecondition
	}
	return connect.CodeInternal
}
