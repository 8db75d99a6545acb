package engine

import (
	"fmt"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// trust is whether a plugin's answers may stop what runs.
type trust uint8

const (
	trusted     trust = iota
	unproven          // its first answers since it started are not complete yet
	unconfirmed       // its first answers would stop too much; an operator has to confirm them
)

// massShare is the share of all running tasks, one in so many, of which the first answers of a plugin may stop no more without being confirmed.
const massShare = 5

// weigh decides, once a plugin that has just started has answered everything, whether its answers count for what runs.
func (e *Engine) weigh(p *pluginState) {
	if p.trust == trusted || !p.complete() {
		return
	}
	running, stopped := e.wouldStop(p)
	if stopped*massShare > running {
		p.trust = unconfirmed
		p.wouldStop, p.ofRunning = stopped, running
		e.pluginStall(p)
		return
	}
	e.trust(p)
}

// complete reports whether the plugin has answered about every class and job.
func (p *pluginState) complete() bool {
	for _, c := range p.classes {
		if !c.answeredIn(p.info.Session) {
			return false
		}
	}
	for _, a := range p.jobs {
		if !a.fresh && a.failure == nil {
			return false
		}
	}
	return p.pending.Count() == 0
}

func (c *class) answeredIn(session uint64) bool { return c.session == session }

// wouldStop counts the tasks that run, and those of them that the plugin's answers would stop.
func (e *Engine) wouldStop(p *pluginState) (running, stopped int) {
	for t := range e.work.allTasks() {
		if t.observed() != cluster.Running || !t.desired().Wanted() {
			continue
		}
		running++
		job, slot, node := t.place()
		j := e.work.Job(job)
		if j == nil {
			continue
		}
		if e.evicts(p, j, node) || e.unnamed(p, job, slot) {
			stopped++
		}
	}
	return running, stopped
}

func (e *Engine) evicts(p *pluginState, j *cluster.Job, node cluster.NodeID) bool {
	i, ok := e.index[node]
	c := p.classes[e.jobClasses[j.Name][p.name]]
	if !ok || !p.isFilter() || j.Control.Spec.OnDrift == cluster.DriftKeep || c == nil || !c.answered || c.indifferent || c.stall != nil || c.allowed.Get(int(i)) {
		return false
	}
	r, _ := c.rejection(i)
	return r.Evicts
}

func (e *Engine) unnamed(p *pluginState, job string, slot cluster.SlotKey) bool {
	a := p.jobs[job]
	if a == nil || !a.fresh || a.stall != nil {
		return false
	}
	_, named := a.slots[slot]
	return !named
}

// trust lets a plugin's answers count for what runs.
func (e *Engine) trust(p *pluginState) {
	p.trust = trusted
	clear(e.books)
	e.pluginStall(p)
	for _, c := range p.classes {
		for name := range c.jobs {
			e.dirtyJobs[name] = true
		}
	}
	for name := range p.jobs {
		e.dirtyJobs[name] = true
	}
}

func (e *Engine) confirmPlugin(op ConfirmPlugin) (any, error) {
	p := e.plugins[op.Plugin]
	switch {
	case p == nil:
		return nil, notFound("plugin", op.Plugin, "plugin ls lists those that there are")
	case p.trust != unconfirmed:
		return nil, refused("plugin ls says how it is", "nothing of plugin %s is to be confirmed", op.Plugin)
	}
	e.trust(p)
	return nil, nil
}

// trustStall says that a plugin's answers wait to be confirmed.
func (p *pluginState) trustStall(subject cluster.Subject) cluster.Stall {
	return cluster.Stall{
		Subject: subject, Source: cluster.SourceCore, Code: cluster.CodeMassEviction,
		Message: fmt.Sprintf("the first answers of plugin %s since it started would stop %d of %d running tasks", p.name, p.wouldStop, p.ofRunning),
		Clears:  "plugin confirm " + p.name + ", or other answers of the plugin",
	}
}
