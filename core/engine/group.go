package engine

import (
	"cmp"
	"maps"
	"slices"

	"github.com/setpointd/setpoint/core/place"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// group is the waiting tasks that are placed together. It is tried again when something that it depends on changed, and by nothing else.
type group struct {
	key     string
	job     string
	tasks   map[cluster.TaskID]*cluster.Task
	dirty   bool            // to be placed
	changed map[uint32]bool // nodes that may have become able to take a task, or excluded for another reason
	stands  *place.Standing // each node's first reason, when it was last tried in vain
	swept   uint64          // the net's round in which it was looked at last
}

func (e *Engine) joinGroup(t *cluster.Task) {
	key := GroupKey(t)
	g := e.groups[key]
	if g == nil {
		g = &group{key: key, job: t.Job, tasks: map[cluster.TaskID]*cluster.Task{}, changed: map[uint32]bool{}}
		e.groups[key] = g
		if e.groupsOf[g.job] == nil {
			e.groupsOf[g.job] = map[string]*group{}
		}
		e.groupsOf[g.job][key] = g
	}
	g.tasks[t.ID] = t
	g.dirty = true
}

func (e *Engine) leaveGroup(t *cluster.Task) {
	key := GroupKey(t)
	g := e.groups[key]
	delete(g.tasks, t.ID)
	if len(g.tasks) > 0 {
		return
	}
	delete(e.groups, key)
	if delete(e.groupsOf[g.job], key); len(e.groupsOf[g.job]) == 0 {
		delete(e.groupsOf, g.job)
	}
	e.setStalls(e.work.StallsOf(groupSubject(key)), nil)
}

// one returns one of the group's tasks: what is the same in all of them can be read from it.
func (g *group) one() *cluster.Task {
	for _, t := range g.tasks {
		return t
	}
	panic("group " + g.key + " has no task")
}

func groupSubject(key string) cluster.Subject {
	return cluster.Subject{Kind: cluster.SubjectGroup, ID: key}
}

// sorted returns the group's tasks in the order in which they are placed.
func (g *group) sorted() []*cluster.Task {
	return slices.SortedFunc(maps.Values(g.tasks), func(a, b *cluster.Task) int {
		return cmp.Or(cmp.Compare(a.CreatedRev, b.CreatedRev), compareKeys(a.Slot, b.Slot), cmp.Compare(a.ID, b.ID))
	})
}

// placeGroup is the group as place sees it, without its tasks.
func (e *Engine) placeGroup(g *group) place.Group {
	one := g.one()
	out := e.groupOf(g.job, one.Nodes, one.Reserve, one.JobVersion)
	out.Key = g.key
	return out
}

// ableChanged has what waits look again at a node whose agent says that it can do something else than before.
func (e *Engine) ableChanged(i uint32) {
	for _, g := range e.groups {
		g.changed[i] = true
	}
}

// place puts waiting tasks on nodes, and records why others have to wait. It places no more than a turn may write; the rest follows in the next.
func (e *Engine) place(now cluster.Time) {
	c := e.cluster()
	var try []place.Group
	stalled := map[string]bool{} // groups that were looked at and wait
	for _, g := range e.groupsToTry() {
		if e.awaitsVerdict(g.job) {
			g.dirty = true
			continue
		}
		if pg := e.placeGroup(g); e.worthTrying(c, g, pg) {
			pg.Tasks = g.sorted()
			try = append(try, pg)
		} else {
			stalled[g.key] = true
		}
		g.dirty = false
		clear(g.changed)
	}
	clear(e.changedNodes)
	e.recount(stalled, e.placeAll(try, stalled, now))
}

// groupsToTry returns the groups of which something changed that they depend on, by key.
func (e *Engine) groupsToTry() []*group {
	var out []*group
	for _, g := range e.groups {
		if g.dirty || g.stands == nil || len(e.changesFor(g)) > 0 {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b *group) int { return cmp.Compare(a.key, b.key) })
	return out
}

// changesFor returns the nodes that a group has to be looked at for again. To a group that a filter keeps from a node it makes no difference how much room there
// is.
func (e *Engine) changesFor(g *group) []int {
	var out []int
	for i := range g.changed {
		out = append(out, int(i))
	}
	for i := range e.changedNodes {
		if !e.refused(g, int(i)) {
			out = append(out, int(i))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// refused reports whether a filter keeps a group that waits from a node, and that alone.
func (e *Engine) refused(g *group, i int) bool {
	n := e.ledger.nodes[i]
	return n != nil && n.Takes() && g.stands.Refused(i)
}

// placeAll places groups until the turn is full, those of higher priority first, and returns the nodes that took a task. Only what is placed fills a turn: what
// no node can take keeps nothing that comes after it from being tried.
func (e *Engine) placeAll(try []place.Group, stalled map[string]bool, now cluster.Time) []int {
	slices.SortStableFunc(try, func(a, b place.Group) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Tasks[0].CreatedRev, b.Tasks[0].CreatedRev))
	})
	var taken []int
	for room := e.cfg.MaxChanges; len(try) > 0; {
		if room <= 0 {
			e.nextTurn(try)
			break
		}
		part, cut := e.within(try, room)
		try = try[len(part):]
		c := e.cluster()
		e.ledger.rank(&c)
		r := place.Place(c, part)
		stands := map[string]bool{}
		for _, s := range r.Stalled {
			e.groups[s.Key].stands = &s.Standing
			stalled[s.Key], stands[s.Key] = true, true
		}
		chosen := newChoices(e, part)
		for _, p := range r.Placements {
			e.apply(cluster.AuthorPlace, cluster.SetPlacement{Task: p.Task, Placement: cluster.Placement{
				Node: e.byIndex[p.Node], Since: now, Ports: p.Ports, Addresses: p.Addresses, Among: chosen.among(p),
			}})
			taken = append(taken, p.Node)
		}
		room -= len(r.Placements)
		if last := part[len(part)-1:]; cut && !stands[last[0].Key] {
			e.nextTurn(last)
		}
	}
	slices.Sort(taken)
	return slices.Compact(taken)
}

// within returns the groups of which a turn with that much room can place every task; at least one, which is cut down to the room if it has more. What is kept
// room for comes first then: the rest of a group waits for the same as its beginning.
func (e *Engine) within(try []place.Group, room int) (first []place.Group, cut bool) {
	for i := range try {
		n := len(try[i].Tasks)
		if n > room && i > 0 {
			return try[:i], false
		}
		if n > room {
			kept := func(t *cluster.Task) int {
				if e.claims[t.Job+"/"+string(t.Slot)] != nil {
					return 0
				}
				return 1
			}
			slices.SortStableFunc(try[i].Tasks, func(a, b *cluster.Task) int { return cmp.Compare(kept(a), kept(b)) })
			try[i].Tasks = try[i].Tasks[:room]
			return try[:i+1], true
		}
		room -= n
	}
	return try, false
}

// nextTurn leaves groups to the next turn.
func (e *Engine) nextTurn(groups []place.Group) {
	for _, g := range groups {
		if left := e.groups[g.Key]; left != nil {
			left.dirty, e.more = true, true
		}
	}
}

// recount records why groups stall, and looks again at nodes on which there is less room now: others that wait may be kept from them by another reason than
// before.
func (e *Engine) recount(stalled map[string]bool, nodes []int) {
	c := e.cluster()
	for _, g := range e.groupsToRecount(stalled, nodes) {
		if len(nodes) > 0 {
			next := place.Recheck(c, e.placeGroup(g), *g.stands, nodes)
			g.stands = &next
		}
		if g.stands.Fits() { // room that was kept for a task has become free by its placing: the next turn takes it
			g.dirty, e.more = true, true
			continue
		}
		e.recordStanding(g)
	}
}

// groupsToRecount returns those that wait and were looked at, or that there is less room for, by key.
func (e *Engine) groupsToRecount(stalled map[string]bool, nodes []int) []*group {
	var out []*group
	for _, g := range e.groups {
		if g.stands == nil || g.dirty {
			continue
		}
		if stalled[g.key] || slices.ContainsFunc(nodes, func(i int) bool { return !e.refused(g, i) }) {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b *group) int { return cmp.Compare(a.key, b.key) })
	return out
}

// awaitsVerdict reports whether a filter that is up has been asked about a job for the first time and its answer is on its way. Until then there is nothing to
// be said of the job's tasks; an answer that takes too long comes as a failure.
func (e *Engine) awaitsVerdict(job string) bool {
	for _, name := range e.pluginNames {
		p := e.plugins[name]
		if !p.up || !p.info.Filter {
			continue
		}
		if c := p.classes[e.jobClasses[job][name]]; c != nil && !c.answered && c.failure == nil {
			return true
		}
	}
	return false
}

// worthTrying reports whether the group should be placed now. If only some nodes changed, they alone are looked at.
func (e *Engine) worthTrying(c place.Cluster, g *group, pg place.Group) bool {
	if g.dirty || g.stands == nil {
		return true
	}
	next := place.Recheck(c, pg, *g.stands, e.changesFor(g))
	g.stands = &next
	return next.Fits()
}

func (e *Engine) recordStanding(g *group) {
	facts := g.stands.Facts()
	s := cluster.Stall{Subject: groupSubject(g.key), Source: cluster.SourcePlacement, Code: g.stands.Code(), Facts: facts}
	e.setStalls(e.work.StallsOf(s.Subject), []cluster.Stall{s})
}
