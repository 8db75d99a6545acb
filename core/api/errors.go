package api

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/engine"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// ErrCompacted says that turns which were asked for were dropped: take the state instead.
var ErrCompacted = errors.New("the events of that time are not kept any more")

// errAhead says that turns were asked for which have not been made: take the state instead.
var errAhead = errors.New("and may have been restored from a backup")

// errSlow ends a watch whose client does not take what comes.
var errSlow = errors.New("the watch fell too far behind")

// refusal is what a caller is told: a code for programs, what to do, and what is wrong with the request.
type refusal struct {
	code     connect.Code
	word     Code
	hint     string
	problems []cluster.Problem
}

// asConnect turns an error into what the caller is told. An error that is of Connect already is left as it is.
func asConnect(err error) error {
	var coded *connect.Error
	if errors.As(err, &coded) {
		return withDetail(coded, err)
	}
	r := refusalOf(err)
	out := connect.NewError(r.code, errors.New(message(err)))
	detail := &apiv1.ErrorDetail{Code: string(r.word), Hint: r.hint}
	for _, p := range r.problems {
		detail.Problems = append(detail.Problems, &apiv1.Problem{Path: p.Path, Summary: p.Summary, Detail: p.Detail})
	}
	if d, err := connect.NewErrorDetail(detail); err == nil {
		out.AddDetail(d)
	}
	return out
}

// withDetail gives an error of Connect's the detail that every refusal has, if it is one of ours and has none. Others are left as they are.
func withDetail(coded *connect.Error, err error) error {
	detail := &apiv1.ErrorDetail{}
	switch coded.Code() {
	case connect.CodeUnauthenticated:
		detail.Code, detail.Hint = string(CodeNobody), "show a certificate of this cluster that has neither expired nor been revoked; setpoint login gives one"
	case connect.CodePermissionDenied:
		detail.Code, detail.Hint = string(CodeForbidden), "use a credential of a role that may do this"
	case connect.CodeUnimplemented:
		detail.Code, detail.Hint = string(CodeNotOffered), "ask another server, or configure this one so"
	case connect.CodeInternal:
		detail.Code, detail.Hint = string(CodeInternal), seeLog
	default:
		return err
	}
	if len(coded.Details()) > 0 {
		return err
	}
	if d, failed := connect.NewErrorDetail(detail); failed == nil {
		coded.AddDetail(d)
	}
	return err
}

const seeLog = "see the server's log"

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
	var unwritten *auditError
	switch {
	case errors.As(err, &command):
		return refusal{code: connect.CodeFailedPrecondition, word: Code(command.code), hint: command.hint}
	case errors.As(err, &plugin):
		return refusal{code: connect.CodeAborted, word: Code(plugin.Code), hint: plugin.Hint}
	case errors.As(err, &op):
		r := refusal{code: codeOf(op.Kind), word: Code(op.Kind), hint: op.Hint, problems: op.Problems}
		if r.code == connect.CodeInternal {
			r.word = CodeInternal
		}
		return r
	case errors.Is(err, ErrCompacted), errors.Is(err, errAhead):
		return refusal{code: connect.CodeOutOfRange, word: CodeCompacted, hint: "list again, and watch from the revision that the list has"}
	case errors.Is(err, ErrFull):
		return refusal{code: connect.CodeResourceExhausted, word: CodeNoSpace, hint: "free space on the server's disk; a command that waited for it may be carried out then"}
	case errors.As(err, &unwritten):
		return refusal{code: connect.CodeResourceExhausted, word: CodeAuditUnavailable, hint: "see to audit.log on the server's disk; with audit { on_failure = \"continue\" } it goes on without"}
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT): // of a file beside the store
		return refusal{code: connect.CodeResourceExhausted, word: CodeNoSpace, hint: "free space on the server's disk and try again; nothing was changed"}
	case errors.Is(err, errSlow):
		return refusal{code: connect.CodeResourceExhausted, word: CodeTooSlow, hint: "list again and watch from that revision"}
	case errors.Is(err, engine.ErrStopped):
		return refusal{code: connect.CodeUnavailable, word: CodeUnknown, hint: "try again"}
	case errors.Is(err, context.Canceled):
		return refusal{code: connect.CodeCanceled, word: CodeUnknown}
	case errors.Is(err, context.DeadlineExceeded):
		return refusal{code: connect.CodeDeadlineExceeded, word: CodeUnknown, hint: "the command may have been carried out or not; look before trying again"}
	}
	return refusal{code: connect.CodeInternal, word: CodeInternal, hint: seeLog}
}

func codeOf(kind engine.Kind) connect.Code {
	switch kind {
	case engine.NotFound:
		return connect.CodeNotFound
	case engine.Conflict:
		return connect.CodeAborted
	case engine.Invalid, engine.KeyReused:
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
