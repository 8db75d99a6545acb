package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// The exit codes, which scripts rely on.
const (
	exitDone    = 0
	exitError   = 1
	exitRefused = 2 // what was asked for is wrong, or not allowed as things are
	exitStalled = 3 // it cannot advance, or not within the time that was given
	exitFailed  = 4 // it failed, or was rolled back
)

// failure is an error with what to do next and the code with which the command ends.
type failure struct {
	code int
	text string
	hint string
}

func (f *failure) Error() string { return f.text }

func refuse(hint, format string, args ...any) *failure {
	return &failure{code: exitRefused, text: fmt.Sprintf(format, args...), hint: hint}
}

// errShown ends a command with a code when all that is to be said was said already.
type errShown int

func (e errShown) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// report writes why a command ended and returns its exit code.
func report(w io.Writer, err error) int {
	var shown errShown
	var f *failure
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &shown):
		return int(shown)
	case errors.As(err, &f):
		fmt.Fprintln(w, "Error: "+err.Error())
		if f.hint != "" {
			fmt.Fprintln(w, "  "+f.hint)
		}
		return f.code
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(w, "Interrupted: what was asked for goes on.")
		return exitError
	}
	fmt.Fprintln(w, "Error: "+err.Error())
	return exitError
}

// unreachable reports whether a call got no answer from the server, so that it may be tried again.
func unreachable(err error) bool {
	return client.IsLost(err) || connect.CodeOf(err) == connect.CodeDeadlineExceeded
}

// refusal turns the error of a call into one for people.
func refusal(addr string, err error) error {
	var ce *connect.Error
	if !errors.As(err, &ce) || errors.Is(err, context.Canceled) {
		return err
	}
	f := &failure{code: exitError, text: ce.Message()}
	detail := client.Detail(err)
	switch {
	case ce.Code() == connect.CodeUnauthenticated && strings.Contains(ce.Message(), pki.ErrRevoked.Error()): // which says what to do
	case ce.Code() == connect.CodeUnauthenticated && slices.Contains([]string{pki.ErrTokenRefused.Error(), pki.ErrTokenExpired.Error()}, ce.Message()):
		f.hint = "A token to log in with serves once, for an hour unless its maker said otherwise: an administrator makes another with `setpoint token create --role operator`."
	case ce.Code() == connect.CodeUnauthenticated || ce.Code() == connect.CodePermissionDenied:
		f.hint = "--data-dir names the folder with a credential that may do this."
	case detail != nil:
		f.hint = detail.GetHint()
		if detail.GetCode() == "invalid" || detail.GetCode() == "refused" {
			f.code = exitRefused
		}
		if all := detail.GetProblems(); len(all) > 0 {
			f.text = withoutProblem(f.text, all[0])
			for _, p := range all {
				f.text += "\n" + problemText(p)
			}
		}
	case ce.Code() == connect.CodeInternal && strings.Contains(ce.Message(), "invalid UTF-8"): // it was never sent
		f.code, f.text, f.hint = exitRefused, "an argument is not valid UTF-8", "Names, labels and texts are UTF-8."
	case errors.Is(err, io.ErrUnexpectedEOF):
		f.text = fmt.Sprintf("the server at %s broke off in the middle of its answer", addr)
		f.hint = "It may have ended: `setpoint status` shows how it is."
	case unreachable(err):
		f.text = fmt.Sprintf("no answer from the server at %s: %s", addr, ce.Message())
		f.hint = "Does it run? `setpoint dev` and `setpoint server` start one; --addr says where it is."
	default:
		f.hint = "`setpoint status` shows how the server is."
	}
	return &callError{f, err}
}

// withoutProblem returns a message without the first problem, which it names for those who do not read the list that follows here.
func withoutProblem(message string, first *apiv1.Problem) string {
	text := cluster.Problem{Path: first.GetPath(), Summary: first.GetSummary(), Detail: first.GetDetail()}.String()
	if before, _, named := strings.Cut(message, ": "+text); named {
		return before
	}
	return message
}

func problemText(p *apiv1.Problem) string {
	text := "  " + p.GetSummary()
	if p.GetPath() != "" {
		text = "  " + p.GetPath() + ": " + p.GetSummary()
	}
	if p.GetDetail() != "" {
		text += "\n    " + p.GetDetail()
	}
	return text
}
