package engine

import (
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// drainAnswer is what one drainer says of one node's tasks.
type drainAnswer struct {
	asked       uint64 // the question that is open; 0: none
	stale       bool   // the node's tasks changed since the open question, or since the answer
	transitions map[cluster.TaskID]cluster.Transition
	kept        map[cluster.TaskID]StallAnswer
	failure     *FailureAnswer
	again       time.Duration // engine time at which to ask again; 0: when something changes
	heard       bool          // it has answered since the drain began, or failed to
}

// askDrains puts a question to each drainer about a node that is drained and whose tasks changed.
func (e *Engine) askDrains(n *cluster.Node, now cluster.Time) {
	for _, name := range e.pluginNames {
		p := e.plugins[name]
		if !p.ever || !p.info.Drainer {
			continue
		}
		d := p.drains[n.ID]
		if n.Spec.Availability != cluster.Drain {
			e.endDrain(p, n.ID, d)
			e.drainStall(p, n.ID, nil)
			continue
		}
		if d == nil {
			d = &drainAnswer{}
			p.drains[n.ID] = d
		}
		d.stale = true
		e.ask(p, n, d, now)
	}
}

func (e *Engine) endDrain(p *pluginState, id cluster.NodeID, d *drainAnswer) {
	if d == nil {
		return
	}
	if d.asked != 0 && p.up {
		e.tell(p).Cancel = append(e.tell(p).Cancel, d.asked)
	}
	delete(p.drains, id)
}

func (e *Engine) ask(p *pluginState, n *cluster.Node, d *drainAnswer, now cluster.Time) {
	if !p.up || d.asked != 0 || !d.stale {
		return
	}
	q := e.drainQuestion(p.name, n, now)
	d.stale = false
	if len(q.Tasks) == 0 {
		d.transitions, d.kept, d.failure = nil, nil, nil
		e.drainStall(p, n.ID, d)
		return
	}
	if !d.heard {
		e.wakeNode(q.Node) // its word is waited for
	}
	e.question++
	q.ID, d.asked = e.question, e.question
	e.tell(p).Drains = append(e.tell(p).Drains, q)
}

// drainQuestion returns what a drainer is asked about a node, without a number.
func (e *Engine) drainQuestion(plugin string, n *cluster.Node, now cluster.Time) DrainQuestion {
	q := DrainQuestion{
		Revision: e.rev, Node: e.indexOf(n.ID), Waited: now.Sub(n.Spec.DrainSince), Deadline: n.Spec.DrainDeadline,
	}
	for t := range e.work.TasksOn(n.ID) {
		if t.Dead() {
			continue
		}
		dt := DrainTask{Task: t}
		if j := e.work.Job(t.Job); j != nil {
			s := &j.Control.Spec
			dt.JobType, dt.Priority, dt.OnDrain, dt.Labels, dt.Settings = s.Type, s.Priority, s.OnDrain, s.Labels, s.Settings(plugin)
		}
		q.Tasks = append(q.Tasks, dt)
	}
	return q
}

// pluginDrain takes an answer about a node. It replaces all that the drainer said of the node before.
func (e *Engine) pluginDrain(in PluginDrain, now cluster.Time) {
	p := e.session(in.Name, in.Session)
	if p == nil {
		return
	}
	for id, d := range p.drains {
		if d.asked != in.Question || in.Question == 0 {
			continue
		}
		n := e.work.Node(id)
		if i, ok := e.index[id]; ok && (!d.heard || in.Failure == nil) {
			e.wakeNode(i)
		}
		d.asked, d.heard = 0, true
		if d.failure = in.Failure; d.failure == nil {
			d.transitions, d.kept = map[cluster.TaskID]cluster.Transition{}, map[cluster.TaskID]StallAnswer{}
			for _, tr := range in.Transitions {
				tr.By, tr.Cause = p.name, cluster.CauseDrain
				d.transitions[tr.Task] = tr
			}
			for _, k := range in.Kept {
				d.kept[k.Task] = k.Stall
			}
			if in.Until > 0 {
				d.again = now.Engine + in.Until
			}
		} else {
			d.stale, d.again = true, now.Engine+time.Second
		}
		if n != nil {
			e.dirtyTasksOn(id)
			if d.failure == nil {
				e.ask(p, n, d, now)
			}
		}
		e.drainStall(p, id, d)
		return
	}
}

// dirtyTasksOn has the jobs of a node's tasks decided anew.
func (e *Engine) dirtyTasksOn(id cluster.NodeID) {
	for t := range e.work.tasksOn(id) {
		if !t.dead() {
			job, _, _ := t.place()
			e.dirtyJobs[job] = true
		}
	}
}

// drainStall records that a drainer could not answer, or ends that. Without an answer (nil) the drain is over.
func (e *Engine) drainStall(p *pluginState, id cluster.NodeID, d *drainAnswer) {
	var now []cluster.Stall
	subject := cluster.Subject{Kind: cluster.SubjectNode, ID: string(id)}
	if d != nil && d.failure != nil {
		now = append(now, cluster.Stall{Subject: subject, Source: p.name, Code: d.failure.Code, Message: d.failure.Message, Clears: "the plugin answers"})
	}
	var before []*cluster.Stall
	for _, s := range e.work.StallsOf(subject) {
		if s.Source == p.name {
			before = append(before, s)
		}
	}
	e.setStalls(before, now)
}
