package engine

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/setpointd/setpoint/core/place"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Rehearse asks for all that a plugin would be told and asked if it began a session now, and for what the plugin of that name has said of it, so that another
// process can be tried before it takes over. It changes nothing and returns Rehearsal. A plugin that is not there yet has said nothing.
type Rehearse struct {
	Plugin   string
	Filter   bool // what the process that is tried is
	Drainer  bool
	JobTypes []string
}

// Rehearsal is what a session would begin with, and what was said of the same.
type Rehearsal struct {
	Update  PluginUpdate // a reset, without a session; what is asked of drains has numbers of its own
	Classes map[uint32]RehearsedClass
	Slots   map[string]RehearsedSlots // by job
	Drains  map[uint32]RehearsedDrain // by node index
	Pending place.Bitmap              // nodes of which nothing that was said counts
}

// RehearsedClass is what the plugin has said of a class.
type RehearsedClass struct {
	Jobs     []string     // that use it, sorted
	Answered bool         // Verdict holds the latest answer, where it is not a failure
	Verdict  ClassVerdict // Full, Indifferent or Stall
	Failure  *FailureAnswer
	Late     place.Bitmap // nodes that changed after the answer
}

// RehearsedSlots is what the plugin has said of a job's slots.
type RehearsedSlots struct {
	Answered bool
	Slots    []SlotAnswer // by key
	Stall    *StallAnswer
	Failure  *FailureAnswer
}

// RehearsedDrain is what the plugin has said of a node's drain.
type RehearsedDrain struct {
	Answered    bool
	Transitions []cluster.Transition // by task
	Kept        []KeptAnswer         // by task
	Failure     *FailureAnswer
}

func (Rehearse) op() {}

// rehearse makes a copy of what the plugin would be told.
func (e *Engine) rehearse(op Rehearse, now cluster.Time) (any, error) {
	p := e.plugins[op.Plugin]
	if p == nil {
		p = &pluginState{name: op.Plugin}
	}
	out := Rehearsal{
		Update:  PluginUpdate{Plugin: op.Plugin, Reset: true, Revision: e.rev - 1},
		Classes: map[uint32]RehearsedClass{}, Slots: map[string]RehearsedSlots{}, Drains: map[uint32]RehearsedDrain{}, Pending: slices.Clone(p.pending),
	}
	for i, id := range e.byIndex {
		if id != "" {
			out.Update.Nodes = append(out.Update.Nodes, IndexedNode{Index: uint32(i), Node: e.work.Node(id)})
		}
	}
	if op.Filter {
		e.rehearseClasses(p, &out)
	}
	e.rehearseSlots(p, op.JobTypes, &out)
	if op.Drainer {
		e.rehearseDrains(p, now, &out)
	}
	return out, nil
}

// rehearseClasses adds the class of each job; one that the plugin was never told of gets a number that is free.
func (e *Engine) rehearseClasses(p *pluginState, out *Rehearsal) {
	ids, next := maps.Clone(p.byKey), p.nextID
	if ids == nil {
		ids = map[string]uint32{}
	}
	told := map[uint32]Class{}
	for j := range e.work.Jobs() {
		s := &j.Control.Spec
		key := classKey(p.name, s)
		id, ok := ids[key]
		if !ok {
			next++
			id, ids[key] = next, next
		}
		if _, ok := told[id]; !ok {
			told[id] = Class{ID: id, Revision: e.rev - 1, JobType: s.Type, Labels: s.Labels, Settings: s.Settings(p.name)}
			if c := p.classes[id]; c != nil {
				told[id] = c.Class
			}
			out.Classes[id] = p.classes[id].rehearsed()
		}
		c := out.Classes[id]
		c.Jobs = append(c.Jobs, j.Name)
		out.Classes[id] = c
	}
	for _, id := range slices.Sorted(maps.Keys(told)) {
		out.Update.AddClasses = append(out.Update.AddClasses, told[id])
	}
}

// rehearsed returns what was said of the class, which may be nil.
func (c *class) rehearsed() RehearsedClass {
	if c == nil {
		return RehearsedClass{}
	}
	out := RehearsedClass{Answered: c.answered, Failure: c.failure, Late: slices.Clone(c.late)}
	out.Verdict = ClassVerdict{Class: c.ID, ClassRevision: c.Revision}
	switch {
	case !c.answered:
	case c.indifferent:
		out.Verdict.Indifferent = true
	case c.stall != nil:
		out.Verdict.Stall = c.stall
	default:
		f := &FullVerdict{Allowed: bytesOf(c.allowed), Rejections: c.table, Ranks: slices.Clone(c.ranks)}
		for i, r := range c.reasons {
			if r != 0 {
				f.Nodes, f.Reasons = append(f.Nodes, uint32(i)), append(f.Reasons, r-1)
			}
		}
		out.Verdict.Full = f
	}
	return out
}

func bytesOf(b place.Bitmap) []byte {
	out := make([]byte, 0, 8*len(b))
	for _, word := range b {
		out = binary.LittleEndian.AppendUint64(out, word)
	}
	return out
}

func (e *Engine) rehearseSlots(p *pluginState, types []string, out *Rehearsal) {
	for j := range e.work.Jobs() {
		s := &j.Control.Spec
		if s.Numbered() || !slices.Contains(types, s.Type) {
			continue
		}
		out.Update.AddJobs = append(out.Update.AddJobs, pluginJob(p.name, j))
		said := RehearsedSlots{}
		if a := p.jobs[j.Name]; a != nil {
			said.Answered, said.Stall, said.Failure = a.known && !a.coming && a.asOf == j.Control.ChangedRev, a.stall, a.failure
			for _, key := range slices.Sorted(maps.Keys(a.slots)) {
				said.Slots = append(said.Slots, a.slots[key])
			}
		}
		out.Slots[j.Name] = said
	}
}

func (e *Engine) rehearseDrains(p *pluginState, now cluster.Time, out *Rehearsal) {
	for n := range e.work.Nodes() {
		if n.Spec.Availability != cluster.Drain {
			continue
		}
		q := e.drainQuestion(p.name, n, now)
		if len(q.Tasks) == 0 {
			continue
		}
		q.ID, q.Revision = uint64(len(out.Update.Drains)+1), out.Update.Revision
		out.Update.Drains = append(out.Update.Drains, q)
		said := RehearsedDrain{}
		if d := p.drains[n.ID]; d != nil {
			said.Answered, said.Failure = d.transitions != nil && d.asked == 0 && !d.stale, d.failure
			for _, id := range slices.Sorted(maps.Keys(d.transitions)) {
				said.Transitions = append(said.Transitions, d.transitions[id])
			}
			for _, id := range slices.Sorted(maps.Keys(d.kept)) {
				said.Kept = append(said.Kept, KeptAnswer{Task: id, Stall: d.kept[id]})
			}
		}
		out.Drains[q.Node] = said
	}
}

// forgetStrangers ends what plugins have said that are not configured any more, once after a start.
func (e *Engine) forgetStrangers() {
	if e.strangersGone {
		return
	}
	e.strangersGone = true
	var gone []*cluster.Stall
	for s := range e.work.Stalls() {
		plugin := ""
		switch s.Subject.Kind {
		case cluster.SubjectPlugin:
			plugin = s.Subject.ID
		case cluster.SubjectNode:
			if s.Source != cluster.SourceCore {
				plugin = s.Source
			}
		}
		if plugin != "" && e.plugins[plugin] == nil {
			gone = append(gone, s)
		}
	}
	e.setStalls(gone, nil)
}

// pluginGone forgets a plugin that is not configured any more: it decides nothing from now on, and what it held is looked at again.
func (e *Engine) pluginGone(in PluginGone) {
	p := e.plugins[in.Name]
	if p == nil {
		return
	}
	e.setStalls(e.work.StallsOf(cluster.Subject{Kind: cluster.SubjectPlugin, ID: p.name}), nil)
	for id, d := range p.drains {
		d.failure = nil
		e.drainStall(p, id, d)
		e.dirtyTasksOn(id)
		e.dirtyNodes[id] = true
	}
	delete(e.plugins, p.name)
	e.pluginNames = slices.Sorted(maps.Keys(e.plugins))
	for _, classes := range e.jobClasses {
		delete(classes, p.name)
	}
	e.pluginsChanged()
	e.claimsChanged()
}
