package engine

import (
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// command is an operation on its way through a turn.
type command struct {
	op     Op
	by     string // who asks, for the record
	key    string // under which it is carried out once; "": as often as it is asked
	digest string // with a key
	ticket uint64
}

// unwrapped returns an operation on its way, without its key around it.
func unwrapped(by string, op Op) command {
	if k, ok := op.(Keyed); ok {
		return command{op: k.Op, by: by, key: k.Key, digest: k.Digest}
	}
	return command{op: op, by: by}
}

// Op is what an operator asks. Its result, if it has one, is what Engine.Do returns.
type Op interface{ op() }

// What is asked about jobs. Each returns JobResult.
type (
	// RunJob creates a job or makes a new version of it. The specification has defaults filled in and is valid.
	RunJob struct {
		Spec      cluster.JobSpec
		IfVersion uint64 // 0: whatever the version is; otherwise refused with ErrConflict unless it is the current one
		Reason    string
	}
	// StopJob makes every slot of a job unwanted and keeps the job. RunJob or StartJob ends it.
	StopJob struct {
		Job       string
		Grace     time.Duration // negative: as its specification says; 0: kill
		IfVersion uint64        // of this and those below: as of RunJob
	}
	// StartJob takes back StopJob.
	StartJob struct {
		Job       string
		IfVersion uint64
	}
	// RestartJob replaces every task by the pace of the job's update section.
	RestartJob struct {
		Job       string
		IfVersion uint64
	}
	// ScaleJob changes the count of a job with numbered slots.
	ScaleJob struct {
		Job       string
		Count     int
		IfVersion uint64
	}
	// RollbackJob makes a new version with the content of an earlier one.
	RollbackJob struct {
		Job       string
		To        uint64 // 0: the one before the current
		IfVersion uint64
	}
	// RebalanceJob moves tasks to where they would be placed now, within the job's budget, until that is nowhere else.
	RebalanceJob struct {
		Job       string
		IfVersion uint64
	}
	// RemoveJob forgets a job; its tasks are stopped.
	RemoveJob struct {
		Job       string
		IfVersion uint64
	}
	// ControlUpdate pauses or resumes the update of a job, or ends its update and its rebalance as far as there are any.
	ControlUpdate struct {
		Job       string
		Action    UpdateAction
		IfVersion uint64
	}
)

// UpdateAction is what can be done to a running update.
type UpdateAction string

// The actions on an update.
const (
	PauseUpdate  UpdateAction = "pause"
	ResumeUpdate UpdateAction = "resume"
	CancelUpdate UpdateAction = "cancel"
)

// StopTask ends one task: its slot gets another. It returns TaskResult.
type StopTask struct {
	Task  cluster.TaskID
	Grace time.Duration // negative: as its specification says; 0: kill
}

// What is asked about nodes. Each returns NodeResult, and SetAvailability one for each of its nodes.
type (
	// JoinNode gives a machine its node id.
	JoinNode struct {
		ID          cluster.NodeID // chosen by the caller, random
		Name        string         // made unique by a suffix if another node bears it
		Labels      map[string]string
		Description cluster.NodeDescription
	}
	// SetAvailability sets what is allowed on nodes: on all of them in one turn, or on none. So nothing moves from one to another.
	SetAvailability struct {
		Nodes         []string // names or ids
		Availability  cluster.Availability
		DrainDeadline time.Duration
	}
	// LabelNode sets and removes labels. TrialLabels says beforehand what that would move.
	LabelNode struct {
		Node   string
		Set    map[string]string
		Remove []string
	}
	// Decommission declares that a node never comes back.
	Decommission struct {
		Node  string
		Force bool // also for a node that is not down
	}
	// RemoveNode drops the record of a decommissioned node.
	RemoveNode struct{ Node string }
)

// What is asked about plugins and the cluster.
type (
	// ConfirmPlugin accepts first answers of a plugin that would stop many tasks.
	ConfirmPlugin struct{ Plugin string }
	// ConfirmDown says of silent nodes held by mass silence that they are down.
	ConfirmDown struct{ Nodes []string }
	// NoteStall records what keeps the cluster from something that the engine cannot know by itself, or that it is over. The server's parts say so, never a caller.
	NoteStall struct {
		About   string // what of the cluster: a stall of the same code about the same is the same
		Code    cluster.Code
		Message string
		Clears  string
		Over    bool
	}
	// Why asks for every reason on every node for a task. It changes nothing and returns WhyResult.
	Why struct{ Task cluster.TaskID }
	// Inspect asks what nodes have free. It changes nothing and returns InspectResult.
	Inspect struct{}
)

// JobResult is what came of a command about a job.
type JobResult struct {
	Job     *cluster.Job
	Changed bool // false if the job was as asked already
}

// TaskResult is what came of a command about a task.
type TaskResult struct {
	Task    *cluster.Task
	Changed bool // false if it was told to stop before, and has no less time for it now
}

// NodeResult is what came of a command about a node.
type NodeResult struct {
	Node    *cluster.Node
	Changed bool
	More    bool // it is not done yet: there was more to write than one turn takes, and it has to be asked again
}

// InspectResult is what is reserved on every node, and the state in which it is.
type InspectResult struct {
	State *State
	Nodes []NodeUse
	Pools []PoolUse // by name
}

// NodeUse is what is reserved on a node by tasks that are not dead, and by whom.
type NodeUse struct {
	Node     cluster.NodeID
	Reserved cluster.Resources
	Free     cluster.Resources
	Ports    map[uint16]cluster.TaskID
	Tasks    int
}

// PoolUse is how much of a pool is taken.
type PoolUse struct {
	Pool
	Total int64
	Used  int64
}

// WhyResult says what keeps a task from each node.
type WhyResult struct {
	Task     *cluster.Task
	Stalls   []cluster.Stall
	Sentence string // the reasons in one sentence, with amounts, the nearest node and what would clear it
	Nearest  string
	Clears   string
	Exceeds  string // a resource that no node could ever give, even empty; "" if none
	Nodes    []WhyNode
}

// WhyNode is all that keeps a task from one node. No reasons: it fits.
type WhyNode struct {
	Node    cluster.NodeID
	Name    string
	Reasons []WhyReason
}

// WhyReason is one reason.
type WhyReason struct {
	Source string
	Code   cluster.Code
	Detail string // such as "node.labels.disk == ssd", or "want 1, free 0.5"
}

func (RunJob) op()          {}
func (StopJob) op()         {}
func (StartJob) op()        {}
func (RestartJob) op()      {}
func (ScaleJob) op()        {}
func (RollbackJob) op()     {}
func (RebalanceJob) op()    {}
func (RemoveJob) op()       {}
func (ControlUpdate) op()   {}
func (StopTask) op()        {}
func (JoinNode) op()        {}
func (SetAvailability) op() {}
func (LabelNode) op()       {}
func (Decommission) op()    {}
func (RemoveNode) op()      {}
func (ConfirmPlugin) op()   {}
func (ConfirmDown) op()     {}
func (NoteStall) op()       {}
func (Why) op()             {}
func (Inspect) op()         {}
