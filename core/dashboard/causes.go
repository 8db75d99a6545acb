package dashboard

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Limits of what is shown of stalls.
const (
	maxMembers   = 50 // of one cause
	maxExplained = 20 // causes about which placement is asked for amounts
)

// cause is all that waits for the same thing.
type cause struct {
	ID      string // of the element
	Code    string
	Source  string
	Detail  string // what of the code it is, such as the constraint; "": the code says it all
	Message string // of the oldest
	Clears  string
	Nearest string
	Count   int // things that wait
	Since   time.Time
	Quiet   bool // it is as it should be: a job works its slots off in turn
	Members []member
	More    int // members that are not listed

	oldest cluster.Time
	task   cluster.TaskID // one that waits to be placed
	group  string
	stamp  cluster.Time // when the oldest last changed
}

// member is one thing that waits, or a group of tasks that wait together.
type member struct {
	Kind  string // task, slot, job, update, node, plugin, cluster
	Name  string
	Link  string // "": it has no page
	Count int    // tasks of a group; 1
	Since time.Time
}

// stalled returns what waits, by cause: what waits as it should comes last, otherwise what has waited longest comes first.
func (b *board) stalled(ctx context.Context) ([]*cause, error) {
	return b.causes.get(b.revision(), func() ([]*cause, error) {
		s := b.view()
		causes := causesOf(s, s.Stalls, s.Unsettled)
		for i, c := range causes {
			if i < maxExplained && c.task != "" {
				b.why.explain(ctx, c)
			}
		}
		return causes, nil
	})
}

// causesOf groups stalls of a state. It looks at each once, and at the tasks that are given: those of which something is still to come.
func causesOf(s *engine.State, stalls func() iter.Seq[*cluster.Stall], unsettled func() iter.Seq[*cluster.Task]) []*cause {
	g := grouping{state: s, found: map[cluster.StallCause]*cause{}, groups: map[string]waiters{}}
	g.countGroups(stalls(), unsettled())
	for stall := range stalls() {
		if stall.Subject.Kind == cluster.SubjectGroup {
			if w := g.groups[stall.Subject.ID]; w.count > 0 {
				g.addGroup(stall, w)
			}
			continue
		}
		g.add(stall)
	}
	out := make([]*cause, 0, len(g.found))
	for _, c := range g.found {
		c.Since = c.oldest.WallTime()
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *cause) int {
		return cmp.Or(cmp.Compare(oneIf(a.Quiet), oneIf(b.Quiet)), cmp.Compare(a.oldest.Engine, b.oldest.Engine), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// stalledOf returns what waits of one job, by cause.
func (b *board) stalledOf(ctx context.Context, job string) []*cause {
	s := b.view()
	stalls := func() iter.Seq[*cluster.Stall] { return s.JobStalls(job) }
	causes := causesOf(s, stalls, func() iter.Seq[*cluster.Task] { return s.UnsettledOf(job) })
	for i, c := range causes {
		if i < maxExplained && c.task != "" {
			b.why.explain(ctx, c)
		}
	}
	return causes
}

// waiters are the tasks of a group that wait to be placed.
type waiters struct {
	count  int
	sample *cluster.Task
}

type grouping struct {
	state  *engine.State
	found  map[cluster.StallCause]*cause
	groups map[string]waiters // that have a stall
}

// countGroups counts the tasks of stalled groups, and adds what is overdue.
func (g *grouping) countGroups(stalls iter.Seq[*cluster.Stall], unsettled iter.Seq[*cluster.Task]) {
	jobs := map[string]bool{}
	for stall := range stalls {
		if stall.Subject.Kind == cluster.SubjectGroup {
			g.groups[stall.Subject.ID] = waiters{}
			jobs[stall.Subject.Job()] = true
		}
	}
	for t := range unsettled {
		if stall := cluster.Overdue(t, g.state.Node(t.Placement.Node), g.state.Now); stall != nil {
			g.add(stall)
		}
		if !jobs[t.Job] || t.Placed() || !t.Desired.State.Wanted() {
			continue
		}
		key := engine.GroupKey(t)
		if w, ok := g.groups[key]; ok {
			w.count++
			if w.sample == nil || t.Created.Before(w.sample.Created) {
				w.sample = t
			}
			g.groups[key] = w
		}
	}
}

func (g *grouping) addGroup(stall *cluster.Stall, w waiters) {
	since := stall.Since
	if since.Before(w.sample.Created) {
		since = w.sample.Created
	}
	c := g.cause(stall, since)
	if c.group == "" || c.oldest == since && c.stamp != stall.Changed {
		c.group, c.task, c.stamp = stall.Subject.ID, w.sample.ID, stall.Changed
	}
	name := w.sample.Job
	link := "/jobs/" + name
	if w.count == 1 {
		name, link = string(w.sample.ID), "/tasks/"+string(w.sample.ID)
	}
	c.join(member{Kind: "task", Name: name, Link: link, Count: w.count, Since: since.WallTime()})
}

func (g *grouping) add(stall *cluster.Stall) {
	m := member{Kind: string(stall.Subject.Kind), Name: stall.Subject.ID, Count: 1, Since: stall.Since.WallTime()}
	switch stall.Subject.Kind {
	case cluster.SubjectTask:
		m.Link = "/tasks/" + stall.Subject.ID
	case cluster.SubjectSlot, cluster.SubjectJob, cluster.SubjectUpdate, cluster.SubjectGroup:
		m.Link = "/jobs/" + stall.Subject.Job()
	case cluster.SubjectNode:
		if n := g.state.Node(cluster.NodeID(stall.Subject.ID)); n != nil {
			m.Name = n.Spec.Name
		}
		m.Link = "/nodes/" + m.Name
	case cluster.SubjectPlugin:
		m.Link = "/plugins/" + stall.Subject.ID
	case cluster.SubjectCluster:
		m.Name = "the cluster"
	}
	g.cause(stall, stall.Since).join(m)
}

// cause returns that of a stall. What it says is what the one says that has waited longest.
func (g *grouping) cause(stall *cluster.Stall, since cluster.Time) *cause {
	key := stall.Cause()
	c := g.found[key]
	if c == nil {
		c = &cause{
			ID: "cause-" + slug(strings.Join([]string{string(key.Code), key.Source, key.Detail}, "-")), Code: string(key.Code), Source: key.Source, Detail: key.Detail, oldest: since, Quiet: stall.Code == cluster.CodeWaitingForTurn,
			Message: stall.Message, Clears: stall.Clears,
		}
		g.found[key] = c
	}
	if since.Before(c.oldest) {
		c.oldest, c.Message, c.Clears = since, stall.Message, stall.Clears
		c.group = ""
	}
	return c
}

func (c *cause) join(m member) {
	c.Count += m.Count
	if len(c.Members) < maxMembers {
		c.Members = append(c.Members, m)
		return
	}
	c.More++
}

// slug returns a text that is part of an address or an element's id.
func slug(text string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, text), "-")
}

func oneIf(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
