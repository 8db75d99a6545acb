package cluster

import (
	"slices"
	"time"
)

// The job types that Setpoint brings along. Any other type is one that a plugin serves.
const (
	TypeReplicated  = "replicated"
	TypeBatch       = "batch"
	TypeGlobal      = "global"
	TypeGlobalBatch = "global-batch"
)

// Job is what a user asks for.
type Job struct {
	Name       string
	Created    Time
	CreatedRev Revision

	Control   JobControl // Owner: the operator, and an update that rolls back
	Update    Update     // Owner: reconcile
	Rebalance Rebalance  // Owner: reconcile
}

// JobControl is all that was asked of a job: what it should be now and what it was before.
type JobControl struct {
	Spec        JobSpec      // of the newest version
	Version     uint64       // counts from 1
	SpecVersion uint64       // names the content of Spec.Task (and how often a restart was asked); equal content has an equal name
	Changed     Time         // when the newest version was made
	ChangedRev  Revision     //
	Versions    []JobVersion // oldest first, the newest included; cut to those that tasks or slots still use, and a few more
	Stopped     bool         // asked to stop: every slot is unwanted
	StopGrace   time.Duration
	Restarts    uint64 // how often a restart was asked
	UpdateHold  bool   // an operator paused the update
	Resumes     uint64 // how often an operator resumed a paused update
	Cancelled   uint64 // the version whose update an operator cancelled
	AskedBy     string // who asked for the latest of all this; "": the core, by an update that rolls back
	AskedRev    Revision
	Rebalances  uint64 // how often it was asked that tasks move to where they would be placed now

	RebalancesEnded uint64 // that of these which an operator ended
}

// JobVersion is one version of a job.
type JobVersion struct {
	Version     uint64
	SpecVersion uint64
	Restarts    uint64
	Created     Time
	Spec        JobSpec
	Reason      string // "submitted", "scaled", "rolled back to 3", …
	By          string // who asked for it; "": the core, by an update that rolls back
}

// VersionOf returns the given version of the job, or nil if history no longer has it.
func (j *Job) VersionOf(version uint64) *JobVersion {
	i := slices.IndexFunc(j.Control.Versions, func(v JobVersion) bool { return v.Version == version })
	if i < 0 {
		return nil
	}
	return &j.Control.Versions[i]
}

// Earlier returns the version to which a rollback goes: the given one or, for 0, the newest before the current that runs something else. It is nil if history
// no longer has it.
func (j *Job) Earlier(version uint64) *JobVersion {
	if version == 0 {
		for _, v := range j.Control.Versions {
			if v.Version < j.Control.Version && v.SpecVersion != j.Control.SpecVersion {
				version = v.Version
			}
		}
	}
	return j.VersionOf(version)
}

// Ends reports whether tasks of the job end by themselves, for the types that Setpoint brings along.
func (s *JobSpec) Ends() bool { return s.Type == TypeBatch || s.Type == TypeGlobalBatch }

// Numbered reports whether the slots of the job are numbers up to its count.
func (s *JobSpec) Numbered() bool { return s.Type == TypeReplicated || s.Type == TypeBatch }

// JobSpec is a job as its user wrote it, with defaults filled in.
type JobSpec struct {
	Name           string
	Type           string
	Count          int // slots, for numbered types
	Parallelism    int // slots with a task at a time, for types whose tasks end by themselves; 0: all
	Priority       int // 0 to 100; higher is placed first
	Labels         map[string]string
	Plugins        []PluginSettings // sorted by plugin name
	MaxUnavailable Amount
	MaxPerNode     int // tasks of this job on one node; 0: no limit
	OnDrift        OnDrift
	OnLost         OnLost
	LostAfter      time.Duration // how long a node must be down before its tasks are replaced
	OnDrain        OnDrain
	Strategy       Strategy
	Spread         []Spread
	HistoryLimit   int // dead tasks kept for each slot
	Task           TaskSpec
	Update         UpdateSpec
	Restart        RestartSpec
}

// PluginSettings is what a job says to one plugin.
type PluginSettings struct {
	Plugin string
	JSON   string // one JSON object, keys sorted, checked against the plugin's job schema
}

// Settings returns what the job says to a plugin, as one JSON object, or "" if it says nothing.
func (s *JobSpec) Settings(plugin string) string {
	for _, p := range s.Plugins {
		if p.Plugin == plugin {
			return p.JSON
		}
	}
	return ""
}

// Amount is a number, or a percentage of a whole.
type Amount struct {
	Count   int
	Percent int // used if not 0
}

// Of returns the amount as a share of total, a percentage being rounded up.
func (a Amount) Of(total int) int {
	if a.Percent == 0 {
		return a.Count
	}
	return (total*a.Percent + 99) / 100
}

// OnDrift says what becomes of a running task whose node no longer meets the job's constraints.
type OnDrift string

// The answers to drift.
const (
	DriftMove OnDrift = "move"
	DriftKeep OnDrift = "keep"
)

// OnLost says what becomes of a task whose node is down.
type OnLost string

// The answers to loss. Wait gives at most one running task, at the price of none while the node is away.
const (
	LostReplace OnLost = "replace"
	LostWait    OnLost = "wait"
)

// OnDrain says when a job's tasks leave a node that is drained.
type OnDrain string

// The answers to a drain.
const (
	DrainFirst OnDrain = "first"
	DrainLast  OnDrain = "last" // after all tasks of jobs that say first; the default of global jobs
)

// Strategy says how tasks are spread over nodes that could all run them.
type Strategy string

// The strategies.
const (
	StrategySpread  Strategy = "spread"
	StrategyBinpack Strategy = "binpack"
)

// Spread asks for tasks to be spread over the values of a node attribute.
type Spread struct {
	Attribute string // such as node.labels.zone
	Targets   []SpreadTarget
}

// SpreadTarget is the share of tasks that one value of the attribute should get.
type SpreadTarget struct {
	Value   string
	Percent int
}

// TaskSpec is what a task runs.
type TaskSpec struct {
	Driver    string // process, docker, sim
	Command   []string
	Dir       string
	User      string
	Env       map[string]string
	Config    map[string]string // for the driver
	Resources Resources
	Ports     []Port
	Addresses []Address
	Secrets   []Secret
	Stop      StopSpec
	Health    *HealthSpec // nil: running is healthy
}

// Port is a port of the node that a task needs.
type Port struct {
	Name   string
	Static uint16 // 0: any free one
}

// Address is an address that a task needs of a pool of the server's configuration.
type Address struct {
	Name string
	Pool string
}

// Secret is a secret of the cluster that a task needs, as a file that its node keeps in memory. The value is in no record.
type Secret struct {
	Name    string
	Version uint64 // 0: the newest, when the job is submitted; a job that was submitted names one
	Target  string // name of the file
	Mode    uint32 // permissions of the file, such as 0400
	Owner   string // of the file: a user's number, and perhaps a group's behind a colon; empty: who the task runs as
}

// StopSpec says how a task is stopped.
type StopSpec struct {
	Signal string // without SIG: TERM, INT, …
	Grace  time.Duration
	// AfterDisconnect is for how long the agent may have heard nothing of a server until it stops the task by itself, so that it does not run beside what took
	// its place elsewhere; 0: it runs on. With LostAfter at least as long as this and Grace together, the task runs once at most.
	AfterDisconnect time.Duration
}

// HealthSpec says how to find out whether a running task does its work. Exactly one of Exec, HTTP and TCP is set.
type HealthSpec struct {
	Exec        []string
	HTTP        string
	TCP         string
	Interval    time.Duration
	Timeout     time.Duration
	StartPeriod time.Duration // failures in this time after the start do not count
	Retries     int           // consecutive failures that end the task
}

// Order says which of two tasks of a slot comes first in a move.
type Order string

// The orders of a move.
const (
	StopFirst  Order = "stop-first"
	StartFirst Order = "start-first"
)

// OnFailure says what an update does when too many new tasks fail.
type OnFailure string

// The answers to a failing update.
const (
	FailurePause    OnFailure = "pause"
	FailureContinue OnFailure = "continue"
	FailureRollback OnFailure = "rollback"
)

// UpdateSpec says how slots move to a new version.
type UpdateSpec struct {
	Parallelism      int // slots moving at a time; 0: all
	Delay            time.Duration
	Order            Order
	Monitor          time.Duration // how long a new task is watched for failure after it is up
	OnFailure        OnFailure
	MaxFailureRatio  float64       // of the slots moved; more than this is a failed update
	ProgressDeadline time.Duration // without a slot coming up for so long, the update fails; 0: none
}

// RestartCondition says after which ends a slot gets a new task.
type RestartCondition string

// The restart conditions.
const (
	RestartAny       RestartCondition = "any"
	RestartOnFailure RestartCondition = "on-failure"
	RestartNone      RestartCondition = "none"
)

// RestartSpec says when a task that ended is replaced.
type RestartSpec struct {
	Condition RestartCondition
	Delay     time.Duration // before the first restart; doubled with each that follows without the slot staying up
	MaxDelay  time.Duration // at most; equal to Delay: no exponential back-off
	Attempts  int           // within Window; 0: no limit
	Window    time.Duration // 0: for ever
}

// Backoff returns the delay before a restart when step restarts came before it in a row.
func (r *RestartSpec) Backoff(step int) time.Duration {
	out := r.Delay
	for range min(step, 62) {
		if out >= r.MaxDelay || out <= 0 {
			break
		}
		out *= 2
	}
	return min(max(out, 0), max(r.MaxDelay, r.Delay))
}

// UpdateState says how far an update has come.
type UpdateState string

// The states of an update.
const (
	UpdateNone       UpdateState = ""
	Updating         UpdateState = "updating"
	UpdatePaused     UpdateState = "paused"
	UpdateCompleted  UpdateState = "completed"
	UpdateRolledBack UpdateState = "rolled_back"
	UpdateCancelled  UpdateState = "cancelled"
)

// Update is the progress of moving a job's slots to its newest version.
type Update struct {
	State    UpdateState
	From, To uint64 // job versions
	Rollback bool   // To restores an earlier version because an update failed
	Started  Time
	Since    Time // when State was entered
	Message  string
	Total    int    // slots that were stale when it began
	Moved    int    // slots that this update moved
	Failures int    // slots whose new task failed before it was up, or while it was monitored
	LastUp   Time   // when a slot last came up, for the delay and the progress deadline
	Waiting  int    // slots that it could not bring up or reach and that wait; once it is over, those of them that still do
	Resumes  uint64 // the operator's resumes that were seen; a pause stands until there is another

	NotUpdated int // of Waiting, slots without which it came to its end because they took too long
}

// Rebalance is the progress of moving tasks to where they would be placed now.
type Rebalance struct {
	Ask   uint64 // the operator's ask that it is about; 0: there never was one
	Ended bool   // no task would be placed elsewhere, or as many moved as there are slots
	Moved int    // tasks that left
	Since Time   // when it began, or ended
}

// Rebalancing reports whether tasks of the job move to where they would be placed now.
func (j *Job) Rebalancing() bool {
	c := &j.Control
	return !c.Stopped && c.Rebalances > c.RebalancesEnded && (j.Rebalance.Ask != c.Rebalances || !j.Rebalance.Ended)
}

// Slot is a place in a job for one task.
type Slot struct {
	Job     string
	Key     SlotKey
	Created Revision

	Nodes    []NodeID // limited to these; empty: any
	Ends     bool     // its task is wanted at complete instead of running
	Unwanted bool     // scaled down or no longer named; only being wanted again takes the mark back
	Held     string   // why it starts nothing and keeps what is there; "" if it is not held

	Version     uint64 // of the job: what to run. Only the update moves it
	SpecVersion uint64

	Restarts   []Time // when restarts were spent, oldest first, those in the window
	Backoff    int    // restarts in a row without staying up
	SpentFor   uint64 // the spec version for which Restarts and Backoff count
	AvoidNode  NodeID // where the last attempt failed
	NotUpSince Time   // zero while up
	NotUpWhy   NotUpWhy
	UpSince    Time   // zero while not up
	EverUp     bool   // has been up once
	Done       bool   // needs no task any more: observed complete, or it ended and is not to be restarted
	Failed     bool   // done, and its last task did not end well
	Fresh      bool   // no task was made in it since it took Version: how earlier ones ended says nothing of the next
	MovedBy    string // what moves the slot: "update", "drain", …; once up after an update "monitor" while that is watched; then ""
	MovedIn    uint64 // the version whose update moved it
	Counted    bool   // a failure of this slot was counted in the running update
	Leaves     NodeID // the node that a rebalance has its task leave, while that waits for its replacement
	Claim      NodeID // where room is kept for its next task, since it was emptied for a move; until that is placed or the node takes nothing new
}

// The values of Slot.MovedBy with which a slot holds a place of its job's update.
const (
	MovedByUpdate  = "update"
	MovedByMonitor = "monitor" // up, and watched for failure
)

// AutoRollback begins the reason of a job version that a failed update made.
const AutoRollback = "rolled back: "

// NotUpWhy says why a slot is not up.
type NotUpWhy string

// The reasons for not being up.
const (
	NotUpNew     NotUpWhy = "new"
	NotUpFailed  NotUpWhy = "failed"
	NotUpLost    NotUpWhy = "lost"
	NotUpMoved   NotUpWhy = "moved"
	NotUpWaiting NotUpWhy = "waiting"
)

// ID returns JOB/KEY.
func (s *Slot) ID() string { return s.Job + "/" + string(s.Key) }

// FellIn reports whether a slot that is not up was up since the update began. One that fell before, or in the turn in which it began without being moved, counts
// against it only once it has been up again.
func (s *Slot) FellIn(u *Update, now Time) bool {
	since := s.NotUpSince
	if since.IsZero() { // nobody has noted it yet
		since = now
	}
	return s.EverUp && (u.Started.Before(since) || u.Started.Engine == since.Engine && s.NotUpWhy == NotUpMoved)
}
