package cluster

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Revision counts the turns of the engine that were committed. It survives a change of store.
type Revision uint64

// TaskID is JOB/SLOT/R, where R is the revision of the turn that made the task; so no id is ever used twice.
type TaskID string

// SlotKey names a slot within its job: a number, a node id, or a key of a plugin's own.
type SlotKey string

// NewTaskID returns the id of the task that the turn at revision r makes in a slot.
func NewTaskID(job string, slot SlotKey, r Revision) TaskID {
	return TaskID(job + "/" + string(slot) + "/" + strconv.FormatUint(uint64(r), 10))
}

// Parts splits an id into job, slot and revision. It returns an error for anything that NewTaskID cannot have made.
func (id TaskID) Parts() (job string, slot SlotKey, r Revision, err error) {
	s := string(id)
	i, j := strings.IndexByte(s, '/'), strings.LastIndexByte(s, '/')
	if i <= 0 || j <= i+1 {
		return "", "", 0, fmt.Errorf("task id %q: want JOB/SLOT/REVISION", s)
	}
	n, err := strconv.ParseUint(s[j+1:], 10, 64)
	if err != nil {
		return "", "", 0, fmt.Errorf("task id %q: the part after the last / is no revision", s)
	}
	return s[:i], SlotKey(s[i+1 : j]), Revision(n), nil
}

// DesiredState is what a task should become. It only moves forward: running or complete, then shutdown, then remove.
type DesiredState uint8

// The ladder of desired states. Running and Complete stand on the same rung: a task has one or the other from its creation.
const (
	DesiredNone     DesiredState = iota
	DesiredRunning               // run until told otherwise
	DesiredComplete              // run until it ends by itself
	DesiredShutdown              // stop, keep the record
	DesiredRemove                // stop, and forget it
)

var desiredNames = [...]string{"", "running", "complete", "shutdown", "remove"}

func (d DesiredState) String() string { return desiredNames[d] }

// MarshalText writes the state as its word.
func (d DesiredState) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Wanted reports whether a task at d should be there.
func (d DesiredState) Wanted() bool { return d == DesiredRunning || d == DesiredComplete }

func (d DesiredState) rung() uint8 {
	if d == DesiredComplete {
		return uint8(DesiredRunning)
	}
	return uint8(d)
}

// Follows reports whether next may replace d: a step forward on the ladder, or on the same rung below running less time to stop.
func (d Desired) Follows(next Desired) bool {
	if d.State.Before(next.State) {
		return true
	}
	return d.State == next.State && !d.State.Wanted() && next.Grace >= 0 && (d.Grace < 0 || next.Grace < d.Grace)
}

// Before reports whether moving from d to next is a step forward.
func (d DesiredState) Before(next DesiredState) bool { return d.rung() < next.rung() }

// ObservedState is what an agent said about a task. It never goes backwards.
type ObservedState uint8

// The observed states in their order; from Complete on they are terminal.
const (
	ObservedNone ObservedState = iota // no agent has spoken of the task
	Accepted
	Preparing
	Starting
	Running
	Complete // ended by itself with success
	Failed   // ended by itself otherwise
	Rejected // could not be started here
	Stopped  // ended because it was told to
)

var observedNames = [...]string{"", "accepted", "preparing", "starting", "running", "complete", "failed", "rejected", "stopped"}

func (o ObservedState) String() string { return observedNames[o] }

// MarshalText writes the state as its word.
func (o ObservedState) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// Terminal reports whether the task has ended.
func (o ObservedState) Terminal() bool { return o >= Complete }

// ConditionState is what is inferred about a task. Unlike an observation it can be wrong.
type ConditionState string

const (
	// OK means that nothing speaks against the last observation.
	OK ConditionState = "ok"
	// Lost means that the task's node is down: the task is probably not running, and nobody can say.
	Lost ConditionState = "lost"
	// Gone means that an operator declared the node gone for good, the one statement that ends a lost task without its agent.
	Gone ConditionState = "gone"
)

// Task is one attempt to fill a slot. It runs once: a restart or an update is a new task in the same slot.
type Task struct {
	ID          TaskID
	Job         string
	Slot        SlotKey
	JobVersion  uint64 // of the job, whose task section it runs
	SpecVersion uint64 // names the content of that task section
	Created     Time
	CreatedRev  Revision
	Why         string   // what the task was made for: "new slot", "restart", "update", …
	Avoid       NodeID   // Owner: reconcile, at creation; the node where the slot's last attempt failed
	Reserve     Reserve  // what it takes on a node, copied from the specification at creation
	Nodes       []NodeID // the nodes that the slot is limited to; empty: any

	Desired   Desired   // Owner: reconcile
	Placement Placement // Owner: place, once
	Observed  Observed  // Owner: the node's agent
	Condition Condition // Owner: the monitor
}

// Reserve is what a task takes on the node where it runs.
type Reserve struct {
	Resources  Resources
	Ports      []Port
	Addresses  []Address
	MaxPerNode int // of the same job; 0: no limit
}

// Desired is what a task should become, and who says so.
type Desired struct {
	State  DesiredState
	Reason string        // for people
	By     string        // the plugin, or "core"
	Since  Time          //
	Grace  time.Duration // how long the task may take to stop; negative: as its specification says
}

// Placement is where a task was put. It is written once.
type Placement struct {
	Node      NodeID
	Since     Time
	Ports     []PortGrant
	Addresses []AddressGrant
	Among     Among
}

// Among is what a node was chosen from, for the record.
type Among struct {
	Nodes   int // that there were
	Allowed int // of them: ready, active, and allowed by the filters and the slot
	Rank    int // sum of the plugins' ranks of the chosen node
	Beside  int // tasks of the same job on it already
}

// AddressGrant is an address of a pool that was given to a task.
type AddressGrant struct {
	Name    string
	Pool    string
	Address string
}

// PortGrant is a port of the node that was given to a task.
type PortGrant struct {
	Name   string
	Number uint16
}

// Observed is what the node's agent last said about a task.
type Observed struct {
	Message  string // how the task got here
	Err      string // why it ended
	ExitCode int
	State    ObservedState // beside what is as small: a task is kept in 512 bytes so
	Healthy  bool          // true when running without a health check, or when the check passes
	Unknown  bool          // the agent does not know a task that it once reported; spends no restart attempt
	At       Time          // when the server took the report
}

// Condition is what is inferred about a task.
type Condition struct {
	State  ConditionState
	Since  Time
	Reason string
}

// Placed reports whether the task was given a node.
func (t *Task) Placed() bool { return t.Placement.Node != "" }

// Dead reports whether the task has ended for good: observed to have ended, gone with its node, or told to stop before it was ever placed. What a task
// reserved is free when it is dead, not before.
func (t *Task) Dead() bool {
	return t.Observed.State.Terminal() || t.Condition.State == Gone || (!t.Placed() && !t.Desired.State.Wanted())
}

// ConditionOn returns the condition of a task whose node is n (nil if the task has none): gone as written, lost while the node is down, otherwise ok.
func (t *Task) ConditionOn(n *Node) Condition {
	switch {
	case t.Condition.State == Gone:
		return t.Condition
	case t.Observed.State.Terminal() || !t.Placed():
		return Condition{State: OK}
	case n == nil:
		return Condition{State: Gone, Reason: "its node was removed"}
	case n.Status.State == NodeDown:
		return Condition{State: Lost, Since: n.Status.Since, Reason: "node " + n.Spec.Name + " is down"}
	}
	return Condition{State: OK}
}

// Up reports whether the task does what it should: wanted, observed running, healthy where that is checked, and its condition ok.
func (t *Task) Up(n *Node) bool {
	return t.Desired.State.Wanted() && t.Observed.State == Running && t.Observed.Healthy && t.ConditionOn(n).State == OK
}
