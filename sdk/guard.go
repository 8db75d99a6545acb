package sdk

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// The kinds of failure.
const (
	failureError   = "error"
	failurePanic   = "panic"
	failureTimeout = "timeout"
)

// panicError is a panic of an author's code. Owner: guard.
type panicError struct {
	value any
	at    string // file and line; "" if they are not known
	stack []byte
}

func (p *panicError) Error() string {
	text := fmt.Sprintf("panic: %v", p.value)
	if p.at != "" {
		text += " (" + p.at + ")"
	}
	return text
}

// guard calls author's code and returns its panic as an error.
func guard(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{value: v, at: panickedAt(), stack: debug.Stack()}
		}
	}()
	return f()
}

// panickedAt returns the file and line of the author's that panicked, such as plugin.go:42. It is called while the panic is recovered.
func panickedAt() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	panicked := false
	for {
		f, more := frames.Next()
		switch {
		case strings.HasPrefix(f.Function, "runtime."):
			panicked = panicked || f.Function == "runtime.gopanic"
		case panicked && f.File != "":
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
		if !more {
			return ""
		}
	}
}

// maxText limits each text that goes into a message.
const maxText = 1024

func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	return text[:maxText-3] + "..."
}

// failureOf returns an author's error, which is no stall, as a message.
func failureOf(err error) *pluginv1.Failure {
	f := &pluginv1.Failure{Kind: failureError, Message: cut(err.Error())}
	var p *panicError
	switch {
	case errors.As(err, &p):
		f.Kind = failurePanic
	case errors.Is(err, context.DeadlineExceeded):
		f.Kind = failureTimeout
	}
	return f
}

// stackOf returns the stack of a panic, or "".
func stackOf(err error) string {
	var p *panicError
	if errors.As(err, &p) {
		return string(p.stack)
	}
	return ""
}
