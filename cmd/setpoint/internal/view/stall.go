package view

import apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"

// Stall is why something waits, as `stalls` prints it.
type Stall struct {
	Subject Subject `json:"subject"`
	Job     string  `json:"job"`
	Slot    string  `json:"slot"`
	Task    string  `json:"task"`
	Node    string  `json:"node"`
	NodeID  string  `json:"node_id"`
	TaskStall
}

// Subject names what waits.
type Subject struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
}

// Facts are what a stall rests on: how many nodes were looked at, and what excluded each. Counts sum to nodes.
type Facts struct {
	Nodes    int64       `json:"nodes"`
	Excluded []Exclusion `json:"excluded"`
}

// Exclusion is one reason that excludes nodes, with their names where the API gives them.
type Exclusion struct {
	Source string   `json:"source"`
	Code   string   `json:"code"`
	Detail string   `json:"detail"`
	Count  int64    `json:"count"`
	Nodes  []string `json:"nodes"`
}

// OfStall returns a stall's view.
func OfStall(s *apiv1.Stall) Stall {
	return Stall{
		Subject: subject(s.GetSubject()),
		Job:     s.GetJob(), Slot: s.GetSlot(), Task: s.GetTask(), Node: s.GetNode(), NodeID: s.GetNodeId(),
		TaskStall: taskStall(s),
	}
}

// OfStalls returns the views of stalls.
func OfStalls(in []*apiv1.Stall) []Stall { return each(in, OfStall) }

func subject(s *apiv1.Subject) Subject { return Subject{Kind: s.GetKind(), ID: s.GetId()} }

func facts(f *apiv1.Facts) Facts {
	return Facts{Nodes: f.GetNodes(), Excluded: each(f.GetExcluded(), func(x *apiv1.Exclusion) Exclusion {
		return Exclusion{Source: x.GetSource(), Code: x.GetCode(), Detail: x.GetDetail(), Count: x.GetCount(), Nodes: words(x.GetNodes())}
	})}
}

// Event is one thing that happened, as `events` prints it.
type Event struct {
	Revision uint64  `json:"revision"`
	Time     Moment  `json:"time"`
	Kind     string  `json:"kind"`
	Subject  Subject `json:"subject"`
	Text     string  `json:"text"`
	Author   string  `json:"author"`
	By       string  `json:"by"` // who asked for it
	Job      string  `json:"job"`
	Task     string  `json:"task"`
	Node     string  `json:"node"`
	NodeID   string  `json:"node_id"`
}

// OfEvent returns an event's view.
func OfEvent(e *apiv1.Event) Event {
	return Event{
		Revision: e.GetRevision(), Time: moment(e.GetTime()), Kind: e.GetKind(), Subject: subject(e.GetSubject()), Text: e.GetText(), Author: e.GetAuthor(), By: e.GetBy(),
		Job: e.GetJob(), Task: e.GetTask(), Node: e.GetNode(), NodeID: e.GetNodeId(),
	}
}
