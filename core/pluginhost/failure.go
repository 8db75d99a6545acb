package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/setpointd/setpoint/core/pluginhost/runner"
	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// failure is why a plugin does not serve.
type failure struct {
	code cluster.Code // plugin_unavailable, plugin_timeout or plugin_invalid
	text string
	err  error // what caused it; may be nil
}

func (f *failure) Error() string { return f.text }

func (f *failure) Unwrap() error { return f.err }

func invalid(format string, args ...any) *failure {
	return &failure{code: cluster.CodePluginInvalid, text: fmt.Sprintf(format, args...)}
}

func timedOut(format string, args ...any) *failure {
	return &failure{code: cluster.CodePluginTimeout, text: fmt.Sprintf(format, args...)}
}

func unavailable(format string, args ...any) *failure {
	return &failure{code: cluster.CodePluginUnavailable, text: fmt.Sprintf(format, args...)}
}

var (
	// ErrUnknownPlugin: no plugin of that name is configured.
	ErrUnknownPlugin = errors.New("no such plugin is configured")
	// ErrAway: the plugin does not serve now.
	ErrAway = errors.New("plugin does not serve now")

	errEngine   = errors.New("engine takes nothing")
	errRestart  = errors.New("restart was asked for")
	errReplaced = errors.New("another process serves from now on")
)

// failureOf returns err as what the engine and people are told. The text says what to do where that is known.
func failureOf(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	f = &failure{code: cluster.CodePluginUnavailable, text: clean(err.Error()), err: err}
	var version *runner.VersionError
	switch {
	case errors.Is(err, runner.ErrTimeout):
		f.code = cluster.CodePluginTimeout
	case errors.Is(err, runner.ErrHandshake), errors.As(err, &version):
		f.code = cluster.CodePluginInvalid
	}
	return f
}

// callFailure says what it means that a call to a plugin failed.
func callFailure(what string, err error) *failure {
	st, _ := status.FromError(err)
	switch {
	case errors.Is(err, context.DeadlineExceeded) || st.Code() == codes.DeadlineExceeded:
		f := timedOut("%s: no answer in time", what)
		f.err = err
		return f
	case st.Code() == codes.Unimplemented:
		f := invalid("%s: it does not serve this call, which version %d of the protocol, the host's, requires (%s); %s",
			what, sdk.ProtocolVersion, clean(st.Message()), upgradePlugin)
		f.err = err
		return f
	case st.Code() == codes.InvalidArgument:
		f := invalid("%s: %s (it describes what it does not serve, or is of another release than the host, which speaks version %d of the protocol; %s)",
			what, clean(st.Message()), sdk.ProtocolVersion, upgradePlugin)
		f.err = err
		return f
	case st.Code() == codes.Internal && strings.Contains(st.Message(), "unmarshal"), st.Code() == codes.ResourceExhausted:
		f := invalid("%s: %s", what, clean(st.Message()))
		f.err = err
		return f
	}
	f := unavailable("%s: %s", what, clean(st.Message()))
	f.err = err
	return f
}

// ended says how a process ended by itself.
func ended(p Plugin, exit runner.ExitStatus) *failure {
	var b strings.Builder
	fmt.Fprintf(&b, "plugin %s (%s) %s", p.Name, p.Command.Path, exit)
	if n := len(exit.Stderr); n > 0 && exit.Panic == "" {
		fmt.Fprintf(&b, "; stderr ended with %q", strings.Join(exit.Stderr[max(0, n-3):], "\n"))
	}
	if exit.Memory > 0 {
		b.WriteString("; raise its max_memory, or find what it keeps")
	}
	b.WriteString("; it is started again")
	return unavailable("%s", clean(b.String()))
}

// CodeOf returns the code of an error that says why a plugin's process cannot be used; "" for any other.
func CodeOf(err error) cluster.Code {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code
	}
	return ""
}
