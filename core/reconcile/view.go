// Package reconcile decides, for one job or node at a time, which tasks there should be and which should go: slots, loss, restarts, updates, drains, and the
// admission of everything voluntary within the job's budget.
//
// It is pure: it reads a View and returns changes; it knows no clock, does no I/O, and given the same view and time it returns the same changes. It imports
// sdk/cluster and the standard library only. It owns the sections of slots, of a job's update, of a node's drain, and of tasks their identity and desired
// state.
package reconcile

import (
	"iter"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// View is what deciding needs to know. It does not change while a decision is made.
type View interface {
	Job(name string) *cluster.Job
	Slots(job string) []*cluster.Slot                          // in the order of their keys
	Slot(job string, key cluster.SlotKey) *cluster.Slot        // nil: there is none
	SlotTasks(job string, key cluster.SlotKey) []*cluster.Task // oldest first
	TasksOf(job string) iter.Seq[*cluster.Task]
	TasksOn(node cluster.NodeID) iter.Seq[*cluster.Task]
	Node(id cluster.NodeID) *cluster.Node

	// Verdict joins what the filters say of a job's tasks on a node.
	Verdict(job *cluster.Job, node cluster.NodeID) Verdict
	// Answer is what the job's type says of its slots, for types that a plugin serves: of those with the given keys, nil: of all.
	Answer(job *cluster.Job, of []cluster.SlotKey) Answer
	// Book is what was kept of a job since the last decision about it; nil: nothing.
	Book(job string) *Book
	// Says joins what drainers say of a task.
	Says(task *cluster.Task) Saying
	// Fits says whether one more task of a job's newest version would find room for a slot, once the leaving task (nil: none leaves) has given back what it
	// takes, beside the room that is kept for slots that moved before, and for those in also.
	Fits(job *cluster.Job, slot *cluster.Slot, leaving *cluster.Task, also []Claim) Fit
	// Better says on which other node a task of a job's newest version would be placed rather than on its own, "" if on none: as the job's tasks will be spread
	// once those that leave have left, beside the room that is kept for slots that moved before, and for those in also. leaving is how many of the job's tasks
	// leave each node, those that were told to stop and are not dead among them, but not t.
	Better(job *cluster.Job, slot *cluster.Slot, t *cluster.Task, also []Claim, leaving map[cluster.NodeID]int) cluster.NodeID
}

// Claim is room that one decision keeps for a slot.
type Claim struct {
	Slot    *cluster.Slot
	Node    cluster.NodeID
	Leaving *cluster.Task // that makes the room
}

// Fit is whether and where a task would find room.
type Fit struct {
	Node cluster.NodeID // "": nowhere
	Code cluster.Code   // why not
	Why  string         // the same for people

	Clears string // what would make room
}

// Verdict is what the filters together say of one class and node.
type Verdict struct {
	Refused bool
	Pending bool   // some filter has not judged and none refuses
	Evicts  bool   // a refusal that also ends running tasks
	By      string // the filter that evicts
	Detail  string // such as the failing constraint
}

// Answer is what a job type says of a job.
type Answer struct {
	Known bool           // false: nothing was ever said; Stall says why
	Fresh bool           // given at or after the last change of the job and of every node: slots that it does not name are unwanted
	Slots []WantedSlot   // in the order of their keys
	Stall *cluster.Stall // holds the whole job
}

// WantedSlot is a slot that a job should have.
type WantedSlot struct {
	Key   cluster.SlotKey
	Nodes []cluster.NodeID // empty: any
	Ends  bool
	Stall *cluster.Stall // holds the slot
}

// Saying is the strongest of what drainers say of a task, and the stalls of those that keep it.
type Saying struct {
	Transition cluster.Transition // Strength Nothing: nobody says anything
	Stalls     []cluster.Stall
}

// Result is what was decided.
type Result struct {
	Changes  []cluster.Change
	Stalls   []cluster.Stall // all that reconcile now says about the job and the slots that were looked at; earlier ones end. Since and Changed are the engine's to fill in
	Wake     time.Duration   // decide again after so long at the latest; 0: only when something changes
	NoRoom   bool            // some slot cannot move for want of room: decide again when room becomes free
	Rollback uint64          // make a new version of the job with the content of this one; 0: do not
	Why      string          // with Rollback

	entries  []Entry // for the job's book
	whole    bool    // every slot was looked at
	restless bool    // nothing is kept
	glanced  *Book   // with which it was decided, where there was none; nil: there was
	numbered bool    // the job's slots are numbers

	rebalancing bool // slots that may move are kept by their nodes
	looked      []cluster.SlotKey
	said        said
}

// Looked returns the slots that were looked at, those that are no more among them, each at least once; all: every slot was. Of what was said before of the
// others, nothing has changed.
func (r *Result) Looked() (keys []cluster.SlotKey, all bool) { return r.looked, r.whole }

func (r *Result) wakeIn(d time.Duration) {
	if d > 0 && (r.Wake == 0 || d < r.Wake) {
		r.Wake = d
	}
}

func (r *Result) add(c ...cluster.Change) { r.Changes = append(r.Changes, c...) }

func (r *Result) stall(s cluster.Stall) {
	if s.Source == "" {
		s.Source = cluster.SourceCore
	}
	r.Stalls = append(r.Stalls, s)
}
