package view

import apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"

// TaskHistory is what became of a task, as `task history` prints it. Now is nil if its record is gone.
type TaskHistory struct {
	Task          string         `json:"task"`
	Now           *Task          `json:"now"`
	ReachesBackTo uint64         `json:"reaches_back_to"`
	Cut           string         `json:"cut"`
	Entries       []HistoryEntry `json:"entries"`
	Stalls        []PastStall    `json:"stalls"`
}

// HistoryEntry is one thing that became of a task, or that was asked of its job or node.
type HistoryEntry struct {
	Revision uint64   `json:"revision"`
	Time     Moment   `json:"time"`
	Kind     string   `json:"kind"`
	Text     string   `json:"text"`
	Author   string   `json:"author"`
	By       string   `json:"by"`
	Node     string   `json:"node"`
	Facts    []string `json:"facts"`
}

// PastStall is what a task waited for. Until is nil if it waits still.
type PastStall struct {
	Stall
	FromRevision uint64 `json:"from_revision"`
	ToRevision   uint64 `json:"to_revision"`
	Until        Moment `json:"until"`
	Changes      int64  `json:"changes"`
}

// OfTaskHistory returns the view of what became of a task.
func OfTaskHistory(h *apiv1.TaskHistoryResponse) TaskHistory {
	out := TaskHistory{
		Task: h.GetTask(), ReachesBackTo: h.GetReachesBackTo(), Cut: h.GetCut(),
		Entries: each(h.GetEntries(), func(e *apiv1.HistoryEntry) HistoryEntry {
			return HistoryEntry{
				Revision: e.GetRevision(), Time: moment(e.GetTime()), Kind: e.GetKind(), Text: e.GetText(), Author: e.GetAuthor(), By: e.GetBy(), Node: e.GetNode(),
				Facts: words(e.GetFacts()),
			}
		}),
		Stalls: each(h.GetStalls(), func(p *apiv1.PastStall) PastStall {
			return PastStall{Stall: OfStall(p.GetStall()), FromRevision: p.GetFromRevision(), ToRevision: p.GetToRevision(), Until: moment(p.GetUntil()), Changes: p.GetChanges()}
		}),
	}
	if h.GetNow() != nil {
		now := OfTask(h.GetNow())
		out.Now = &now
	}
	return out
}
