package worker

import "github.com/setpointd/setpoint/sdk/cluster"

// runtime is what is known of a task outside the agent.
type runtime uint8

const (
	unknown  runtime = iota // the driver has to be asked
	absent                  // nothing of it runs
	starting                // its driver starts it
	running                 // it runs and is waited for
	orphaned                // it is waited for until the driver has ended it; nobody will know how it ended
	ended                   // it has ended, and its exit record is known
)

// view is what a task's next step depends on.
type view struct {
	observed  cluster.ObservedState
	runtime   runtime
	wanted    bool // it should run
	fenced    bool // it should, but no server was heard for too long
	mayStart  bool // the server confirmed that it may be started now
	forgotten bool // once it has ended, its record goes
	sick      bool // its health check failed for good
	startErr  bool // its driver could not start it
	refused   bool // its driver will never start it
	stopDue   bool // an order to stop has to be given, or given again
	unsaved   bool // what was observed last is not on the disk yet
}

// action is a task's next step.
type action uint8

const (
	rest     action = iota // wait for something to happen
	inquire                // ask the driver what became of it
	intend                 // write down that it is about to be started
	start                  // start it
	abandon                // give up the start that goes on
	announce               // observe that it runs
	stop                   // order it to stop, or to stop sooner
	conclude               // observe how it ended
	save                   // write what was observed
	remove                 // remove what the driver keeps of it, then its record
)

// decide returns the next step. Observed states only move forward: nothing is decided on a task that was observed to have ended, except to
// drop it.
func decide(v view) action {
	if v.observed.Terminal() {
		switch {
		case v.unsaved:
			return save
		case v.forgotten:
			return remove
		}
		return rest
	}
	switch v.runtime {
	case unknown:
		return inquire
	case absent:
		return decideAbsent(v)
	case starting:
		if !v.wanted {
			return abandon
		}
	case running:
		switch {
		case v.stopDue && (!v.wanted || v.sick):
			return stop
		case v.wanted && v.observed < cluster.Running:
			return announce
		case v.unsaved:
			return save
		}
	case orphaned:
	case ended:
		return conclude
	}
	return rest
}

func decideAbsent(v view) action {
	switch {
	case !v.wanted, v.refused, v.startErr, v.observed == cluster.Running:
		return conclude
	case !v.mayStart:
		return rest
	case v.observed < cluster.Starting || v.unsaved:
		return intend
	}
	return start
}
