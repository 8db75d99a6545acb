package sdk

import (
	"context"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Drainer decides what leaves a node that is to be emptied, and in which order.
type Drainer interface {
	// Drain says which tasks should go now and which must be kept. It is asked again whenever a task of the node changes, until the node is empty. A *Stall
	// error keeps every task of the request. Drain is called from several goroutines at once.
	Drain(ctx context.Context, req DrainRequest) (DrainResponse, error)
}

// DrainRequest is a node that is to be emptied and what is left on it.
type DrainRequest struct {
	Node     *cluster.Node // must not be changed
	Waited   time.Duration // since the drain began
	Deadline time.Duration // for the whole drain, from its beginning; 0: none
	Tasks    []DrainTask   // on the node and not dead, in a fixed order
}

// DrainTask is a task on a node that is to be emptied.
type DrainTask struct {
	ID       cluster.TaskID
	Job      string
	JobType  string
	Slot     cluster.SlotKey
	Priority int
	OnDrain  cluster.OnDrain
	Desired  cluster.DesiredState
	Observed cluster.ObservedState
	Healthy  bool
	Labels   map[string]string // of the job
	Settings Settings          // what the job says to this plugin
}

// DrainResponse says what should leave. A task that it does not name stays for now.
type DrainResponse struct {
	Transitions []Transition
	Keep        []Kept
	Again       time.Duration // ask again after so long; 0: when something changes
}

// NoGrace is the grace of a task that is killed at once.
const NoGrace time.Duration = -1

// Transition says that a task should go to a desired state.
type Transition struct {
	Task   cluster.TaskID
	To     cluster.DesiredState // shutdown (also the zero value) or remove
	Forced bool                 // go now; otherwise once the job's budget allows it
	Reason string               // for people
	// Grace is how long the task may take to stop. Zero: as its specification says; NoGrace: none.
	Grace time.Duration
}

// Kept is a task that must not leave voluntarily, and why.
type Kept struct {
	Task cluster.TaskID
	Why  *Stall
}
