package engine

import (
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Turn is one committed revision: what it made of the state, and by which changes.
type Turn struct {
	Before  *State
	State   *State
	Changes []Authored // in the order in which they were applied

	touched map[record]struct{} // what Changes wrote or removed, in a turn of Step's
}

// Authored is a change with its author.
type Authored struct {
	By     cluster.Author
	Change cluster.Change
	For    string // who asked for the command that made it; "": no command did, or nobody knows
}

// Output is what one Step decided. Nothing in it may be acted upon before the turn is committed.
type Output struct {
	Turn    Turn // Turn.Changes is empty if nothing changed; then there is nothing to commit
	Replies []Reply
	Plugins []PluginUpdate
	Acks    []func()      // reports that are durable after the commit
	Wake    time.Duration // step again after so long at the latest; 0: only when something happens
	More    bool          // the batch limit ended deciding early: step again at once
	Swept   Swept
}

// Reply answers a command.
type Reply struct {
	ticket uint64
	value  any
	err    error
}

// PluginUpdate is what one plugin is to be told, in this order: nodes, classes, jobs, questions. An update with Reset begins a session's mirror and replaces all
// that was not sent yet; later ones may be merged, the newest value of a node, class or job counting.
type PluginUpdate struct {
	Plugin  string
	Session uint64

	Revision cluster.Revision // under which Nodes are sent; 0: no nodes in this update
	Reset    bool
	Nodes    []IndexedNode

	AddClasses    []Class
	RemoveClasses []uint32
	AddJobs       []PluginJob
	RemoveJobs    []string
	Drains        []DrainQuestion
	Cancel        []uint64 // questions whose answer is not needed any more

	Trace Trace // of which the update is part; Step leaves it zero
}

// IndexedNode is a node with its index in the mirrors. Node is nil for an index that is free.
type IndexedNode struct {
	Index uint32
	Node  *cluster.Node
}

// Class is what a filter is to compile.
type Class struct {
	ID       uint32
	Revision cluster.Revision
	JobType  string
	Labels   map[string]string
	Settings string // JSON
}

// PluginJob is a job whose slots a plugin decides.
type PluginJob struct {
	Name     string
	Revision cluster.Revision
	Type     string
	Count    int
	Labels   map[string]string
	Settings string // JSON
	Created  cluster.Time
}

// DrainQuestion asks a drainer what should leave a node.
type DrainQuestion struct {
	ID       uint64
	Revision cluster.Revision
	Node     uint32 // index
	Waited   time.Duration
	Deadline time.Duration
	Tasks    []DrainTask
}

// DrainTask is a task on a node that is drained.
type DrainTask struct {
	Task     *cluster.Task
	JobType  string
	Priority int
	OnDrain  cluster.OnDrain
	Labels   map[string]string
	Settings string // JSON, what the job says to this plugin
}
