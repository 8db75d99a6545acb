package notify

import (
	"cmp"
	"path"
	"slices"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Limits of what one sink is told.
const (
	maxOpen  = 500 // causes that were told and have not ended
	maxJobs  = 20  // jobs that are named of one cause
	maxBatch = 100 // causes of one delivery
)

// Rules say what a sink is told, and when.
type Rules struct {
	Sink  string        // its name: it is not told that it fails itself
	After time.Duration // how long something has to wait, unless Codes says something else
	Codes map[cluster.Code]CodeRule
	Only  []string // patterns of codes; none: all
	Jobs  []string // patterns of jobs, of which the sink is told and of nothing else; none: everything
}

// CodeRule is what is different about one code.
type CodeRule struct {
	After  time.Duration
	Ignore bool // the sink is never told
}

// after returns how long something has to wait before it is told; false: it never is.
func (r *Rules) after(w *Waiting) (time.Duration, bool) {
	rule, special := r.Codes[w.Cause.Code]
	switch {
	case rule.Ignore, w.Cause.Code == cluster.CodeNotificationFailed && w.Cause.Detail == r.Sink:
		return 0, false
	case w.Cause.Code == cluster.CodeWaitingForTurn && !special: // with that nothing is wrong
		return 0, false
	case len(r.Only) > 0 && !matches(r.Only, string(w.Cause.Code)), len(r.Jobs) > 0 && (w.Job == "" || !matches(r.Jobs, w.Job)):
		return 0, false
	case special:
		return rule.After, true
	}
	return r.After, true
}

// maxSettle is for how long a cause has to be there, and to be gone, before that is told; less if its rule says so. What waits gives another reason for a moment
// while a server starts, and when a plugin is started again.
const maxSettle = time.Minute

func (r *Rules) settle(code cluster.Code) time.Duration {
	after := r.After
	if rule, special := r.Codes[code]; special {
		after = rule.After
	}
	return min(after, maxSettle)
}

// Memory is what of earlier looks counts: since when each cause has been there, and when it was last due to be told.
type Memory map[cluster.StallCause]Span

// Span is what is remembered of one cause.
type Span struct {
	Here cluster.Time // since when something has waited for it; zero: nothing does
	Due  cluster.Time // when something had last waited for long enough; zero: never
}

// Remember returns what is to be remembered after a look, and changes nothing of what was. What was told before the first look counts as due then.
func Remember(m Memory, waiting []Waiting, sent []*cluster.Notice, rules Rules, now cluster.Time) Memory {
	out := Memory{}
	for _, n := range sent {
		s := Span{Due: m[n.Cause].Due}
		if s.Due.IsZero() {
			s.Due = now
		}
		out[n.Cause] = s
	}
	for i := range waiting {
		w := &waiting[i]
		after, ok := rules.after(w)
		if !ok {
			continue
		}
		s := out[w.Cause]
		if s.Here = m[w.Cause].Here; s.Here.IsZero() {
			s.Here = now
		}
		if now.Sub(w.Since) >= after {
			s.Due = now
		}
		out[w.Cause] = s
	}
	return out
}

func matches(patterns []string, text string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, text)
		return err == nil && ok
	})
}

// Alert is one cause as people are told of it.
type Alert struct {
	Cause    cluster.StallCause
	Count    int      // things that wait for it; 0: none any more
	Jobs     []string // some of those to which they belong, sorted
	MoreJobs int      // that are not named
	Since    cluster.Time
	Told     cluster.Time // zero: not yet
	Message  string
	Clears   string
	Task     cluster.TaskID // one that waits to be placed; "": none does
}

// Plan is what a sink is to tell.
type Plan struct {
	Begin   []Alert // that something waits, those that have waited longest first
	End     []Alert // that something waits no more
	Open    []Alert // what was told and is still so
	Omitted int     // causes that nobody is told of, since too many are open
}

// Decide says what a sink is to tell, from what waits, what was remembered of that, what it has told and not ended, and the time. Nothing is told of what has
// waited less than its rule says, or of a cause that has not been there for a while; the end is told once nothing has waited for long enough for a while.
func Decide(waiting []Waiting, m Memory, sent []*cluster.Notice, rules Rules, now cluster.Time) Plan {
	var p Plan
	due := dueOf(waiting, rules, now)
	for _, n := range sent {
		a := due[n.Cause]
		if a == nil {
			a = &Alert{Cause: n.Cause, Message: n.Message}
		}
		a.Told, a.Since = n.Sent, n.Since // what was told stays as it was
		if now.Sub(m[n.Cause].Due) >= rules.settle(n.Cause.Code) && due[n.Cause] == nil {
			p.End = append(p.End, *a)
		} else {
			p.Open = append(p.Open, *a)
		}
		delete(due, n.Cause)
	}
	for _, a := range due {
		if now.Sub(m[a.Cause].Here) >= rules.settle(a.Cause.Code) {
			p.Begin = append(p.Begin, *a)
		}
	}
	for _, list := range [][]Alert{p.Begin, p.End, p.Open} {
		slices.SortFunc(list, func(a, b Alert) int {
			return cmp.Or(cmp.Compare(a.Since.Engine, b.Since.Engine), compareCauses(a.Cause, b.Cause))
		})
		for i := range list {
			list[i].nameSome()
		}
	}
	if room := max(0, maxOpen-len(p.Open)); len(p.Begin) > room {
		p.Omitted = len(p.Begin) - room
		p.Begin = p.Begin[:room]
	}
	return p
}

// dueOf returns the causes for which something has waited for long enough, each with all that has.
func dueOf(waiting []Waiting, rules Rules, now cluster.Time) map[cluster.StallCause]*Alert {
	due := map[cluster.StallCause]*Alert{}
	for i := range waiting {
		w := &waiting[i]
		if after, ok := rules.after(w); ok && now.Sub(w.Since) >= after {
			join(due, w)
		}
	}
	return due
}

// join adds what waits of one job to what is told of its cause.
func join(due map[cluster.StallCause]*Alert, w *Waiting) {
	a := due[w.Cause]
	if a == nil {
		a = &Alert{Cause: w.Cause, Since: w.Since, Message: w.Message, Clears: w.Clears, Task: w.Task}
		due[w.Cause] = a
	}
	a.Count += w.Count
	if w.Job != "" {
		a.Jobs = append(a.Jobs, w.Job)
	}
	if c := cmp.Or(cmp.Compare(w.Since.Engine, a.Since.Engine), cmp.Compare(w.Message, a.Message), cmp.Compare(w.Task, a.Task)); c < 0 {
		a.Since, a.Message, a.Clears, a.Task = w.Since, w.Message, w.Clears, w.Task
	}
}

// nameSome sorts the jobs and leaves out those beyond the limit.
func (a *Alert) nameSome() {
	slices.Sort(a.Jobs)
	if n := len(a.Jobs); n > maxJobs {
		a.Jobs, a.MoreJobs = a.Jobs[:maxJobs], n-maxJobs
	}
}
