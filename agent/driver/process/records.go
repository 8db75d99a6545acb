package process

import (
	"time"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/core/cgroup"
)

// An intent is the content of spec.json: all that the shim needs, decided by the driver. It holds the task's environment, secrets included,
// so the file is its owner's alone.
type intent struct {
	// Version is that of this record; a shim refuses what is newer than it.
	Version int         `json:"v"`
	Spec    driver.Spec `json:"spec"`
	// Mark is a random word of this start; who does not know it is not talking about this start.
	Mark string `json:"mark"`
	// Path is the executable.
	Path string `json:"path"`
	// Env is the whole environment.
	Env []string `json:"env"`
	// Dir is the working directory.
	Dir string `json:"dir"`
	// Credential is set if the task runs as somebody else than the agent.
	Credential *credential `json:"credential,omitempty"`
	// Settings are what the task says to this driver.
	Settings settings  `json:"settings"`
	Log      LogLimits `json:"log"`
	// Group is the task's control group; without one its processes are found by their descent and mark alone.
	Group cgroup.Group `json:"group,omitzero"`
	// Unenforced is the handle's.
	Unenforced []string `json:"unenforced,omitempty"`

	limits cgroup.Limits // with which Group is to be made
}

// intentVersion is the newest version of an intent. The first had no number, and 2 came with control groups and limits, which an older shim would not see.
const intentVersion = 2

// A credential is a user with exactly these groups.
type credential struct {
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups"`
}

// A shimRecord is the content of shim.json.
type shimRecord struct {
	Mark string   `json:"mark"`
	Shim identity `json:"shim"`
	// Task is zero until the task was started.
	Task    identity  `json:"task"`
	Started time.Time `json:"started,omitzero"`
}

// handleData is what the driver keeps in a driver.Handle.
type handleData struct {
	Mark string `json:"mark"`
}

// readyMessage is what a shim tells its parent, once, over descriptor 3.
type readyMessage struct {
	// Rejected is set if the task cannot run here; Code and Reason are then those of a driver.RejectedError.
	Rejected bool   `json:"rejected,omitempty"`
	Code     string `json:"code,omitempty"`
	Reason   string `json:"reason,omitempty"`
	// Err is any other reason for which the task was not started.
	Err string `json:"err,omitempty"`
}

// The operations of a request.
const (
	opPing = "ping"
	opStop = "stop"
	opWait = "wait"
)

// protocolVersion is that of requests and answers: a shim outlives the binary that it was started from.
const protocolVersion = 1

// A request is one line of JSON to a shim.
type request struct {
	Version int    `json:"v"`
	Op      string `json:"op"`
	TaskID  string `json:"task_id"`
	Mark    string `json:"mark"`
	// Signal and Grace belong to opStop.
	Signal string        `json:"signal,omitempty"`
	Grace  time.Duration `json:"grace_ns,omitempty"`
}

// An answer is one line of JSON from a shim. opWait gets two: one at once, and one with Exit.
type answer struct {
	Version int          `json:"v"`
	TaskID  string       `json:"task_id"`
	Mark    string       `json:"mark"`
	Shim    identity     `json:"shim"`
	Err     string       `json:"err,omitempty"`
	Exit    *driver.Exit `json:"exit,omitempty"`
}
