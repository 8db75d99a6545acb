package driver

import "context"

// The interfaces below are optional on a Driver. They are found by OptionalOf, and nowhere else.

// HealthReporter is a driver that knows by itself how its tasks are.
type HealthReporter interface {
	// Health tells how the task is now. Errors: ErrNotFound.
	Health(ctx context.Context, h Handle) (Health, error)
}

// Execer is a driver that can run a further command inside a task that runs.
type Execer interface {
	// Exec runs a command where the task runs: with its environment, user, directory, limits and privileges, as far as the request says nothing else. It returns
	// the exit code, 128 + n for signal n, once the command and all that it started have ended and all their output was written. What the command leaves running
	// when it ends is killed.
	//
	// When the context ends, or the task does, the command is asked to end and soon after killed, with all that it started, and the error says which it was. So it
	// is when the process that called Exec dies, at the latest when a driver is made anew on the same data and its tasks are listed.
	//
	// Errors: ErrNotFound, ErrNotRunning, a *ExecRefusedError if nothing ran and the request is at fault, or the context's cause.
	Exec(ctx context.Context, h Handle, req ExecRequest) (code int, err error)
}

// Optional are the optional interfaces of one driver; those that it does not have are nil.
type Optional struct {
	Health HealthReporter
	Exec   Execer
}

// OptionalOf finds what a driver can do beyond Driver.
func OptionalOf(d Driver) Optional {
	var out Optional
	out.Health, _ = d.(HealthReporter)
	out.Exec, _ = d.(Execer)
	return out
}
