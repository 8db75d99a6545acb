package api

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/engine"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// ErrCompacted says that turns which were asked for were dropped: take the state instead.
var ErrCompacted = errors.New("these revisions were dropped")

// errSlow ends a watch whose client does not take what comes.
var errSlow = errors.New("the watch fell too far behind")

// refusal is what a caller is told: a code for programs, what to do, and what is wrong with the request.
type refusal struct {
	code     connect.Code
	word     string
	hint     string
	problems []cluster.Problem
}

// asConnect turns an error into what the caller is told. An error that is of Connect already is left as it is.
func asConnect(err error) error {
	var coded *connect.Error
	if errors.As(err, &coded) {
		return err
	}
	r := refusalOf(err)
	out := connect.NewError(r.code, errors.New(message(err)))
	detail := &apiv1.ErrorDetail{Code: r.word, Hint: r.hint}
	for _, p := range r.problems {
		detail.Problems = append(detail.Problems, &apiv1.Problem{Path: p.Path, Summary: p.Summary, Detail: p.Detail})
	}
	if d, err := connect.NewErrorDetail(detail); err == nil {
		out.AddDetail(d)
	}
	return out
}

// message returns an error's text without its hint, which has a field of its own.
func message(err error) string {
	var op *engine.OpError
	if errors.As(err, &op) {
		return op.Message
	}
	return err.Error()
}

func refusalOf(err error) refusal {
	var op *engine.OpError
	var plugin *PluginError
	var command *execError
	switch {
	case errors.As(err, &command):
		return refusal{code: connect.CodeFailedPrecondition, word: command.code, hint: command.hint}
	case errors.As(err, &plugin):
		return refusal{code: connect.CodeAborted, word: plugin.Code, hint: plugin.Hint}
	case errors.As(err, &op):
		r := refusal{code: codeOf(op.Kind), word: string(op.Kind), hint: op.Hint, problems: op.Problems}
		if r.code == connect.CodeInternal {
			r.word = "internal"
		}
		return r
	case errors.Is(err, ErrCompacted):
		return refusal{code: connect.CodeOutOfRange, word: "compacted", hint: "list again and watch from that revision"}
	case errors.Is(err, ErrFull):
		return refusal{code: connect.CodeResourceExhausted, word: "no_space", hint: "free space on the server's disk; a command that waited for it may be carried out then"}
	case errors.Is(err, errSlow):
		return refusal{code: connect.CodeResourceExhausted, word: "too_slow", hint: "list again and watch from that revision"}
	case errors.Is(err, engine.ErrStopped):
		return refusal{code: connect.CodeUnavailable, word: "unavailable", hint: "try again"}
	case errors.Is(err, context.Canceled):
		return refusal{code: connect.CodeCanceled, word: "unavailable"}
	case errors.Is(err, context.DeadlineExceeded):
		return refusal{code: connect.CodeDeadlineExceeded, word: "unavailable", hint: "the command may have been carried out or not; look before trying again"}
	}
	return refusal{code: connect.CodeInternal, word: "internal", hint: "see the server's log"}
}

func codeOf(kind engine.Kind) connect.Code {
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

// invalid says what is wrong with a request; nil if nothing is.
func invalid(what string, problems ...cluster.Problem) error {
	if len(problems) == 0 {
		return nil
	}
	message := what + " is not valid: " + problems[0].String()
	if more := len(problems) - 1; more > 0 {
		message = fmt.Sprintf("%s (and %d more)", message, more)
	}
	return &engine.OpError{Kind: engine.Invalid, Message: message, Problems: problems}
}

func notFound(what, name, hint string) error {
	return &engine.OpError{Kind: engine.NotFound, What: what, Name: name, Message: fmt.Sprintf("there is no %s %q", what, name), Hint: hint}
}

// do runs a command for the caller and returns its result.
func do[R any](ctx context.Context, e Engine, op engine.Op) (R, error) {
	var none R
	out, err := e.Do(ctx, author(ctx), op)
	if err != nil {
		return none, err
	}
	r, ok := out.(R)
	if !ok {
		return none, fmt.Errorf("%T: the engine answered %T", op, out)
	}
	return r, nil
}

func isNotFound(err error) bool {
	var op *engine.OpError
	return errors.As(err, &op) && op.Kind == engine.NotFound
}
