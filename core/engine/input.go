package engine

import (
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Input is one thing that happened outside: a command, something that an agent or a plugin said, or the passing of time.
type Input interface{ input() }

// What agents say, as dispatch passes it on. A session that is not the node's newest is ignored.
type (
	// AgentUp begins a session. The node is not ready before its full report is complete.
	AgentUp struct {
		Node        cluster.NodeID
		Session     uint64 // unique; grows
		Description cluster.NodeDescription
	}
	// AgentDown ends a session. It says nothing about the node: only missed heartbeats do.
	AgentDown struct {
		Node    cluster.NodeID
		Session uint64
	}
	// AgentsHeard says of which nodes something was heard since the last such input; dispatch gathers heartbeats.
	AgentsHeard struct{ Nodes []cluster.NodeID }
	// AgentDescribes replaces a node's description.
	AgentDescribes struct {
		Node        cluster.NodeID
		Session     uint64
		Description cluster.NodeDescription
	}
	// AgentReports brings what an agent observed.
	AgentReports struct {
		Node     cluster.NodeID
		Session  uint64
		Full     bool // part of the full report that begins a session
		Last     bool // with Full: its last part
		Tasks    []TaskReport
		Strays   []cluster.TaskID // running there without a record, not yet seen to have ended; replaces what was said before
		Received func()           // called after the commit; may be nil
	}
)

// TaskReport is what an agent observed of one task.
type TaskReport struct {
	Task     cluster.TaskID
	State    cluster.ObservedState
	Message  string
	Err      string
	ExitCode int
	Healthy  bool
}

// What plugins say, as pluginhost passes it on. A session that is not the plugin's newest is ignored.
type (
	// PluginUp begins a session: the plugin is configured and has an empty mirror.
	PluginUp struct {
		Name        string
		Session     uint64
		Version     string
		Filter      bool
		Drainer     bool
		JobTypes    []string
		Watches     cluster.FieldMask
		FailureOpen bool // on_failure = "ignore": what the filter has not judged is allowed while it is away
	}
	// PluginDown says that a plugin does not answer, and why. Verdicts that count stay in use.
	PluginDown struct {
		Name        string
		Session     uint64 // 0: it never came up
		Code        cluster.Code
		Message     string
		FailureOpen bool // on_failure = "ignore"
	}
	// PluginGone says that a plugin is not configured any more: it decides nothing from now on.
	PluginGone struct{ Name string }
	// PluginApplied says that all answers up to a mirror revision were given, except late ones.
	PluginApplied struct {
		Name        string
		Session     uint64
		Revision    cluster.Revision
		LateClasses []uint32
		LateJobs    []string
	}
	// PluginVerdicts brings what a filter says of classes.
	PluginVerdicts struct {
		Name     string
		Session  uint64
		Revision cluster.Revision
		Classes  []ClassVerdict
	}
	// PluginSlots brings what a job type says of a job.
	PluginSlots struct {
		Name        string
		Session     uint64
		Revision    cluster.Revision
		Job         string
		JobRevision cluster.Revision
		Delta       bool
		More        bool
		Upsert      []SlotAnswer
		Remove      []cluster.SlotKey
		Stall       *StallAnswer
		Failure     *FailureAnswer
	}
	// PluginDrain answers a drain question.
	PluginDrain struct {
		Name        string
		Session     uint64
		Question    uint64
		Transitions []cluster.Transition
		Kept        []KeptAnswer
		Until       time.Duration // ask again after so long; 0: when something changes
		Failure     *FailureAnswer
	}
)

// ClassVerdict is what a filter says of one class. Exactly one of Full, Flips, Indifferent, Stall and Failure is set.
type ClassVerdict struct {
	Class         uint32
	ClassRevision cluster.Revision
	Full          *FullVerdict
	Flips         *FlipVerdict
	Indifferent   bool
	Stall         *StallAnswer
	Failure       *FailureAnswer
}

// FullVerdict replaces what was said of a class.
type FullVerdict struct {
	Allowed    []byte // by node index, least significant bit first
	Rejections []Rejection
	Nodes      []uint32 // refused, ascending
	Reasons    []uint32 // parallel to Nodes; numbers into Rejections
	Ranks      []int8   // by node index; empty: all 0
}

// FlipVerdict changes what was said of a class.
type FlipVerdict struct {
	Rejections []Rejection // append to the class's table
	Nodes      []uint32
	Reasons    []uint32 // 0: allowed; otherwise a number into the table, plus 1
	Ranks      []int8   // empty, or parallel to Nodes
}

// Rejection is why a filter refuses nodes.
type Rejection struct {
	Code   cluster.Code
	Detail string
	Clears string
	Evicts bool
}

// SlotAnswer is a slot that a job should have.
type SlotAnswer struct {
	Key   cluster.SlotKey
	Nodes []uint32 // indexes; empty: any
	Ends  bool
	Stall *StallAnswer // holds the slot
}

// KeptAnswer is a stall with which a drainer keeps a task.
type KeptAnswer struct {
	Task  cluster.TaskID
	Stall StallAnswer
}

// StallAnswer is a stall as a plugin says it.
type StallAnswer struct {
	Code    cluster.Code
	Message string
	Detail  string
	Clears  string
	Evicts  bool
}

// FailureAnswer is a plugin's own failure: nothing is concluded from it.
type FailureAnswer struct {
	Code    cluster.Code // plugin_error, plugin_timeout or plugin_invalid
	Message string
}

func (AgentUp) input()        {}
func (AgentDown) input()      {}
func (AgentsHeard) input()    {}
func (AgentDescribes) input() {}
func (AgentReports) input()   {}
func (PluginUp) input()       {}
func (PluginDown) input()     {}
func (PluginGone) input()     {}
func (PluginApplied) input()  {}
func (PluginVerdicts) input() {}
func (PluginSlots) input()    {}
func (PluginDrain) input()    {}
func (command) input()        {}
