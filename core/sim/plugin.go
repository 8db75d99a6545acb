package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Plugin plays one plugin: the author's own logic, called directly, behind a queue that can be slow or dead.
type Plugin struct {
	Delay time.Duration // between being told and answering
	Dead  bool

	def     sdk.Plugin
	session uint64
	queue   []told
	nodes   map[uint32]*cluster.Node
	classes map[uint32]engine.Class
	jobs    map[string]engine.PluginJob
}

type told struct {
	at     time.Duration
	update engine.PluginUpdate
}

func newPlugin(def sdk.Plugin) *Plugin { return &Plugin{def: def} }

// Plugin returns a plugin by name.
func (w *World) Plugin(name string) *Plugin { return w.plugin(name) }

// StartPlugin begins a new session of a plugin, with an empty mirror.
func (w *World) StartPlugin(name string) {
	p := w.plugin(name)
	w.session++
	p.Dead, p.session, p.queue = false, w.session, nil
	p.nodes, p.classes, p.jobs = map[uint32]*cluster.Node{}, map[uint32]engine.Class{}, map[string]engine.PluginJob{}
	up := engine.PluginUp{Name: name, Session: p.session, Filter: p.def.Filter != nil, Drainer: p.def.Drainer != nil}
	up.JobTypes = slices.Sorted(maps.Keys(p.def.JobTypes))
	for _, watch := range p.def.Watches {
		up.Watches |= cluster.Mask(watched[watch])
	}
	w.send(up)
}

var watched = map[sdk.Watch]cluster.NodeField{
	sdk.WatchLabels: cluster.FieldLabels, sdk.WatchAttributes: cluster.FieldAttributes, sdk.WatchPlatform: cluster.FieldPlatform,
	sdk.WatchCapacity: cluster.FieldCapacity, sdk.WatchAvailability: cluster.FieldAvailability, sdk.WatchState: cluster.FieldState,
}

// KillPlugin ends a plugin's session.
func (w *World) KillPlugin(name string) {
	p := w.plugin(name)
	p.Dead = true
	w.send(engine.PluginDown{Name: name, Session: p.session, Code: cluster.CodePluginUnavailable, Message: "killed"})
}

func (p *Plugin) tell(u engine.PluginUpdate) {
	if u.Session == p.session && !p.Dead {
		p.queue = append(p.queue, told{update: u})
	}
}

// answer takes what it was told long enough ago and says what follows.
func (p *Plugin) answer(w *World) {
	for len(p.queue) > 0 && !p.Dead {
		if p.queue[0].at == 0 {
			p.queue[0].at = w.now.Engine + p.Delay
		}
		if p.queue[0].at > w.now.Engine {
			return
		}
		u := p.queue[0].update
		p.queue = p.queue[1:]
		p.take(u)
		p.say(w, u)
	}
}

func (p *Plugin) take(u engine.PluginUpdate) {
	if u.Reset {
		clear(p.nodes)
	}
	for _, n := range u.Nodes {
		if n.Node == nil {
			delete(p.nodes, n.Index)
		} else {
			p.nodes[n.Index] = n.Node
		}
	}
	for _, c := range u.AddClasses {
		p.classes[c.ID] = c
	}
	for _, id := range u.RemoveClasses {
		delete(p.classes, id)
	}
	for _, j := range u.AddJobs {
		p.jobs[j.Name] = j
	}
	for _, name := range u.RemoveJobs {
		delete(p.jobs, name)
	}
}

// say answers everything anew: the core must come to the same end as with answers that tell only what changed.
func (p *Plugin) say(w *World, u engine.PluginUpdate) {
	if p.def.Filter != nil {
		v := engine.PluginVerdicts{Name: p.def.Name, Session: p.session, Revision: u.Revision}
		for _, id := range slices.Sorted(maps.Keys(p.classes)) {
			v.Classes = append(v.Classes, p.verdict(p.classes[id]))
		}
		w.send(v)
	}
	for _, name := range slices.Sorted(maps.Keys(p.jobs)) {
		w.send(p.slots(p.jobs[name], u.Revision))
	}
	for _, q := range u.Drains {
		w.send(p.drain(q))
	}
	if u.Revision > 0 || u.Reset {
		w.send(engine.PluginApplied{Name: p.def.Name, Session: p.session, Revision: u.Revision})
	}
}

func (p *Plugin) verdict(c engine.Class) engine.ClassVerdict {
	out := engine.ClassVerdict{Class: c.ID, ClassRevision: c.Revision}
	m, err := p.def.Filter.Compile(context.Background(), sdk.CompileRequest{JobType: c.JobType, Labels: c.Labels, Settings: sdk.Settings(c.Settings)})
	switch {
	case err != nil:
		out.Stall = stall(err)
		return out
	case m == nil:
		out.Indifferent = true
		return out
	}
	full := &engine.FullVerdict{}
	for _, i := range slices.Sorted(maps.Keys(p.nodes)) {
		for len(full.Allowed) <= int(i/8) {
			full.Allowed = append(full.Allowed, 0)
		}
		err := m.Match(p.nodes[i])
		if err == nil {
			full.Allowed[i/8] |= 1 << (i % 8)
			continue
		}
		s := stall(err)
		full.Nodes, full.Reasons = append(full.Nodes, i), append(full.Reasons, uint32(len(full.Rejections)))
		full.Rejections = append(full.Rejections, engine.Rejection{Code: s.Code, Detail: s.Detail, Clears: s.Clears, Evicts: s.Evicts})
	}
	out.Full = full
	return out
}

func (p *Plugin) slots(j engine.PluginJob, rev cluster.Revision) engine.PluginSlots {
	out := engine.PluginSlots{Name: p.def.Name, Session: p.session, Revision: rev, Job: j.Name, JobRevision: j.Revision}
	var nodes []*cluster.Node
	index := map[cluster.NodeID]uint32{}
	for _, i := range slices.Sorted(maps.Keys(p.nodes)) {
		nodes = append(nodes, p.nodes[i])
		index[p.nodes[i].ID] = i
	}
	slices.SortFunc(nodes, func(a, b *cluster.Node) int { return cmpID(a.ID, b.ID) })
	r, err := p.def.JobTypes[j.Type].Slots(context.Background(), sdk.SlotsRequest{
		Job: sdk.Job{Name: j.Name, Type: j.Type, Count: j.Count, Labels: j.Labels, Settings: sdk.Settings(j.Settings)}, Nodes: nodes,
	})
	if err != nil {
		out.Stall = stall(err)
		return out
	}
	for _, s := range r.Slots {
		a := engine.SlotAnswer{Key: s.Key, Ends: s.Ends}
		for _, id := range s.Nodes {
			a.Nodes = append(a.Nodes, index[id])
		}
		if s.Held != nil {
			a.Stall = stall(s.Held)
		}
		out.Upsert = append(out.Upsert, a)
	}
	return out
}

func (p *Plugin) drain(q engine.DrainQuestion) engine.PluginDrain {
	out := engine.PluginDrain{Name: p.def.Name, Session: p.session, Question: q.ID}
	req := sdk.DrainRequest{Node: p.nodes[q.Node], Waited: q.Waited, Deadline: q.Deadline}
	for _, t := range q.Tasks {
		req.Tasks = append(req.Tasks, sdk.DrainTask{
			ID: t.Task.ID, Job: t.Task.Job, JobType: t.JobType, Slot: t.Task.Slot, Priority: t.Priority, OnDrain: t.OnDrain,
			Desired: t.Task.Desired.State, Observed: t.Task.Observed.State, Healthy: t.Task.Observed.Healthy, Labels: t.Labels, Settings: sdk.Settings(t.Settings),
		})
	}
	r, err := p.def.Drainer.Drain(context.Background(), req)
	if err != nil {
		out.Failure = &engine.FailureAnswer{Code: cluster.CodePluginError, Message: err.Error()}
		return out
	}
	for _, t := range r.Transitions {
		strength := cluster.Voluntary
		if t.Forced {
			strength = cluster.Forced
		}
		grace := t.Grace
		switch grace {
		case 0:
			grace = -1
		case sdk.NoGrace:
			grace = 0
		}
		out.Transitions = append(out.Transitions, cluster.Transition{
			Task: t.Task, To: max(t.To, cluster.DesiredShutdown), Strength: strength, Reason: t.Reason, Grace: grace,
		})
	}
	for _, k := range r.Keep {
		out.Kept = append(out.Kept, engine.KeptAnswer{Task: k.Task, Stall: *stall(k.Why)})
	}
	out.Until = r.Again
	return out
}

func stall(err error) *engine.StallAnswer {
	var s *sdk.Stall
	if !errors.As(err, &s) {
		panic(fmt.Sprintf("the plugin's own failure: %v", err))
	}
	return &engine.StallAnswer{Code: s.Code, Message: s.Message, Detail: s.Detail, Clears: s.Clears, Evicts: s.Evicts}
}

func cmpID(a, b cluster.NodeID) int {
	if a < b {
		return -1
	}
	return 1
}
