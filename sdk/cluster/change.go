package cluster

import (
	"errors"
	"fmt"
)

// Author is who may write a section.
type Author string

// The authors. Each section has exactly one.
const (
	AuthorOperator  Author = "operator"
	AuthorAgent     Author = "agent"
	AuthorMonitor   Author = "monitor"
	AuthorReconcile Author = "reconcile"
	AuthorPlace     Author = "place"
	AuthorEngine    Author = "engine"
	AuthorNotifier  Author = "notifier"
)

// ErrNotOwner is returned for a change whose author does not own the section that it writes.
var ErrNotOwner = errors.New("a section has one writer")

// Change is one write to one section of one record. Its type decides who may make it.
type Change interface {
	// Owner returns the only author of such changes.
	Owner() Author
}

// Check returns an error that wraps ErrNotOwner if by may not make c.
func Check(by Author, c Change) error {
	if c.Owner() != by {
		return fmt.Errorf("%w: %T belongs to %s, not to %s", ErrNotOwner, c, c.Owner(), by)
	}
	return nil
}

// The changes of nodes.
type (
	// AddNode records a node that joined. It is the operator's: whoever holds a join token acts for the operator.
	AddNode struct{ Node *Node }
	// SetNodeSpec replaces what the operator decided.
	SetNodeSpec struct {
		Node NodeID
		Spec NodeSpec
	}
	// RemoveNode drops the record of a node that was decommissioned.
	RemoveNode struct{ Node NodeID }
	// SetNodeDescription replaces what the agent found.
	SetNodeDescription struct {
		Node        NodeID
		Description NodeDescription
	}
	// SetNodeStatus replaces what the monitor concluded.
	SetNodeStatus struct {
		Node   NodeID
		Status NodeStatus
	}
	// SetDrain replaces the progress of a node's drain.
	SetDrain struct {
		Node  NodeID
		Drain DrainStatus
	}
)

// The changes of jobs and slots.
type (
	// PutJob creates a job, or replaces what was asked of it.
	PutJob struct{ Job *Job }
	// RemoveJob drops a job. Its slots and tasks are reconcile's to end.
	RemoveJob struct{ Job string }
	// SetUpdate replaces the progress of a job's update.
	SetUpdate struct {
		Job    string
		Update Update
	}
	// SetRebalance replaces the progress of a job's rebalance.
	SetRebalance struct {
		Job       string
		Rebalance Rebalance
	}
	// PutSlot creates or replaces a slot.
	PutSlot struct{ Slot *Slot }
	// RemoveSlot drops a slot.
	RemoveSlot struct {
		Job string
		Key SlotKey
	}
)

// The changes of tasks.
type (
	// AddTask creates a task.
	AddTask struct{ Task *Task }
	// SetDesired moves a task's desired state forward.
	SetDesired struct {
		Task    TaskID
		Desired Desired
	}
	// RemoveTask drops the record of a dead task, or of one whose job was removed while its node is down.
	RemoveTask struct{ Task TaskID }
	// SetPlacement gives a task its node.
	SetPlacement struct {
		Task      TaskID
		Placement Placement
	}
	// SetObserved records what the node's agent said.
	SetObserved struct {
		Task     TaskID
		Observed Observed
	}
	// SetCondition records that a task is gone.
	SetCondition struct {
		Task      TaskID
		Condition Condition
	}
)

// The changes of stalls.
type (
	// PutStall records why something waits.
	PutStall struct{ Stall *Stall }
	// RemoveStall ends a stall.
	RemoveStall struct{ Key string }
)

// The changes of requests.
type (
	// PutRequest remembers that a command was carried out under a key.
	PutRequest struct{ Request *Request }
	// RemoveRequest forgets one.
	RemoveRequest struct{ ID string }
)

// The changes of notices.
type (
	// PutNotice records that a sink has told of a cause.
	PutNotice struct{ Notice *Notice }
	// RemoveNotice records that a sink has told of its end, or that nobody is told any more.
	RemoveNotice struct{ Key string }
)

// Owner returns AuthorOperator.
func (AddNode) Owner() Author { return AuthorOperator }

// Owner returns AuthorOperator.
func (SetNodeSpec) Owner() Author { return AuthorOperator }

// Owner returns AuthorOperator.
func (RemoveNode) Owner() Author { return AuthorOperator }

// Owner returns AuthorAgent.
func (SetNodeDescription) Owner() Author { return AuthorAgent }

// Owner returns AuthorMonitor.
func (SetNodeStatus) Owner() Author { return AuthorMonitor }

// Owner returns AuthorReconcile.
func (SetDrain) Owner() Author { return AuthorReconcile }

// Owner returns AuthorOperator.
func (PutJob) Owner() Author { return AuthorOperator }

// Owner returns AuthorOperator.
func (RemoveJob) Owner() Author { return AuthorOperator }

// Owner returns AuthorReconcile.
func (SetUpdate) Owner() Author { return AuthorReconcile }

// Owner returns AuthorReconcile.
func (SetRebalance) Owner() Author { return AuthorReconcile }

// Owner returns AuthorReconcile.
func (PutSlot) Owner() Author { return AuthorReconcile }

// Owner returns AuthorReconcile.
func (RemoveSlot) Owner() Author { return AuthorReconcile }

// Owner returns AuthorReconcile.
func (AddTask) Owner() Author { return AuthorReconcile }

// Owner returns AuthorReconcile.
func (SetDesired) Owner() Author { return AuthorReconcile }

// Owner returns AuthorReconcile.
func (RemoveTask) Owner() Author { return AuthorReconcile }

// Owner returns AuthorPlace.
func (SetPlacement) Owner() Author { return AuthorPlace }

// Owner returns AuthorAgent.
func (SetObserved) Owner() Author { return AuthorAgent }

// Owner returns AuthorMonitor.
func (SetCondition) Owner() Author { return AuthorMonitor }

// Owner returns AuthorEngine.
func (PutStall) Owner() Author { return AuthorEngine }

// Owner returns AuthorEngine.
func (RemoveStall) Owner() Author { return AuthorEngine }

// Owner returns AuthorEngine.
func (PutRequest) Owner() Author { return AuthorEngine }

// Owner returns AuthorEngine.
func (RemoveRequest) Owner() Author { return AuthorEngine }

// Owner returns AuthorNotifier.
func (PutNotice) Owner() Author { return AuthorNotifier }

// Owner returns AuthorNotifier.
func (RemoveNotice) Owner() Author { return AuthorNotifier }
