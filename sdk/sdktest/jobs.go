package sdktest

import (
	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// Slots is what a job type says of one job.
type Slots struct {
	Slots    []Slot          // by key
	Stall    *pluginv1.Stall // holds the job
	Failure  *pluginv1.Failure
	Revision uint64 // of the mirror
}

// Slot is one slot as the plugin wants it.
type Slot struct {
	Key   cluster.SlotKey
	Nodes []cluster.NodeID // in the order of their indexes
	Ends  bool
	Held  *pluginv1.Stall
}

// jobState is the host's copy of a job's slots. Slots name nodes by id, as they were at the revision of the answer.
type jobState struct {
	revision uint64
	answered bool
	slots    map[string]Slot
	stall    *pluginv1.Stall
	failure  *pluginv1.Failure
	at       uint64
	partial  map[string]Slot
	messages int
}

// AddJob registers a job, or replaces it, and waits for its slots.
func (h *Host) AddJob(job sdk.Job) Slots {
	h.t.Helper()
	h.RegisterJob(job)
	h.await("slots of "+job.Name, func() bool { return h.jobs[job.Name].answered })
	return h.Slots(job.Name)
}

// RegisterJob registers a job without waiting.
func (h *Host) RegisterJob(job sdk.Job) {
	h.t.Helper()
	h.mu.Lock()
	state := &jobState{revision: 1}
	if old := h.jobs[job.Name]; old != nil {
		state.revision = old.revision + 1
	}
	h.jobs[job.Name] = state
	h.mu.Unlock()
	msg := &pluginv1.Job{
		Name: job.Name, Revision: state.revision, Type: job.Type, Count: int64(job.Count), Labels: job.Labels, SettingsJson: string(job.Settings),
	}
	if !job.Created.IsZero() {
		msg.CreatedUnixNs = job.Created.UnixNano()
	}
	h.send(&pluginv1.FromCore{Message: &pluginv1.FromCore_Jobs{Jobs: &pluginv1.Jobs{Add: []*pluginv1.Job{msg}}}})
}

// RemoveJob withdraws a job.
func (h *Host) RemoveJob(name string) {
	h.t.Helper()
	h.mu.Lock()
	delete(h.jobs, name)
	h.mu.Unlock()
	h.send(&pluginv1.FromCore{Message: &pluginv1.FromCore_Jobs{Jobs: &pluginv1.Jobs{Remove: []string{name}}}})
}

// Slots returns the latest slots of a job. Settle or WaitApplied make sure that they are about the latest nodes.
func (h *Host) Slots(name string) Slots {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.jobs[name].answer()
}

// SlotMessages returns how many answers about a job's slots have come, parts counted once.
func (h *Host) SlotMessages(name string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.jobs[name].messages
}
