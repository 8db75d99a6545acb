package view

import apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"

// Job is a job as `job ls` and `job inspect` print it.
type Job struct {
	Name        string       `json:"name"`
	Type        string       `json:"type"`
	State       string       `json:"state"`
	Version     uint64       `json:"version"`
	SpecVersion uint64       `json:"spec_version"`
	Stopped     bool         `json:"stopped"`
	Counts      JobCounts    `json:"counts"`
	Update      *Update      `json:"update"`
	Rebalance   *Rebalance   `json:"rebalance"`
	Stalls      []Stall      `json:"stalls"`
	Created     Moment       `json:"created"`
	Changed     Moment       `json:"changed"`
	Spec        *JobSpec     `json:"spec"`
	Slots       []Slot       `json:"slots,omitempty"`
	Versions    []JobVersion `json:"versions,omitempty"`
}

// JobCounts say how a job's slots and tasks stand.
type JobCounts struct {
	Wanted     int64 `json:"wanted"`
	Up         int64 `json:"up"`
	Done       int64 `json:"done"`
	Failed     int64 `json:"failed"`
	Queued     int64 `json:"queued"`
	Held       int64 `json:"held"`
	Stale      int64 `json:"stale"`
	Running    int64 `json:"running"`
	Stopping   int64 `json:"stopping"`
	Lost       int64 `json:"stopping_lost"`
	Stalled    int64 `json:"stalled"`
	Limited    bool  `json:"limited"`
	Eligible   int64 `json:"eligible"`
	EligibleOf int64 `json:"eligible_of"`
}

// Update is how far an update has come.
type Update struct {
	State      string `json:"state"`
	From       uint64 `json:"from"`
	To         uint64 `json:"to"`
	Rollback   bool   `json:"rollback"`
	Started    Moment `json:"started"`
	Since      Moment `json:"since"`
	Message    string `json:"message"`
	Total      int64  `json:"total"`
	Moved      int64  `json:"moved"`
	Failures   int64  `json:"failures"`
	Waiting    int64  `json:"waiting"`
	NotUpdated int64  `json:"not_updated"`
}

// Rebalance is how far moving a job's tasks to where they would be placed now has come.
type Rebalance struct {
	Active    bool   `json:"active"`
	Moved     int64  `json:"moved"`
	Since     Moment `json:"since"`
	Cancelled bool   `json:"cancelled"`
}

// Slot is a place in a job for one task.
type Slot struct {
	Key        string   `json:"key"`
	Nodes      []string `json:"nodes"`
	Unwanted   bool     `json:"unwanted"`
	Held       string   `json:"held"`
	Version    uint64   `json:"version"`
	Up         bool     `json:"up"`
	Done       bool     `json:"done"`
	Failed     bool     `json:"failed"`
	NotUpSince Moment   `json:"not_up_since"`
	NotUpWhy   string   `json:"not_up_why"`
	UpSince    Moment   `json:"up_since"`
	Restarts   int64    `json:"restarts"`
	Backoff    int64    `json:"backoff"`
	Task       string   `json:"task"` // the one that is up, or without one the newest
	Runs       uint64   `json:"runs"` // version of the task that is up; 0: none is
}

// JobVersion is one version of a job.
type JobVersion struct {
	Version     uint64   `json:"version"`
	SpecVersion uint64   `json:"spec_version"`
	Created     Moment   `json:"created"`
	Reason      string   `json:"reason"`
	By          string   `json:"by"` // empty: the server itself
	Spec        *JobSpec `json:"spec"`
}

// OfJob returns a job's view.
func OfJob(j *apiv1.Job) Job {
	c := j.GetCounts()
	out := Job{
		Name: j.GetName(), Type: j.GetType(), State: j.GetState(), Version: j.GetVersion(), SpecVersion: j.GetSpecVersion(), Stopped: j.GetStopped(),
		Counts: JobCounts{
			Wanted: c.GetWanted(), Up: c.GetUp(), Done: c.GetDone(), Failed: c.GetFailed(), Queued: c.GetQueued(), Held: c.GetHeld(), Stale: c.GetStale(), Running: c.GetRunning(),
			Stopping: c.GetStopping(), Lost: c.GetStoppingLost(), Stalled: c.GetStalled(), Limited: c.GetLimited(), Eligible: c.GetEligible(), EligibleOf: c.GetEligibleOf(),
		},
		Stalls: OfStalls(j.GetStalls()), Created: moment(j.GetCreated()), Changed: moment(j.GetChanged()), Spec: ofJobSpec(j.GetSpec()),
		Slots: each(j.GetSlots(), ofSlot), Versions: each(j.GetVersions(), ofJobVersion),
	}
	if u := j.GetUpdate(); u != nil {
		out.Update = &Update{
			State: u.GetState(), From: u.GetFrom(), To: u.GetTo(), Rollback: u.GetRollback(), Started: moment(u.GetStarted()), Since: moment(u.GetSince()),
			Message: u.GetMessage(), Total: u.GetTotal(), Moved: u.GetMoved(), Failures: u.GetFailures(), Waiting: u.GetWaiting(), NotUpdated: u.GetNotUpdated(),
		}
	}
	if r := j.GetRebalance(); r != nil {
		out.Rebalance = &Rebalance{Active: r.GetActive(), Moved: r.GetMoved(), Since: moment(r.GetSince()), Cancelled: r.GetCancelled()}
	}
	return out
}

// OfJobs returns the views of jobs.
func OfJobs(in []*apiv1.Job) []Job { return each(in, OfJob) }

func ofSlot(s *apiv1.Slot) Slot {
	return Slot{
		Key: s.GetKey(), Nodes: words(s.GetNodes()), Unwanted: s.GetUnwanted(), Held: s.GetHeld(), Version: s.GetVersion(), Up: s.GetUp(), Done: s.GetDone(), Failed: s.GetFailed(),
		NotUpSince: moment(s.GetNotUpSince()), NotUpWhy: s.GetNotUpWhy(), UpSince: moment(s.GetUpSince()), Restarts: s.GetRestarts(),
		Backoff: s.GetBackoff(), Task: s.GetTask(), Runs: s.GetRuns(),
	}
}

func ofJobVersion(v *apiv1.JobVersion) JobVersion {
	return JobVersion{
		Version: v.GetVersion(), SpecVersion: v.GetSpecVersion(), Created: moment(v.GetCreated()), Reason: v.GetReason(), By: v.GetBy(), Spec: ofJobSpec(v.GetSpec()),
	}
}

// JobWhy is all that a job waits for, as `job why` prints it.
type JobWhy struct {
	Job    string  `json:"job"`
	State  string  `json:"state"`
	Stalls []Stall `json:"stalls"`
	Tasks  []Why   `json:"tasks"`  // waiting to be placed; of those that wait for the same only the first
	Behind []Stall `json:"behind"` // of plugins, nodes and the cluster, as far as they are in the job's way
	Note   string  `json:"note"`   // why it has no tasks, where nothing waits
}

// JobChange is what came of a command about a job.
type JobChange struct {
	Job
	Changed bool `json:"changed"`
}

// OfJobChange returns the view of what came of a command about a job.
func OfJobChange(r *apiv1.JobResponse) JobChange {
	return JobChange{Job: OfJob(r.GetJob()), Changed: r.GetChanged()}
}
