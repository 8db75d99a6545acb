package engine

import (
	"slices"

	"github.com/setpointd/setpoint/core/place"
	"github.com/setpointd/setpoint/core/reconcile"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// session returns the plugin if the session is its newest and it is up; otherwise nil, and what it says is to be ignored.
func (e *Engine) session(name string, session uint64) *pluginState {
	p := e.plugins[name]
	if p == nil || !p.up || p.info.Session != session {
		return nil
	}
	return p
}

// pluginApplied makes answers count for the nodes that changed up to a revision, except those of what is late.
func (e *Engine) pluginApplied(in PluginApplied) {
	p := e.session(in.Name, in.Session)
	if p == nil || in.Revision < p.applied {
		return
	}
	p.applied = in.Revision
	now := place.NewBitmap(len(e.byIndex))
	for i := range p.pending.All() {
		if n := e.nodeAt(uint32(i)); n == nil || n.Seen.Latest(p.watches()) <= in.Revision {
			now.Set(i)
		}
	}
	p.pending = p.pending.AndNot(now)
	for _, id := range in.LateClasses {
		if c := p.classes[id]; c != nil {
			c.late, c.lateAt = c.late.Or(now), in.Revision
		}
	}
	for i := range now.All() {
		e.judged(p, uint32(i))
	}
	for _, a := range p.jobs {
		if late := slices.Contains(in.LateJobs, a.job.Name); !late && a.known {
			a.fresh = a.asOf == a.job.Revision
		}
	}
	for name := range e.answered {
		e.dirtyJobs[name] = true
	}
	e.weigh(p)
}

// judged has all looked at again that depends on whether a filter's verdicts about a node count.
func (e *Engine) judged(p *pluginState, i uint32) {
	if !p.isFilter() {
		return
	}
	e.wakeNode(i)
	for _, g := range e.groups {
		if g.stands == nil || g.stands.Pending(int(i)) {
			g.changed[i] = true // others are told of with their class, if the verdict is another now
		}
	}
	if n := e.nodeAt(i); n != nil {
		e.dirtyTasksOn(n.ID)
	}
}

// pluginVerdicts takes what a filter says of classes.
func (e *Engine) pluginVerdicts(in PluginVerdicts) {
	p := e.session(in.Name, in.Session)
	if p == nil {
		return
	}
	for _, v := range in.Classes {
		c := p.classes[v.Class]
		if c == nil || v.ClassRevision != c.Revision {
			continue // it has ended since
		}
		c.take(v)
		c.session = in.Session
		if v.Failure == nil && in.Revision >= c.lateAt {
			if c.late.Count() > 0 {
				e.inTime(c) // also where nothing was said because nothing changed
			}
			c.late = nil
		}
		e.classChanged(c, v)
	}
	e.weigh(p)
}

// inTime has all looked at again that depends on a class of which some answers were late.
func (e *Engine) inTime(c *class) {
	for name := range c.jobs {
		e.dirtyJobs[name] = true
		e.forgetBook(name)
		for _, g := range e.groupsOf[name] {
			g.dirty = true
		}
	}
}

// take replaces or changes what was said of the class.
func (c *class) take(v ClassVerdict) {
	if v.Failure != nil {
		c.failure = v.Failure
		return
	}
	c.failure = nil
	if v.Flips != nil {
		c.flip(v.Flips)
		return
	}
	c.answered, c.indifferent, c.stall = true, v.Indifferent, v.Stall
	c.allowed, c.reasons, c.table, c.ranks = nil, nil, nil, nil
	if f := v.Full; f != nil {
		c.allowed, c.table, c.ranks = place.FromBytes(f.Allowed), f.Rejections, f.Ranks
		for k, i := range f.Nodes {
			c.setReason(i, f.Reasons[k]+1)
		}
	}
}

func (c *class) flip(f *FlipVerdict) {
	c.table = append(c.table[:len(c.table):len(c.table)], f.Rejections...)
	for k, i := range f.Nodes {
		c.allowed = c.allowed.With(int(i), f.Reasons[k] == 0)
		c.setReason(i, f.Reasons[k])
		if len(f.Ranks) > 0 {
			for len(c.ranks) <= int(i) {
				c.ranks = append(c.ranks, 0)
			}
			c.ranks[i] = f.Ranks[k]
		}
	}
}

func (c *class) setReason(i, reason uint32) {
	for len(c.reasons) <= int(i) {
		c.reasons = append(c.reasons, 0)
	}
	c.reasons[i] = reason
}

// rejection returns why the class is refused on a node; ok is false if it is not.
func (c *class) rejection(i uint32) (Rejection, bool) {
	if int(i) >= len(c.reasons) || c.reasons[i] == 0 || int(c.reasons[i]) > len(c.table) {
		return Rejection{}, false
	}
	return c.table[c.reasons[i]-1], true
}

// classChanged has the jobs of a class looked at again.
func (e *Engine) classChanged(c *class, v ClassVerdict) {
	for name := range c.jobs {
		e.dirtyJobs[name] = true
		if v.Flips == nil {
			e.forgetBook(name)
		}
		for _, g := range e.groupsOf[name] {
			if v.Flips == nil {
				g.dirty = true
				continue
			}
			for _, i := range v.Flips.Nodes {
				g.changed[i] = true
			}
		}
	}
	if v.Flips != nil {
		for _, i := range v.Flips.Nodes {
			e.wakeNode(i)
		}
	}
}

// ignored reports whether what the filter has not judged is allowed: it is away, and that is how its failure is to be taken.
func (p *pluginState) ignored() bool { return !p.up && p.info.FailureOpen }

// unjudged returns the nodes of which no verdict of the class counts.
func (p *pluginState) unjudged(c *class) place.Bitmap {
	if len(c.late) == 0 {
		return p.pending
	}
	return p.pending.Or(c.late)
}

// filters returns what the filters say of a job's class, for placing, in the order of their names.
func (e *Engine) filters(job string) []place.Filter {
	var out []place.Filter
	for _, name := range e.pluginNames {
		p := e.plugins[name]
		if !p.isFilter() {
			continue
		}
		if f, ok := e.filter(p, job); ok {
			out = append(out, f)
		}
	}
	return out
}

func (e *Engine) filter(p *pluginState, job string) (place.Filter, bool) {
	f := place.Filter{Name: p.name}
	if !p.up {
		f.Away, f.Detail = p.code, p.reference()
	}
	c := p.classes[e.jobClasses[job][p.name]]
	switch {
	case c == nil || !c.answered:
		if p.ignored() {
			return f, false
		}
		if c != nil && c.failure != nil {
			f.Away, f.Detail = c.failure.Code, c.failure.Message
		}
		f.Pending = e.allIndexes()
	case c.indifferent:
		return f, false
	case c.stall != nil:
		s := c.stall
		f.Reason = func(int) (cluster.Code, string) { return s.Code, s.Message }
		f.Clears = func(int) string { return s.Clears }
	default:
		if c.failure != nil {
			f.Away, f.Detail = c.failure.Code, c.failure.Message
		}
		f.Allowed, f.Pending, f.Ranks = c.allowed, p.unjudged(c), c.ranks
		if p.ignored() {
			f.Allowed, f.Pending = f.Allowed.Or(f.Pending), nil
		}
		f.Reason = func(i int) (cluster.Code, string) {
			r, ok := c.rejection(uint32(i))
			if !ok {
				return cluster.CodePluginPending, ""
			}
			return r.Code, r.Detail
		}
		f.Clears = func(i int) string {
			r, _ := c.rejection(uint32(i))
			return r.Clears
		}
	}
	return f, true
}

func (e *Engine) allIndexes() place.Bitmap {
	b := place.NewBitmap(len(e.byIndex))
	for i, id := range e.byIndex {
		if id != "" {
			b.Set(i)
		}
	}
	return b
}

// Verdict joins what the filters say of a job's tasks on a node, for reconcile: only a refusal that counts refuses, and only one that evicts ends tasks.
func (v view) Verdict(job *cluster.Job, node cluster.NodeID) reconcile.Verdict {
	var out reconcile.Verdict
	i, ok := v.e.index[node]
	if !ok {
		return reconcile.Verdict{Pending: true}
	}
	for _, name := range v.e.pluginNames {
		p := v.e.plugins[name]
		if !p.isFilter() {
			continue
		}
		c := p.classes[v.e.jobClasses[job.Name][p.name]]
		switch {
		case c == nil || !c.answered:
			out.Pending = out.Pending || !p.ignored()
		case c.indifferent || c.stall != nil:
			out.Pending = out.Pending || c.stall != nil
		case p.unjudged(c).Get(int(i)):
			out.Pending = out.Pending || !p.ignored()
		case !c.allowed.Get(int(i)):
			r, _ := c.rejection(i)
			if !out.Evicts {
				out.By, out.Detail = p.name, r.Detail
			}
			out.Refused, out.Evicts = true, out.Evicts || r.Evicts && p.trust == trusted
		}
	}
	if out.Refused {
		out.Pending = false
	}
	return out
}

// mayRefuse reports whether some filter has refused a job's tasks some node. Before filters have answered, as when a server starts, none has.
func (v view) mayRefuse(job *cluster.Job) bool {
	for _, p := range v.e.plugins {
		if c := p.classes[v.e.jobClasses[job.Name][p.name]]; p.isFilter() && c != nil && c.answered && !c.indifferent && c.stall == nil {
			return true
		}
	}
	return false
}
