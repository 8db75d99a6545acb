package notify

import (
	"cmp"
	"slices"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Waiting is all of one job that waits for one cause.
type Waiting struct {
	Cause   cluster.StallCause
	Job     string // "": it belongs to none
	Count   int    // things that wait
	Since   cluster.Time
	Message string // of what has waited longest
	Clears  string
	Task    cluster.TaskID // one that waits to be placed; "": none does
}

// Look returns what waits in a state at a time, by cause and job. It looks at every stall once, and at every task of which something is still to come.
func Look(s *engine.State, now cluster.Time) []Waiting {
	l := looking{found: map[where]*Waiting{}}
	groups := map[string]*cluster.Stall{}
	for stall := range s.Stalls() {
		if stall.Subject.Kind == cluster.SubjectGroup {
			groups[stall.Subject.ID] = stall
			continue
		}
		l.add(stall, stall.Since, "")
	}
	for t := range s.Unsettled() {
		if stall := cluster.Overdue(t, s.Node(t.Placement.Node), now); stall != nil {
			l.add(stall, stall.Since, "")
		}
		if len(groups) == 0 || t.Placed() || !t.Desired.State.Wanted() {
			continue
		}
		if stall := groups[engine.GroupKey(t)]; stall != nil && !held(s, t) {
			since := stall.Since
			if since.Before(t.Created) {
				since = t.Created
			}
			l.add(stall, since, t.ID)
		}
	}
	return l.sorted()
}

// held reports whether a task's slot is held: then the slot's own stall says so.
func held(s *engine.State, t *cluster.Task) bool {
	slot := s.Slot(t.Job, t.Slot)
	return slot != nil && slot.Held != ""
}

type where struct {
	cause cluster.StallCause
	job   string
}

type looking struct{ found map[where]*Waiting }

func (l *looking) add(stall *cluster.Stall, since cluster.Time, task cluster.TaskID) {
	at := where{stall.Cause(), stall.Subject.Job()}
	w := l.found[at]
	if w == nil {
		w = &Waiting{Cause: at.cause, Job: at.job, Since: since, Message: stall.Message, Clears: stall.Clears, Task: task}
		l.found[at] = w
	}
	w.Count++
	if since.Before(w.Since) {
		w.Since, w.Message, w.Clears, w.Task = since, stall.Message, stall.Clears, task
	}
}

func (l *looking) sorted() []Waiting {
	out := make([]Waiting, 0, len(l.found))
	for _, w := range l.found {
		out = append(out, *w)
	}
	slices.SortFunc(out, func(a, b Waiting) int {
		return cmp.Or(cmp.Compare(a.Since.Engine, b.Since.Engine), compareCauses(a.Cause, b.Cause), cmp.Compare(a.Job, b.Job))
	})
	return out
}

func compareCauses(a, b cluster.StallCause) int {
	return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Detail, b.Detail))
}
