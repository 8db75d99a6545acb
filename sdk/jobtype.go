package sdk

import (
	"context"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// JobType decides which slots a job of its type should have. Placing, restarting, updating and replacing are the core's, the same for every type.
type JobType interface {
	// Slots returns all slots that the job should have. A slot that is not named is unwanted. A *Stall error holds the job: its slots stay as they are and
	// start nothing. Slots is called again when a watched field of a node or the job changes, and from several goroutines at once.
	Slots(ctx context.Context, req SlotsRequest) (SlotsResponse, error)
}

// SlotsRequest is a job and all nodes.
type SlotsRequest struct {
	Job   Job
	Nodes []*cluster.Node // by id; must not be changed or kept
}

// Job is a job as the plugin that serves its type sees it.
type Job struct {
	Name     string
	Type     string
	Count    int
	Labels   map[string]string
	Settings Settings // what the job says to this plugin
	// Created is when the job was first submitted, in UTC, by the daemon's wall clock. It stays the same for all versions of the job.
	Created time.Time
}

// SlotsResponse is the set of slots that a job should have.
type SlotsResponse struct {
	Slots []Slot        // in any order; each key once
	Again time.Duration // ask again after so long; 0: when something changes
}

// Slot is a place for one task.
type Slot struct {
	Key   cluster.SlotKey
	Nodes []cluster.NodeID // limited to these; none: any node
	Ends  bool             // its task is wanted at complete, not at running
	Held  *Stall           // starts nothing and keeps what is there, and why; nil: not held
}
