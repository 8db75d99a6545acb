package engine

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/setpointd/setpoint/core/place"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// pluginState is what the engine knows of one plugin: what it was told, and what it answered. Nothing of it is stored; a new session of the plugin, or of the
// daemon, asks again.
type pluginState struct {
	name    string
	ever    bool // it has described itself once
	up      bool
	info    PluginUp
	code    cluster.Code // while it is not up: why
	message string

	trust                trust
	wouldStop, ofRunning int // with trust unconfirmed: the tasks that its answers would stop

	applied cluster.Revision // all its answers hold at this revision of its mirror
	pending place.Bitmap     // nodes that changed after that, as far as it watches them
	classes map[uint32]*class
	byKey   map[string]uint32
	nextID  uint32
	jobs    map[string]*jobAnswer
	drains  map[cluster.NodeID]*drainAnswer
	out     *PluginUpdate // what it is to be told after this turn
}

// class is what a filter is given to compile, with what it said of it.
type class struct {
	Class
	key  string
	jobs map[string]bool // that use it

	session     uint64 // of the plugin, in which it last spoke of the class
	answered    bool   // a verdict was given, at this revision of the class
	indifferent bool
	stall       *StallAnswer
	failure     *FailureAnswer // its latest answer was a failure; earlier verdicts stay in use
	allowed     place.Bitmap
	reasons     []uint32 // by node index: 0 allowed, otherwise a number into table, plus 1
	table       []Rejection
	ranks       []int8
	late        place.Bitmap     // nodes that changed after its latest answer, while the plugin's other answers are newer
	lateAt      cluster.Revision // an answer at this revision or later ends that
}

func (e *Engine) plugin(name string) *pluginState {
	p := e.plugins[name]
	if p == nil {
		p = &pluginState{
			name: name, code: cluster.CodePluginPending, message: "plugin " + name + " has not started yet",
			classes: map[uint32]*class{}, byKey: map[string]uint32{}, jobs: map[string]*jobAnswer{}, drains: map[cluster.NodeID]*drainAnswer{},
		}
		e.plugins[name] = p
		e.pluginNames = slices.Sorted(maps.Keys(e.plugins))
	}
	return p
}

// tell returns what the plugin is to be told after this turn, to be added to.
func (e *Engine) tell(p *pluginState) *PluginUpdate {
	if p.out == nil {
		p.out = &PluginUpdate{Plugin: p.name, Session: p.info.Session}
	}
	return p.out
}

// isFilter reports whether the plugin takes part in deciding which nodes a task may use. A plugin that never described itself might.
func (p *pluginState) isFilter() bool { return !p.ever || p.info.Filter }

// pluginUp begins a session: everything is told anew. What the plugin said before stays in use until it says otherwise.
func (e *Engine) pluginUp(in PluginUp) {
	p := e.plugin(in.Name)
	if in.Session <= p.info.Session {
		return
	}
	p.info, p.ever, p.up, p.code, p.message = in, true, true, "", ""
	clear(e.books)
	p.trust = unproven
	p.out = &PluginUpdate{Plugin: p.name, Session: in.Session, Reset: true} // finish fills in the revision
	for i, id := range e.byIndex {
		if id != "" {
			p.out.Nodes = append(p.out.Nodes, IndexedNode{Index: uint32(i), Node: e.work.Node(id)})
		}
	}
	maps.DeleteFunc(p.jobs, func(_ string, a *jobAnswer) bool { return !slices.Contains(in.JobTypes, a.job.Type) })
	e.pluginsChanged()
	p.out.AddClasses, p.out.AddJobs = nil, nil
	for _, id := range slices.Sorted(maps.Keys(p.classes)) {
		p.out.AddClasses = append(p.out.AddClasses, p.classes[id].Class)
	}
	for _, name := range slices.Sorted(maps.Keys(p.jobs)) {
		p.jobs[name].fresh = false
		p.out.AddJobs = append(p.out.AddJobs, p.jobs[name].job)
	}
	for _, d := range p.drains {
		d.asked = 0
	}
	for n := range e.work.Nodes() {
		if n.Spec.Availability == cluster.Drain {
			e.dirtyNodes[n.ID] = true
		}
	}
	e.claimsChanged()
}

// pluginsChanged registers every job anew, since who filters and who serves which job type changed.
func (e *Engine) pluginsChanged() {
	clear(e.books)
	for j := range e.work.Jobs() {
		e.register(j)
		e.dirtyJobs[j.Name] = true
	}
	for _, g := range e.groups {
		g.dirty = true
	}
}

func (e *Engine) pluginDown(in PluginDown) {
	p := e.plugin(in.Name)
	if in.Session != 0 && in.Session != p.info.Session || in.Session == 0 && p.up {
		return
	}
	was := p.up
	p.up, p.code, p.message, p.info.FailureOpen = false, in.Code, in.Message, in.FailureOpen
	clear(e.books)
	p.out = nil
	if was {
		for id, d := range p.drains {
			if d.asked != 0 && !d.heard {
				e.dirtyTasksOn(id) // they waited for its word
			}
			d.asked = 0
		}
	}
	for _, g := range e.groups {
		g.dirty = true
	}
	for name := range e.answered {
		e.dirtyJobs[name] = true
	}
	e.pluginStall(p)
}

// pluginStall records why a plugin does not answer, or ends that.
func (e *Engine) pluginStall(p *pluginState) {
	subject := cluster.Subject{Kind: cluster.SubjectPlugin, ID: p.name}
	var now []cluster.Stall
	if !p.up && p.code != cluster.CodePluginPending {
		now = append(now, cluster.Stall{
			Subject: subject, Source: cluster.SourceCore, Code: p.code, Message: p.message,
			Clears: "the plugin starts and answers; plugin logs " + p.name + " says more, and plugin reload " + p.name + " starts it at once",
		})
	}
	if p.up && p.trust == unconfirmed {
		now = append(now, p.trustStall(subject))
	}
	if p.up {
		now = append(now, e.claimStall(p, subject)...)
	}
	e.setStalls(e.work.StallsOf(subject), now)
}

// mirror sends a changed node to the plugins that watch what changed of it, and holds what they said of it until they answer.
func (e *Engine) mirror(i uint32, n *cluster.Node, fields cluster.FieldMask) {
	for _, name := range e.pluginNames {
		p := e.plugins[name]
		if fields&p.watches() == 0 {
			continue
		}
		p.pending = p.pending.With(int(i), true)
		if !p.up {
			e.verdictsChanged(p, i)
			continue
		}
		// Until the plugin answers, which takes milliseconds, what waits keeps the reason that it has.
		out := e.tell(p)
		out.Revision = e.rev
		out.Nodes = slices.DeleteFunc(out.Nodes, func(x IndexedNode) bool { return x.Index == i })
		out.Nodes = append(out.Nodes, IndexedNode{Index: i, Node: n})
	}
}

// reference is what is said of a plugin that does not answer wherever that matters: why is said once, by the plugin's own stall.
func (p *pluginState) reference() string {
	return "plugin " + p.name + " does not answer, and plugin inspect " + p.name + " says why"
}

// watches returns the fields whose change makes the plugin's verdicts old. Where it was never said, any might.
func (p *pluginState) watches() cluster.FieldMask {
	if !p.ever {
		return allFields
	}
	return p.info.Watches | cluster.Mask(cluster.FieldIdentity)
}

func (e *Engine) unmirror(i uint32) {
	for _, name := range e.pluginNames {
		p := e.plugins[name]
		p.pending = p.pending.With(int(i), false)
		if p.up {
			out := e.tell(p)
			out.Revision = e.rev
			out.Nodes = append(out.Nodes, IndexedNode{Index: i})
		}
	}
}

// verdictsChanged has every waiting group looked at again for one node, and every job with tasks there.
func (e *Engine) verdictsChanged(p *pluginState, i uint32) {
	if !p.isFilter() {
		return
	}
	for _, g := range e.groups {
		g.changed[i] = true
	}
}

// register keeps a job's classes, one for each filter, and its answered slots, if its type is a plugin's.
func (e *Engine) register(j *cluster.Job) {
	for _, name := range e.pluginNames {
		p := e.plugins[name]
		if p.isFilter() {
			e.useClass(p, j)
		} else {
			e.leaveClass(p, j.Name, "")
		}
	}
	e.registerAnswered(j)
}

func (e *Engine) unregister(job string) {
	for _, name := range e.pluginNames {
		p := e.plugins[name]
		e.leaveClass(p, job, "")
		if _, ok := p.jobs[job]; ok {
			delete(p.jobs, job)
			if p.up {
				e.tell(p).RemoveJobs = append(e.tell(p).RemoveJobs, job)
			}
		}
	}
	delete(e.answered, job)
	delete(e.jobClasses, job)
}

// classKey is what jobs of one class have in common.
func classKey(plugin string, s *cluster.JobSpec) string {
	b, err := json.Marshal(struct {
		Type     string
		Labels   map[string]string
		Settings string
	}{s.Type, s.Labels, s.Settings(plugin)})
	if err != nil {
		panic(err) // strings and maps of strings can always be encoded
	}
	return string(b)
}

func (e *Engine) useClass(p *pluginState, j *cluster.Job) {
	s := &j.Control.Spec
	key := classKey(p.name, s)
	e.leaveClass(p, j.Name, key)
	id, ok := p.byKey[key]
	if !ok {
		p.nextID++
		id = p.nextID
		c := &class{
			Class: Class{ID: id, Revision: e.rev, JobType: s.Type, Labels: s.Labels, Settings: s.Settings(p.name)},
			key:   key, jobs: map[string]bool{},
		}
		p.byKey[key], p.classes[id] = id, c
		if p.up {
			e.tell(p).AddClasses = append(e.tell(p).AddClasses, c.Class)
		}
	}
	p.classes[id].jobs[j.Name] = true
	if e.jobClasses[j.Name] == nil {
		e.jobClasses[j.Name] = map[string]uint32{}
	}
	e.jobClasses[j.Name][p.name] = id
}

// leaveClass takes a job out of the class that it uses, unless that has the given key; a class that no job uses is forgotten.
func (e *Engine) leaveClass(p *pluginState, job, unless string) {
	id, ok := e.jobClasses[job][p.name]
	if !ok {
		return
	}
	c := p.classes[id]
	if c == nil || c.key == unless {
		return
	}
	delete(c.jobs, job)
	delete(e.jobClasses[job], p.name)
	if len(c.jobs) > 0 {
		return
	}
	delete(p.classes, id)
	delete(p.byKey, c.key)
	if p.up {
		e.tell(p).RemoveClasses = append(e.tell(p).RemoveClasses, id)
	}
}
