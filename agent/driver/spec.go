package driver

import (
	"encoding/json"
	"time"
)

// Spec is all that a driver needs to run one task.
type Spec struct {
	// TaskID names the task, for ever: "web/3/42". Any text; required.
	TaskID string `json:"task_id"`
	// Command is the program and its arguments. A program without a slash is looked up in the task's PATH.
	Command []string `json:"command,omitempty"`
	// Env is added to the small environment which the driver gives to every task, and wins over it.
	Env map[string]string `json:"env,omitempty"`
	// Dir is the working directory; empty: one of the task's own, deleted by Remove.
	Dir string `json:"dir,omitempty"`
	// User is who the task runs as: a name or number, with ":group" if not the user's own. Empty: who the agent runs as.
	User string `json:"user,omitempty"`
	// StopSignal is the name of the signal that asks the task to end, with or without SIG; empty: TERM.
	StopSignal string `json:"stop_signal,omitempty"`
	// StopGrace is the time to end in when the machine, and not the agent, asks for it; zero: 10 s.
	StopGrace time.Duration `json:"stop_grace_ns,omitempty"`
	// Resources are the task's reservations.
	Resources Resources `json:"resources,omitzero"`
	// Ports are what the task was granted of the machine's ports. A task in a network of its own gets them published.
	Ports []Port `json:"ports,omitempty"`
	// Health is how the job wants the task's health found out; nil: it says nothing.
	Health *HealthCheck `json:"health,omitempty"`
	// Labels say what the task is part of, for people who look at the machine: "job", "slot", "node", "cluster".
	Labels map[string]string `json:"labels,omitempty"`
	// Secrets are files that the task is given to read.
	Secrets Secrets `json:"secrets,omitzero"`
	// Settings are words for this driver only.
	Settings map[string]string `json:"settings,omitempty"`
}

// Resources are what was reserved for a task. Where the machine can, a driver holds the task to them: its share of the processors is as large as CPUMilli
// when they are short, and with more memory than MemoryBytes it is ended. Fingerprint.Attributes say what can be held to here, as "driver.NAME.memory" and
// "driver.NAME.cpu", each "enforced" or "unenforced".
type Resources struct {
	// CPUMilli is in thousandths of a core; 0: nothing is reserved.
	CPUMilli int64 `json:"cpu_milli,omitempty"`
	// MemoryBytes is in bytes; 0: nothing is reserved, and nothing limited.
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
}

// Port is one of the machine's ports that a task was granted.
type Port struct {
	// Name is the job's for it.
	Name string `json:"name"`
	// Number is where the machine is reached.
	Number uint16 `json:"number"`
}

// HealthCheck says how a task's health is found out.
type HealthCheck struct {
	// Exec is a program that succeeds if the task is healthy, to be run where the task runs. Empty: the agent checks from outside, and the driver need not.
	Exec []string `json:"exec,omitempty"`
	// Interval, Timeout and StartPeriod are the job's: between two checks, of one, and after the start, while failures do not count.
	Interval    time.Duration `json:"interval_ns,omitempty"`
	Timeout     time.Duration `json:"timeout_ns,omitempty"`
	StartPeriod time.Duration `json:"start_period_ns,omitempty"`
	// Retries is how many failures in a row are final.
	Retries int `json:"retries,omitempty"`
}

// DefaultStopGrace is what a zero Spec.StopGrace means.
const DefaultStopGrace = 10 * time.Second

// Grace is StopGrace, or the default.
func (s *Spec) Grace() time.Duration {
	if s.StopGrace > 0 {
		return s.StopGrace
	}
	return DefaultStopGrace
}

// Handle is how the agent names a task to its driver. It is kept as JSON.
type Handle struct {
	// Driver is the name of the driver that made it.
	Driver string `json:"driver"`
	// TaskID is the spec's.
	TaskID string `json:"task_id"`
	// Data belongs to the driver. A handle without it is valid: it finds what was started but not yet written down when the agent died.
	Data json.RawMessage `json:"data,omitempty"`
	// Unenforced says, for people, what the spec asks for and this machine does not enforce, each with its reason; the task runs all the same.
	Unenforced []string `json:"unenforced,omitempty"`
}

// State is what a driver knows of a task.
type State string

// The states of a task as its driver sees it.
const (
	// StateAbsent: nothing is known here under this id.
	StateAbsent State = "absent"
	// StateNotStarted: an intent or leftovers, and certainly nothing ever ran.
	StateNotStarted State = "not_started"
	// StateRunning: it runs and is watched.
	StateRunning State = "running"
	// StateExited: it has ended and its exit record is known.
	StateExited State = "exited"
	// StateOrphaned: it was started, or may have been, and nothing watches it any more. Whether parts of it still run is not known; its
	// exit code never will be. Stop and Wait both end what is left.
	StateOrphaned State = "orphaned"
)

// Status is a driver's answer about one task.
type Status struct {
	// State is always set.
	State State `json:"state"`
	// Started is when it began to run, in wall time; zero if not known.
	Started time.Time `json:"started,omitzero"`
	// Exit is set in StateExited.
	Exit *Exit `json:"exit,omitempty"`
	// Message adds what people should know, such as why a task is orphaned.
	Message string `json:"message,omitempty"`
}

// Listed is one task that exists here.
type Listed struct {
	Handle Handle
	Status Status
}

// ExitUnknown is the Exit.Code of a task of which nobody saw the end.
const ExitUnknown = -1

// Exit is how a task ended.
type Exit struct {
	// Code is the exit code; 128 + n for signal n; ExitUnknown if nobody saw it, and then Err says why.
	Code int `json:"code"`
	// Signal is the name of the signal that ended it, without SIG; empty if it ended by itself.
	Signal string `json:"signal,omitempty"`
	// OOM is true if it is certain that the kernel killed a process of the task for want of memory: by its counter, never by the exit code. The task may
	// have ended by itself thereafter.
	OOM bool `json:"oom,omitempty"`
	// Started and Finished are in wall time; Started is zero if not known.
	Started  time.Time `json:"started,omitzero"`
	Finished time.Time `json:"finished"`
	// Err says what went wrong around the task, not in it: its end was not seen, or parts of it could not be killed.
	Err string `json:"err,omitempty"`
}
