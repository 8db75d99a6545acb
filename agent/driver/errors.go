package driver

import "errors"

var (
	// ErrNotFound: the driver knows nothing of this task.
	ErrNotFound = errors.New("no such task here")
	// ErrNotStarted: there is an intent, and nothing ever ran.
	ErrNotStarted = errors.New("task was never started")
	// ErrRunning: it cannot be done while the task runs.
	ErrRunning = errors.New("task is running")
	// ErrNotRunning: it takes a task that runs.
	ErrNotRunning = errors.New("task is not running")
)

// The codes of a RejectedError and of an ExecRefusedError.
const (
	RejectBadSpec         = "bad_spec"
	RejectNoCommand       = "command_not_found"
	RejectNotExecutable   = "not_executable"
	RejectUnknownUser     = "unknown_user"
	RejectUserNotAllowed  = "user_not_allowed"
	RejectBadDirectory    = "bad_directory"
	RejectRefusedBySystem = "refused_by_system"
	// RejectNoImage: there is no such image here, or none for this agent.
	RejectNoImage = "no_image"
	// RejectUnenforced: the spec asks for what this machine cannot enforce, and the agent is configured to run nothing of the kind.
	RejectUnenforced = "unenforced"
)

// RejectedError says that a task cannot run here: nothing ran, and the same spec on the same machine would be refused again.
type RejectedError struct {
	// TaskID is the task that was refused.
	TaskID string
	// Code is one of the Reject constants.
	Code string
	// Reason is for people: what is wrong with which value.
	Reason string
}

// Error names the task and the reason.
func (e *RejectedError) Error() string {
	return "start task " + e.TaskID + ": rejected: " + e.Reason
}
