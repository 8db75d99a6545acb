package driver

import (
	"context"
	"iter"
	"time"
)

// Driver runs tasks of one kind. All methods may be called at the same time, also for one task. All of them work after the driver was
// made anew on the same data, by this process or by a later one: what a driver must know of a task lies outside the agent's memory.
type Driver interface {
	// Name is the word by which jobs choose the driver, such as "process".
	Name() string

	// Fingerprint tells what the driver can do here, as node attributes. An error means that it cannot run anything now.
	Fingerprint(ctx context.Context) (Fingerprint, error)

	// Start runs the task and returns once it runs. It starts a task id at most once, ever: for an id that is running, has ended or was
	// lost it returns the handle of that and starts nothing, until Remove. A *RejectedError means that nothing ran and that the same spec
	// would be refused again. After any other error, one of the context included, the task may or may not run: Recover tells, and Start
	// may be called again. A context that ends never ends a task.
	Start(ctx context.Context, spec Spec) (Handle, error)

	// Recover tells what became of a task, after the agent's restart above all. It changes nothing.
	Recover(ctx context.Context, h Handle) (Status, error)

	// Wait returns the exit record once nothing of the task runs any more, and again whenever it is asked until Remove. An orphaned task
	// is ended first. Errors: ErrNotFound, ErrNotStarted, or the context's.
	Wait(ctx context.Context, h Handle) (Exit, error)

	// Stop asks the task to end and returns when that was taken; Wait tells the end. Another call never extends a stop that goes on, and
	// shortens it if its grace ends sooner. Stopping what has ended or was never started does nothing. Errors: ErrNotFound.
	Stop(ctx context.Context, h Handle, req StopRequest) error

	// Remove deletes what is kept of a task that does not run: exit record, logs, directories. Removing what does not exist does nothing.
	// Errors: ErrRunning.
	Remove(ctx context.Context, h Handle) error

	// Logs yields the task's output, oldest first, and after an error ends. With Follow it goes on until the task has ended and all was
	// read. It holds resources only while it is being ranged over. Errors: ErrNotFound, or the context's.
	Logs(ctx context.Context, h Handle, req LogsRequest) iter.Seq2[LogLine, error]

	// List tells of everything that exists here under this driver's mark, running or left over, whether or not the agent has a record of
	// it, ordered by task id.
	List(ctx context.Context) ([]Listed, error)
}

// Health is a driver's own word about a running task.
type Health struct {
	// Checked is false if the driver checks nothing for this task; the other fields are then empty.
	Checked bool
	// Healthy is the outcome of the last check.
	Healthy bool
	// Failed is true if by the driver's own count the check has failed for good. Otherwise whoever asks counts.
	Failed bool
	// Message says what the check saw, for people.
	Message string
}

// The values of attributes that say whether something is enforced here.
const (
	Enforced   = "enforced"
	Unenforced = "unenforced"
)

// Fingerprint is what a driver finds out about this machine.
type Fingerprint struct {
	// Attributes are node attributes by their full name, such as "driver.process.user_switch" = "true".
	Attributes map[string]string
}

// StopRequest says how a task should end.
type StopRequest struct {
	// Signal is a signal's name, with or without SIG; empty: the spec's.
	Signal string
	// Grace is how long the task may take after the signal before all that belongs to it is killed. Zero or less kills at once, without
	// the signal.
	Grace time.Duration
}
