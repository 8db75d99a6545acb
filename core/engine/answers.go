package engine

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/setpointd/setpoint/core/reconcile"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// jobAnswer is what a plugin says of the slots of one job.
type jobAnswer struct {
	job     PluginJob
	known   bool             // something was said
	fresh   bool             // at or after the last change of the job and of every node
	asOf    cluster.Revision // the job's revision for which it was said
	coming  bool             // parts of an answer are still to come
	slots   map[cluster.SlotKey]SlotAnswer
	among   map[uint32][]cluster.SlotKey // by node index: those of slots that are limited to it, and to others perhaps
	stall   *StallAnswer
	failure *FailureAnswer
}

// server returns the plugin that is asked about a job type, or nil: of several that serve it the first by name, whichever came first.
func (e *Engine) server(jobType string) *pluginState {
	for _, name := range e.pluginNames {
		if p := e.plugins[name]; p.ever && slices.Contains(p.info.JobTypes, jobType) {
			return p
		}
	}
	return nil
}

// registerAnswered asks the plugin that serves a job's type for its slots.
func (e *Engine) registerAnswered(j *cluster.Job) {
	s := &j.Control.Spec
	if s.Numbered() {
		delete(e.answered, j.Name)
		return
	}
	e.answered[j.Name] = true
	p := e.server(s.Type)
	if p == nil {
		return
	}
	a := p.jobs[j.Name]
	if a != nil && a.job.Revision == j.Control.ChangedRev {
		return
	}
	if a == nil {
		a = &jobAnswer{slots: map[cluster.SlotKey]SlotAnswer{}, among: map[uint32][]cluster.SlotKey{}}
		p.jobs[j.Name] = a
	}
	a.fresh = false
	a.job = pluginJob(p.name, j)
	if p.up {
		e.tell(p).AddJobs = append(e.tell(p).AddJobs, a.job)
	}
}

// pluginJob returns a job as the plugin that serves its type is told of it.
func pluginJob(plugin string, j *cluster.Job) PluginJob {
	s := &j.Control.Spec
	return PluginJob{
		Name: j.Name, Revision: j.Control.ChangedRev, Type: s.Type, Count: s.Count, Labels: s.Labels, Settings: s.Settings(plugin), Created: j.Created,
	}
}

// pluginSlots takes what a job type says of a job.
func (e *Engine) pluginSlots(in PluginSlots) {
	p := e.session(in.Name, in.Session)
	if p == nil {
		return
	}
	a := p.jobs[in.Job]
	if a == nil || in.JobRevision != a.job.Revision {
		return // it has ended or changed since
	}
	e.dirtyJobs[in.Job] = true
	if a.failure = in.Failure; in.Failure != nil {
		return
	}
	if !in.Delta && !a.coming {
		clear(a.slots)
		clear(a.among)
		e.forgetBook(in.Job)
	}
	for _, s := range in.Upsert {
		a.put(s)
		e.wakeSlot(in.Job, s.Key)
		for _, i := range s.Nodes {
			if n := e.nodeAt(i); n != nil && n.Created > in.Revision {
				a.forget(s.Key, i) // the plugin speaks of another node, which had this index before
			}
		}
	}
	for _, key := range in.Remove {
		a.drop(key)
		e.wakeSlot(in.Job, key)
	}
	if a.coming = in.More; a.coming {
		return
	}
	a.stall, a.known, a.asOf = in.Stall, true, in.JobRevision
	e.weigh(p)
}

// forget takes a node that is no more out of a slot that is limited to it. A slot without any other goes with it: a newer answer is on its way.
func (a *jobAnswer) forget(key cluster.SlotKey, i uint32) {
	s := a.slots[key]
	at := slices.Index(s.Nodes, i)
	if at < 0 {
		return
	}
	if s.Nodes = slices.Delete(slices.Clone(s.Nodes), at, at+1); len(s.Nodes) == 0 {
		a.drop(key)
		return
	}
	a.put(s)
}

// put keeps what is said of a slot.
func (a *jobAnswer) put(s SlotAnswer) {
	a.drop(s.Key)
	a.slots[s.Key] = s
	for _, i := range s.Nodes {
		a.among[i] = append(a.among[i], s.Key)
	}
}

// drop forgets a slot.
func (a *jobAnswer) drop(key cluster.SlotKey) {
	for _, i := range a.slots[key].Nodes {
		left := slices.DeleteFunc(a.among[i], func(k cluster.SlotKey) bool { return k == key })
		if a.among[i] = left; len(left) == 0 {
			delete(a.among, i)
		}
	}
	delete(a.slots, key)
}

// Answer returns what the job's type says of its slots, for reconcile: of those with the given keys, nil: of all.
func (v view) Answer(job *cluster.Job, of []cluster.SlotKey) reconcile.Answer {
	e, typ := v.e, job.Control.Spec.Type
	p := e.server(typ)
	if p == nil {
		return reconcile.Answer{Stall: e.unserved(typ)}
	}
	a := p.jobs[job.Name]
	if a == nil || !a.known || a.coming {
		out := reconcile.Answer{Stall: &cluster.Stall{
			Source: p.name, Code: cluster.CodePluginPending, Message: fmt.Sprintf("plugin %s has not said yet which slots the job should have", p.name),
			Clears: "the plugin answers",
		}}
		switch {
		case a != nil && a.failure != nil:
			out.Stall.Code, out.Stall.Message = a.failure.Code, a.failure.Message
		case a != nil && p.up:
			out.Stall = nil // the answer is on its way; one that takes too long comes as a failure
		case !p.up && p.code != cluster.CodePluginPending:
			out.Stall.Code, out.Stall.Message = p.code, p.reference()
		}
		return out
	}
	out := reconcile.Answer{Known: true, Fresh: a.fresh && p.up && p.trust == trusted && p.pending.Count() == 0 && a.asOf == a.job.Revision}
	switch {
	case a.failure != nil:
		out.Stall = &cluster.Stall{Source: p.name, Code: a.failure.Code, Message: a.failure.Message, Clears: "the plugin answers"}
	case a.stall != nil:
		out.Stall = stallOf(p.name, a.stall)
	}
	if of == nil {
		of = slices.Sorted(maps.Keys(a.slots))
	}
	for _, key := range of {
		if s, ok := a.slots[key]; ok {
			out.Slots = e.wanted(out.Slots, p, &s)
		}
	}
	return out
}

// wanted adds a slot that a plugin names to those that are wanted.
func (e *Engine) wanted(to []reconcile.WantedSlot, p *pluginState, s *SlotAnswer) []reconcile.WantedSlot {
	w := reconcile.WantedSlot{Key: s.Key, Ends: s.Ends}
	for _, i := range s.Nodes {
		if n := e.nodeAt(i); n != nil {
			w.Nodes = append(w.Nodes, n.ID)
		}
	}
	if len(s.Nodes) > 0 && len(w.Nodes) == 0 {
		return to // all its nodes were removed; a newer answer is on its way
	}
	if s.Stall != nil {
		w.Stall = stallOf(p.name, s.Stall)
	}
	return append(to, w)
}

// unserved says why nobody answers for a job type.
func (e *Engine) unserved(typ string) *cluster.Stall {
	for _, name := range e.pluginNames {
		p := e.plugins[name]
		if p.ever {
			continue
		}
		why := p.message
		if p.code != cluster.CodePluginPending {
			why = p.reference()
		}
		return &cluster.Stall{Code: p.code, Message: fmt.Sprintf("no plugin serves job type %q: %s", typ, why), Clears: "plugin " + name + " starts"}
	}
	return &cluster.Stall{
		Code: cluster.CodeUnknownJobType, Message: fmt.Sprintf("no plugin serves job type %q", typ),
		Clears: "a plugin that serves it is configured, or the job's type is changed",
	}
}

func stallOf(plugin string, s *StallAnswer) *cluster.Stall {
	return &cluster.Stall{Source: plugin, Code: s.Code, Message: s.Message, Clears: s.Clears}
}

// askAgain puts the questions whose time has come, and returns how long it is to the next.
func (e *Engine) askAgain(now cluster.Time) time.Duration {
	var wake time.Duration
	for _, name := range e.pluginNames {
		p := e.plugins[name]
		for id, d := range p.drains {
			if d.again == 0 {
				continue
			}
			if left := d.again - now.Engine; left > 0 {
				wake = sooner(wake, left)
				continue
			}
			d.again, d.stale = 0, true
			if n := e.work.Node(id); n != nil {
				e.ask(p, n, d, now)
			}
		}
	}
	return wake
}

// Says joins what the drainers say of a task. A task leaves voluntarily only once each drainer that is there had its say, so that it makes no difference whose
// answer comes first.
func (v view) Says(t *cluster.Task) reconcile.Saying {
	var out reconcile.Saying
	awaited := false
	n := v.Node(t.Placement.Node)
	if n == nil || n.Spec.Availability != cluster.Drain {
		return out
	}
	for _, name := range v.e.pluginNames {
		p := v.e.plugins[name]
		d := p.drains[n.ID]
		if d == nil {
			continue
		}
		awaited = awaited || p.up && d.asked != 0 && !d.heard
		if tr, ok := d.transitions[t.ID]; ok {
			out.Transition = cluster.Join(out.Transition, tr)
		}
		if k, ok := d.kept[t.ID]; ok {
			out.Transition = cluster.Join(out.Transition, cluster.Transition{Task: t.ID, Strength: cluster.Keep, By: p.name, Grace: -1})
			out.Stalls = append(out.Stalls, *stallOf(p.name, &k))
		}
	}
	if awaited && out.Transition.Strength == cluster.Voluntary {
		out.Transition = cluster.Transition{}
	}
	return out
}

func sooner(a, b time.Duration) time.Duration {
	switch {
	case b <= 0:
		return a
	case a <= 0:
		return b
	}
	return min(a, b)
}
