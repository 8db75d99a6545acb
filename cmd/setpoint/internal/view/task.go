package view

import apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"

// Task is a task as `task ls` and `task inspect` print it.
type Task struct {
	ID         string      `json:"id"`
	Job        string      `json:"job"`
	JobVersion uint64      `json:"job_version"`
	Slot       string      `json:"slot"`
	Node       string      `json:"node"`
	NodeID     string      `json:"node_id"`
	Desired    Desired     `json:"desired"`
	Observed   Observed    `json:"observed"`
	Condition  Condition   `json:"condition"`
	Stalls     []TaskStall `json:"stalls"`
	Phase      string      `json:"phase"`
	Dead       bool        `json:"dead"`
	Created    Moment      `json:"created"`
	Why        string      `json:"why"`
	Placed     Moment      `json:"placed"`
	Ports      []Port      `json:"ports"`
	Addresses  []Address   `json:"addresses"`
	Spec       *TaskSpec   `json:"spec,omitempty"`
}

// Desired is what a task should become, and who says so.
type Desired struct {
	State  string `json:"state"`
	Reason string `json:"reason"`
	By     string `json:"by"`
	Since  Moment `json:"since"`
	Grace  Span   `json:"grace"`
}

// Observed is what the task's agent last said. State is empty if it has not spoken of the task.
type Observed struct {
	State    string `json:"state"`
	Message  string `json:"message"`
	Err      string `json:"err"`
	ExitCode int64  `json:"exit_code"`
	Healthy  bool   `json:"healthy"`
	At       Moment `json:"at"`
}

// Condition is what is inferred about the task.
type Condition struct {
	State  string `json:"state"`
	Since  Moment `json:"since"`
	Reason string `json:"reason"`
}

// TaskStall is why a task waits, as it stands at the task.
type TaskStall struct {
	Code    string `json:"code"`
	Source  string `json:"source"`
	Message string `json:"message"`
	Since   Moment `json:"since"`
	Changed Moment `json:"changed"`
	Facts   Facts  `json:"facts"`
	Nearest string `json:"nearest"`
	Clears  string `json:"clears"`
}

// OfTask returns a task's view.
func OfTask(t *apiv1.Task) Task {
	d, o, c := t.GetDesired(), t.GetObserved(), t.GetCondition()
	out := Task{
		ID: t.GetId(), Job: t.GetJob(), JobVersion: t.GetJobVersion(), Slot: t.GetSlot(), Node: t.GetNode(), NodeID: t.GetNodeId(),
		Desired: Desired{State: d.GetState(), Reason: d.GetReason(), By: d.GetBy(), Since: moment(d.GetSince()), Grace: span(d.GetGrace())},
		Observed: Observed{
			State: o.GetState(), Message: o.GetMessage(), Err: o.GetErr(), ExitCode: o.GetExitCode(), Healthy: o.GetHealthy(), At: moment(o.GetAt()),
		},
		Condition: Condition{State: c.GetState(), Since: moment(c.GetSince()), Reason: c.GetReason()},
		Stalls:    each(t.GetStalls(), taskStall),
		Phase:     t.GetPhase(), Dead: t.GetDead(), Created: moment(t.GetCreated()), Why: t.GetWhy(), Placed: moment(t.GetPlaced()), Ports: ports(t.GetPorts()),
		Addresses: addresses(t.GetAddresses()),
	}
	if t.GetSpec() != nil {
		spec := ofTaskSpec(t.GetSpec())
		out.Spec = &spec
	}
	return out
}

func taskStall(s *apiv1.Stall) TaskStall {
	return TaskStall{
		Code: s.GetCode(), Source: s.GetSource(), Message: s.GetMessage(), Since: moment(s.GetSince()), Changed: moment(s.GetChanged()),
		Facts: facts(s.GetFacts()), Nearest: s.GetNearest(), Clears: s.GetClears(),
	}
}

// OfTasks returns the views of tasks.
func OfTasks(in []*apiv1.Task) []Task { return each(in, OfTask) }

// TaskChange is what came of a command about a task.
type TaskChange struct {
	Task    Task `json:"task"`
	Changed bool `json:"changed"`
}

// OfTaskChange returns the view of what came of a command about a task.
func OfTaskChange(r *apiv1.StopTaskResponse) TaskChange {
	return TaskChange{Task: OfTask(r.GetTask()), Changed: r.GetChanged()}
}

// Why is what keeps a task from each node, as `task why` prints it.
type Why struct {
	Task     Task      `json:"task"`
	Sentence string    `json:"sentence"`
	Nearest  string    `json:"nearest"`
	Clears   string    `json:"clears"`
	Exceeds  string    `json:"exceeds"`
	Nodes    []WhyNode `json:"nodes"`
}

// WhyNode is all that keeps a task from one node. Without reasons it fits.
type WhyNode struct {
	Node    string      `json:"node"`
	NodeID  string      `json:"node_id"`
	Reasons []WhyReason `json:"reasons"`
}

// WhyReason is one reason.
type WhyReason struct {
	Source string `json:"source"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// OfWhy returns the view of what keeps a task from nodes.
func OfWhy(w *apiv1.WhyTaskResponse) Why {
	return Why{
		Task: OfTask(w.GetTask()), Sentence: w.GetSentence(), Nearest: w.GetNearest(), Clears: w.GetClears(), Exceeds: w.GetExceeds(),
		Nodes: each(w.GetNodes(), func(n *apiv1.WhyNode) WhyNode {
			return WhyNode{Node: n.GetNode(), NodeID: n.GetNodeId(), Reasons: each(n.GetReasons(), func(r *apiv1.WhyReason) WhyReason {
				return WhyReason{Source: r.GetSource(), Code: r.GetCode(), Detail: r.GetDetail()}
			})}
		}),
	}
}
