package view

import apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"

// Plan is what would follow from commands that were only tried, as `job plan` and --dry-run print it.
type Plan struct {
	Revision      uint64      `json:"revision"`
	Took          Span        `json:"took"`
	Turns         int64       `json:"turns"`
	Settled       bool        `json:"settled"`
	Create        int64       `json:"create"`
	Stop          int64       `json:"stop"`
	Move          int64       `json:"move"`
	Replace       int64       `json:"replace"`
	Stall         int64       `json:"stall"`
	Slots         []PlanSlot  `json:"slots"`
	Stalls        []PlanStall `json:"stalls"`
	Events        []PlanEvent `json:"events"`
	EventsLeftOut uint64      `json:"events_left_out"`
	Assumptions   []string    `json:"assumptions"`
}

// PlanSlot is a slot whose task would be another.
type PlanSlot struct {
	Job     string `json:"job"`
	Slot    string `json:"slot"`
	Change  string `json:"change"`
	From    string `json:"from"`
	To      string `json:"to"`
	Task    string `json:"task"`
	Waiting bool   `json:"waiting"`
}

// PlanStall is something that waits. Ends is nil if it stands in the end.
type PlanStall struct {
	Stall
	Begins Span  `json:"begins"`
	Ends   Span  `json:"ends"`
	Before bool  `json:"before"`
	Tasks  int64 `json:"tasks"`
	Held   bool  `json:"held"`
}

// PlanEvent is one thing that would happen.
type PlanEvent struct {
	At   Span   `json:"at"`
	Kind string `json:"kind"`
	Job  string `json:"job"`
	Slot string `json:"slot"`
	Task string `json:"task"`
	Node string `json:"node"`
	Text string `json:"text"`
	By   string `json:"by"`
}

// OfPlan returns a plan's view.
func OfPlan(p *apiv1.PlanResponse) Plan {
	c := p.GetCounts()
	return Plan{
		Revision: p.GetRevision(), Took: span(p.GetTook()), Turns: p.GetTurns(), Settled: p.GetSettled(),
		Create: c.GetCreate(), Stop: c.GetStop(), Move: c.GetMove(), Replace: c.GetReplace(), Stall: c.GetStall(),
		Slots: each(p.GetSlots(), func(s *apiv1.PlanSlot) PlanSlot {
			return PlanSlot{Job: s.GetJob(), Slot: s.GetSlot(), Change: s.GetChange(), From: s.GetFrom(), To: s.GetTo(), Task: s.GetTask(), Waiting: s.GetWaiting()}
		}),
		Stalls: each(p.GetStalls(), func(s *apiv1.PlanStall) PlanStall {
			return PlanStall{
				Stall: OfStall(s.GetStall()), Begins: span(s.GetBegins()), Ends: span(s.GetEnds()), Before: s.GetBefore(), Tasks: s.GetTasks(), Held: s.GetHeld(),
			}
		}),
		Events: each(p.GetEvents(), func(e *apiv1.PlanEvent) PlanEvent {
			return PlanEvent{
				At: span(e.GetAt()), Kind: e.GetKind(), Job: e.GetJob(), Slot: e.GetSlot(), Task: e.GetTask(), Node: e.GetNode(), Text: e.GetText(), By: e.GetBy(),
			}
		}),
		EventsLeftOut: p.GetEventsLeftOut(), Assumptions: words(p.GetAssumptions()),
	}
}

// NodeTrial is what new labels of a node would move, and all that would follow.
type NodeTrial struct {
	NodeChange
	Plan Plan `json:"plan"`
}
