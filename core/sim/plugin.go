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

// Plugin plays one plugin: the author's own logic, called directly, behind a host's queue that can be slow or dead.
type Plugin struct {
	Delay  time.Duration // between being told and answering
	Dead   bool
	Delta  bool  // it says only what changed, as the SDK does
	Faulty Fault // what is wrong with it now
	Open   bool  // on_failure = "ignore": what the filter has not judged is allowed while it is away

	def     sdk.Plugin
	session uint64
	started time.Duration // when the session began
	queue   []told
	nodes   map[uint32]*cluster.Node
	classes map[uint32]engine.Class
	jobs    map[string]engine.PluginJob
	said    map[uint32]*saidOf
	slotted map[string]map[cluster.SlotKey]engine.SlotAnswer
	applied cluster.Revision
	owes    bool // it failed to answer something since it last answered all
}

// saidOf is what a filter last said of a class.
type saidOf struct {
	table   int
	judged  map[uint32]bool
	reasons map[uint32]engine.Rejection // of refused nodes
	ranks   map[uint32]int8
}

// Fault is what can be wrong with a plugin that runs.
type Fault uint8

// The faults of a plugin.
const (
	Sound  Fault = iota
	Errors       // each question fails
	Keeps        // it stalls: a drainer keeps every task, a job type holds every slot, a filter cannot compile
)

type told struct {
	at     time.Duration // in the world's time; 0: not looked at yet
	late   bool          // the host said that there was no answer in time
	update engine.PluginUpdate
}

// timeout is how long the host waits for an answer.
const timeout = 2 * time.Second

func newPlugin(def sdk.Plugin) *Plugin { return &Plugin{def: def} }

// Plugin returns a plugin by name.
func (w *World) Plugin(name string) *Plugin { return w.plugin(name) }

// StartPlugin begins a new session of a plugin, with an empty mirror.
func (w *World) StartPlugin(name string) {
	p := w.plugin(name)
	w.session++
	p.Dead, p.session, p.started, p.queue, p.applied, p.owes = false, w.session, w.real, nil, 0, false
	p.nodes, p.classes, p.jobs = map[uint32]*cluster.Node{}, map[uint32]engine.Class{}, map[string]engine.PluginJob{}
	p.said, p.slotted = map[uint32]*saidOf{}, map[string]map[cluster.SlotKey]engine.SlotAnswer{}
	up := engine.PluginUp{Name: name, Session: p.session, Filter: p.def.Filter != nil, Drainer: p.def.Drainer != nil, FailureOpen: p.Open}
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
	w.send(engine.PluginDown{Name: name, Session: p.session, Code: cluster.CodePluginUnavailable, Message: "killed", FailureOpen: p.Open})
}

func (p *Plugin) tell(u engine.PluginUpdate) {
	if u.Session == p.session && !p.Dead {
		p.queue = append(p.queue, told{update: u})
	}
}

// answer takes what it was told long enough ago and says what follows.
func (p *Plugin) answer(w *World) {
	for len(p.queue) > 0 && !p.Dead {
		q := &p.queue[0]
		if q.at == 0 {
			q.at = w.real
		}
		if w.real-q.at < p.Delay {
			if w.real-q.at >= timeout && !q.late {
				q.late = true
				p.fail(w, &q.update, cluster.CodePluginTimeout)
			}
			return
		}
		u, late := q.update, q.late
		p.queue = p.queue[1:]
		p.take(u)
		if p.Faulty == Errors {
			p.fail(w, &u, cluster.CodePluginError)
			continue
		}
		if late {
			u.Drains = nil // nobody waits for these answers any more
		}
		p.say(w, u)
	}
}

// Mend ends what is wrong with the plugin. What it failed to answer it is asked again.
func (p *Plugin) Mend(w *World) {
	p.Delay = 0
	if p.Faulty == Sound && !p.owes || p.Dead {
		p.Faulty = Sound
		return
	}
	p.Faulty, p.owes = Sound, false
	clear(p.said)
	clear(p.slotted)
	p.say(w, engine.PluginUpdate{})
}

// fail says that what an update asks was not answered. The plugin has applied the update all the same.
func (p *Plugin) fail(w *World, u *engine.PluginUpdate, code cluster.Code) {
	failure := &engine.FailureAnswer{Code: code, Message: "the simulator says so"}
	p.owes = true
	late := engine.PluginApplied{Name: p.def.Name, Session: p.session, Revision: u.Revision}
	if p.def.Filter != nil {
		v := engine.PluginVerdicts{Name: p.def.Name, Session: p.session, Revision: u.Revision}
		for _, id := range slices.Sorted(maps.Keys(p.classes)) {
			late.LateClasses = append(late.LateClasses, id)
			v.Classes = append(v.Classes, engine.ClassVerdict{Class: id, ClassRevision: p.classes[id].Revision, Failure: failure})
		}
		for _, c := range u.AddClasses {
			if _, known := p.classes[c.ID]; !known {
				v.Classes = append(v.Classes, engine.ClassVerdict{Class: c.ID, ClassRevision: c.Revision, Failure: failure})
			}
		}
		w.send(v)
	}
	for _, name := range slices.Sorted(maps.Keys(p.jobs)) {
		late.LateJobs = append(late.LateJobs, name)
		w.send(engine.PluginSlots{Name: p.def.Name, Session: p.session, Revision: u.Revision, Job: name, JobRevision: p.jobs[name].Revision, Failure: failure})
	}
	for _, j := range u.AddJobs {
		if have, known := p.jobs[j.Name]; !known || have.Revision != j.Revision {
			w.send(engine.PluginSlots{Name: p.def.Name, Session: p.session, Revision: u.Revision, Job: j.Name, JobRevision: j.Revision, Failure: failure})
		}
	}
	for _, q := range u.Drains {
		w.send(engine.PluginDrain{Name: p.def.Name, Session: p.session, Question: q.ID, Failure: failure})
	}
	if code == cluster.CodePluginError && (u.Revision > 0 || u.Reset) {
		p.applied = max(p.applied, u.Revision)
		w.send(late)
	}
}

func (p *Plugin) take(u engine.PluginUpdate) {
	if u.Reset {
		clear(p.nodes)
	}
	for _, n := range u.Nodes {
		if n.Node == nil {
			delete(p.nodes, n.Index)
			for _, last := range p.said {
				delete(last.judged, n.Index)
				delete(last.reasons, n.Index)
			}
		} else {
			p.nodes[n.Index] = n.Node
		}
	}
	for _, c := range u.AddClasses {
		p.classes[c.ID] = c
		delete(p.said, c.ID)
	}
	for _, id := range u.RemoveClasses {
		delete(p.classes, id)
		delete(p.said, id)
	}
	for _, j := range u.AddJobs {
		p.jobs[j.Name] = j
		delete(p.slotted, j.Name)
	}
	for _, name := range u.RemoveJobs {
		delete(p.jobs, name)
		delete(p.slotted, name)
	}
}

// say answers everything anew, or with Delta only what is other than before: the core must come to the same end.
func (p *Plugin) say(w *World, u engine.PluginUpdate) {
	p.applied = max(p.applied, u.Revision)
	if p.def.Filter != nil {
		v := engine.PluginVerdicts{Name: p.def.Name, Session: p.session, Revision: p.applied}
		for _, id := range slices.Sorted(maps.Keys(p.classes)) {
			v.Classes = append(v.Classes, p.delta(p.verdict(p.classes[id]))...)
		}
		w.send(v)
	}
	for _, name := range slices.Sorted(maps.Keys(p.jobs)) {
		w.send(p.changed(p.slots(p.jobs[name], p.applied)))
	}
	for _, q := range u.Drains {
		w.send(p.drain(q))
	}
	if u.Revision > 0 || u.Reset {
		w.send(engine.PluginApplied{Name: p.def.Name, Session: p.session, Revision: u.Revision})
	}
}

// delta turns a verdict into what changed since the last one of the class, if that is how the plugin speaks.
func (p *Plugin) delta(v engine.ClassVerdict) []engine.ClassVerdict {
	last := p.said[v.Class]
	if v.Full == nil {
		delete(p.said, v.Class)
		return []engine.ClassVerdict{v}
	}
	next := &saidOf{table: len(v.Full.Rejections), judged: map[uint32]bool{}, reasons: map[uint32]engine.Rejection{}, ranks: map[uint32]int8{}}
	for i := range p.nodes {
		next.judged[i] = true
		if int(i) < len(v.Full.Ranks) {
			next.ranks[i] = v.Full.Ranks[i]
		}
	}
	for k, i := range v.Full.Nodes {
		next.reasons[i] = v.Full.Rejections[v.Full.Reasons[k]]
	}
	p.said[v.Class] = next
	if last == nil || !p.Delta {
		return []engine.ClassVerdict{v}
	}
	f := &engine.FlipVerdict{}
	next.table = last.table
	for _, i := range slices.Sorted(maps.Keys(p.nodes)) {
		before, refused := last.reasons[i]
		now, refuses := next.reasons[i]
		if refused == refuses && before == now && last.judged[i] && last.ranks[i] == next.ranks[i] {
			continue
		}
		f.Nodes = append(f.Nodes, i)
		if len(v.Full.Ranks) > 0 {
			f.Ranks = append(f.Ranks, next.ranks[i])
		}
		if !refuses {
			f.Reasons = append(f.Reasons, 0)
			continue
		}
		f.Rejections = append(f.Rejections, now)
		next.table++
		f.Reasons = append(f.Reasons, uint32(next.table))
	}
	if len(f.Nodes) == 0 {
		return nil
	}
	return []engine.ClassVerdict{{Class: v.Class, ClassRevision: v.ClassRevision, Flips: f}}
}

// changed turns an answer about slots into what changed since the last one, if that is how the plugin speaks.
func (p *Plugin) changed(s engine.PluginSlots) engine.PluginSlots {
	next := map[cluster.SlotKey]engine.SlotAnswer{}
	for _, x := range s.Upsert {
		next[x.Key] = x
	}
	last, known := p.slotted[s.Job]
	if s.Stall != nil {
		delete(p.slotted, s.Job)
		return s
	}
	p.slotted[s.Job] = next
	if !known || !p.Delta {
		return s
	}
	s.Delta, s.Upsert = true, slices.DeleteFunc(s.Upsert, func(x engine.SlotAnswer) bool {
		old, ok := last[x.Key]
		return ok && slices.Equal(old.Nodes, x.Nodes) && old.Ends == x.Ends && old.Stall == nil && x.Stall == nil
	})
	for _, key := range slices.Sorted(maps.Keys(last)) {
		if _, ok := next[key]; !ok {
			s.Remove = append(s.Remove, key)
		}
	}
	return s
}

func (p *Plugin) verdict(c engine.Class) engine.ClassVerdict {
	out := engine.ClassVerdict{Class: c.ID, ClassRevision: c.Revision}
	if p.Faulty == Keeps {
		p.owes = true
		out.Stall = &engine.StallAnswer{Code: "sim.cannot", Message: "the simulator cannot compile it", Clears: "the fault ends"}
		return out
	}
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
			full.Ranks = ranked(full.Ranks, m, p.nodes[i], i)
			continue
		}
		s := stall(err)
		full.Nodes, full.Reasons = append(full.Nodes, i), append(full.Reasons, uint32(len(full.Rejections)))
		full.Rejections = append(full.Rejections, engine.Rejection{Code: s.Code, Detail: s.Detail, Clears: s.Clears, Evicts: s.Evicts})
	}
	out.Full = full
	return out
}

// ranked notes how welcome tasks are on node i, if the matcher says that.
func ranked(ranks []int8, m sdk.Matcher, n *cluster.Node, i uint32) []int8 {
	r, ok := m.(sdk.Ranker)
	if !ok {
		return ranks
	}
	for len(ranks) <= int(i) {
		ranks = append(ranks, 0)
	}
	ranks[i] = int8(max(-100, min(100, r.Rank(n))))
	return ranks
}

func (p *Plugin) slots(j engine.PluginJob, rev cluster.Revision) engine.PluginSlots {
	out := engine.PluginSlots{Name: p.def.Name, Session: p.session, Revision: rev, Job: j.Name, JobRevision: j.Revision}
	if p.Faulty == Keeps {
		p.owes = true
		out.Stall = &engine.StallAnswer{Code: "sim.held", Message: "the simulator holds the job", Clears: "the fault ends"}
		return out
	}
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
	if p.Faulty == Keeps {
		for _, t := range q.Tasks {
			out.Kept = append(out.Kept, engine.KeptAnswer{Task: t.Task.ID, Stall: engine.StallAnswer{Code: "sim.kept", Message: "the simulator keeps it", Clears: "a while passes"}})
		}
		out.Until = time.Second
		return out
	}
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
