package engine

import (
	"maps"
	"slices"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Foresee asks for a copy of all that the engine goes by, so that operations can be tried on it. It changes nothing and returns *Foresight.
type Foresee struct{}

func (Foresee) op() {}

// Foresight is the newest state with what agents and plugins have said, at one moment. What is tried on it reaches nobody. It can be tried upon once, by one
// goroutine.
type Foresight struct {
	cfg     Config
	state   *State
	now     cluster.Time
	byIndex []cluster.NodeID
	agents  map[cluster.NodeID]*agent
	blocked map[uint32]string // nodes that take nothing, by index
	plugins map[string]*pluginState
}

// foresee copies what the engine changes in place. The state is a snapshot already; everything else is derived from these by the copy itself, so that the
// engine is not kept waiting.
func (e *Engine) foresee(s *State, now cluster.Time) *Foresight {
	f := &Foresight{
		cfg: e.cfg, state: s, now: now, byIndex: slices.Clone(e.byIndex), agents: make(map[cluster.NodeID]*agent, len(e.agents)),
		blocked: map[uint32]string{}, plugins: make(map[string]*pluginState, len(e.plugins)),
	}
	f.cfg.Plugins = nil // those that there are now are copied
	for id, a := range e.agents {
		x := *a
		x.named = maps.Clone(a.named)
		f.agents[id] = &x
	}
	for i, n := range e.ledger.nodes {
		if n != nil && n.Blocked != "" {
			f.blocked[uint32(i)] = n.Blocked
		}
	}
	for name, p := range e.plugins {
		f.plugins[name] = p.copy()
	}
	return f
}

// engine returns an engine of its own that goes on from here.
func (f *Foresight) engine() *Engine {
	st := f.state.fork()
	st.Now = f.now
	e := blank(f.cfg, st)
	e.still = true
	e.byIndex, e.plugins, e.pluginNames = f.byIndex, f.plugins, slices.Sorted(maps.Keys(f.plugins))
	for i, id := range e.byIndex {
		if id != "" {
			e.index[id] = uint32(i)
		}
	}
	for name, p := range e.plugins {
		for id, c := range p.classes {
			for job := range c.jobs {
				if e.jobClasses[job] == nil {
					e.jobClasses[job] = map[string]uint32{}
				}
				e.jobClasses[job][name] = id
			}
		}
	}
	e.load(f.now)
	e.agents = f.agents
	for i, n := range e.ledger.nodes {
		if n != nil {
			n.Blocked = f.blocked[uint32(i)]
			e.ledger.reopen(uint32(i))
		}
	}
	return e
}

// copy returns the plugin's state with nothing that is changed in place in common.
func (p *pluginState) copy() *pluginState {
	out := *p
	out.out = nil
	out.byKey = maps.Clone(p.byKey)
	out.classes = make(map[uint32]*class, len(p.classes))
	for id, c := range p.classes {
		x := *c
		x.jobs, x.reasons, x.ranks = maps.Clone(c.jobs), slices.Clone(c.reasons), slices.Clone(c.ranks)
		out.classes[id] = &x
	}
	out.jobs = make(map[string]*jobAnswer, len(p.jobs))
	for name, a := range p.jobs {
		x := *a
		x.slots, x.among = maps.Clone(a.slots), make(map[uint32][]cluster.SlotKey, len(a.among))
		for i, keys := range a.among {
			x.among[i] = slices.Clone(keys)
		}
		out.jobs[name] = &x
	}
	out.drains = make(map[cluster.NodeID]*drainAnswer, len(p.drains))
	for id, d := range p.drains {
		x := *d
		x.asked, x.transitions, x.kept = 0, maps.Clone(d.transitions), maps.Clone(d.kept)
		out.drains[id] = &x
	}
	return &out
}

// awaits reports whether the plugin owes an answer: about nodes that changed, a class, a job's slots or a drain.
func (p *pluginState) awaits() bool {
	if !p.up {
		return false
	}
	if p.pending.Count() > 0 {
		return true
	}
	for _, c := range p.classes {
		if p.info.Filter && c.failure == nil && (!c.answered || c.late.Count() > 0) {
			return true
		}
	}
	for _, a := range p.jobs {
		if a.failure == nil && (a.coming || !a.known || a.asOf != a.job.Revision) {
			return true
		}
	}
	for _, d := range p.drains {
		if d.asked != 0 {
			return true
		}
	}
	return false
}

// whole returns all that a session of the plugin begins with: its mirror, and what it is asked.
func (e *Engine) whole(p *pluginState) PluginUpdate {
	out := PluginUpdate{Plugin: p.name, Session: p.info.Session, Reset: true, Revision: e.work.Revision}
	for i, id := range e.byIndex {
		if id != "" {
			out.Nodes = append(out.Nodes, IndexedNode{Index: uint32(i), Node: e.work.Node(id)})
		}
	}
	if p.info.Filter {
		for _, id := range slices.Sorted(maps.Keys(p.classes)) {
			out.AddClasses = append(out.AddClasses, p.classes[id].Class)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.jobs)) {
		out.AddJobs = append(out.AddJobs, p.jobs[name].job)
	}
	return out
}
