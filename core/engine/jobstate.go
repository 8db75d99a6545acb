package engine

import "github.com/setpointd/setpoint/sdk/cluster"

// The words for how a job is.
const (
	JobRunning  = "running"  // every wanted slot is up or done, or waits for its turn
	JobStarting = "starting" // some are not up yet, and nothing is known to be in their way
	JobStalled  = "stalled"  // some wait for something
	JobUpdating = "updating"
	JobMoving   = "rebalancing"
	JobPaused   = "paused"   // its update is
	JobComplete = "complete" // every wanted slot is done
	JobFailed   = "failed"   // every wanted slot is done, and the last task of one of them did not end well
	JobStopping = "stopping" // told to stop, and some task has not been seen to have stopped
	JobStopped  = "stopped"
	JobEmpty    = "empty" // no slot is wanted
)

// JobCounts are the counts of a job's slots, and of its tasks, by which it is told how it is.
type JobCounts struct {
	Wanted, Up, Done int64 // slots
	Failed           int64 // done slots whose last task did not end well
	Queued           int64 // wanted slots that wait for their turn
	Left             int64 // tasks that run, or have been told to stop and were not seen to have stopped
}

// JobState returns one word for how a job is. stalled says whether anything of it waits for something, other than for its turn.
func JobState(j *cluster.Job, n JobCounts, stalled bool) string {
	switch c, update := &j.Control, j.Update.State; {
	case c.Stopped && n.Left > 0:
		return JobStopping
	case c.Stopped:
		return JobStopped
	case update == cluster.Updating:
		return JobUpdating
	case update == cluster.UpdatePaused:
		return JobPaused
	case j.Rebalancing():
		return JobMoving
	case n.Wanted > 0 && n.Done == n.Wanted && n.Failed > 0:
		return JobFailed
	case n.Wanted > 0 && n.Done == n.Wanted:
		return JobComplete
	case n.Wanted > 0 && n.Up+n.Done+n.Queued >= n.Wanted:
		return JobRunning
	case stalled:
		return JobStalled
	case n.Wanted == 0:
		return JobEmpty
	}
	return JobStarting
}
