package engine

import (
	"errors"
	"fmt"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Kind sorts the reasons for which a command is refused.
type Kind string

// The kinds of refusal.
const (
	NotFound Kind = "not_found" // what the command names does not exist
	Conflict Kind = "conflict"  // the state is not the one that the caller saw
	Invalid  Kind = "invalid"   // the command itself is wrong; Problems says where
	Refused  Kind = "refused"   // right, but not now, or not without force

	KeyReused Kind = "key_reused" // the key of a command was used for another one
)

// OpError is why a command was refused. Nothing was changed.
type OpError struct {
	Kind     Kind
	Message  string
	Hint     string // what to do
	What     string // with NotFound: what there is none of: job, node, task, plugin, …
	Name     string // by that name
	Problems []cluster.Problem
}

func (e *OpError) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + "; " + e.Hint
}

// ErrStopped is returned by an engine that does not run any more.
var ErrStopped = errors.New("the engine has stopped")

func notFound(what, name, hint string) *OpError {
	return &OpError{Kind: NotFound, What: what, Name: name, Message: fmt.Sprintf("there is no %s %q", what, name), Hint: hint}
}

func refused(hint, format string, args ...any) *OpError {
	return &OpError{Kind: Refused, Message: fmt.Sprintf(format, args...), Hint: hint}
}
