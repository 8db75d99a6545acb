package engine

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/setpointd/setpoint/core/monitor"
	"github.com/setpointd/setpoint/core/reconcile"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Step takes inputs and decides one turn, without I/O, on the state that the one before made. That state is published by Publish, after what it changed is
// durable, which may be later than the next Step. A turn that could not be committed ends the engine: its process loads again what was.
func (e *Engine) Step(inputs []Input, now cluster.Time) Output {
	e.begin(now)
	e.enter(PhaseApply)
	for _, in := range inputs {
		e.take(in, now)
	}
	e.forgetStrangers()
	e.enter(PhaseMonitor)
	wake := e.monitor(now)
	e.gone(now)
	e.enter(PhaseReconcile)
	wake = sooner(wake, e.reconcile(now))
	e.enter(PhasePlace)
	e.place(now)
	e.enter(PhaseDrain)
	wake = sooner(wake, e.drains(now))
	e.enter(PhaseFinish)
	wake = sooner(wake, e.look(now))
	out := e.finish(wake)
	if e.recorder != nil {
		e.recorder.Stepped(inputs, now, out)
	}
	return out
}

func (e *Engine) begin(now cluster.Time) {
	e.base, e.work = e.work, e.work.fork()
	e.rev = e.work.Revision + 1
	e.work.Now = now
	e.changes = make([]Authored, 0, len(e.changes)) // a turn is about as large as the one before
	e.replies, e.acks, e.more = nil, nil, false
	e.seen = nil
	if len(e.touched) > 0 { // what the turn before touched is read while that is committed
		e.touched = make(map[record]struct{}, len(e.touched))
	}
	for name, ok := e.wakes.due(now.Engine); ok; name, ok = e.wakes.due(now.Engine) {
		e.dirtyJobs[name] = true
	}
}

func (e *Engine) finish(wake time.Duration) Output {
	out := Output{Acks: e.acks, Wake: wake, More: e.more || len(e.dirtyJobs) > 0, Swept: e.sweep.found}
	if len(e.changes) > 0 {
		e.work.Revision = e.rev
		out.Turn = Turn{Before: e.base, State: e.work, Changes: e.changes, touched: e.touched}
	} else {
		out.Turn = Turn{Before: e.base, State: e.base}
		e.work = e.base
	}
	e.base = nil
	for i := range e.replies {
		if q, ok := e.replies[i].value.(question); ok {
			e.replies[i].value, e.replies[i].err = e.answer(q, e.work)
		}
	}
	out.Replies = e.replies
	for _, name := range e.pluginNames {
		if p := e.plugins[name]; p.out != nil {
			if p.out.Reset {
				p.out.Revision = out.Turn.State.Revision
			}
			out.Plugins = append(out.Plugins, *p.out)
			p.out = nil
		}
	}
	return out
}

// take applies one input.
func (e *Engine) take(in Input, now cluster.Time) {
	switch in := in.(type) {
	case command:
		e.asking = in.by
		v, err := e.once(in, now)
		e.asking = ""
		e.replies = append(e.replies, Reply{ticket: in.ticket, value: v, err: err})
	case AgentUp:
		e.agentUp(in, now)
	case AgentDown:
		if a := e.agents[in.Node]; a != nil && a.session == in.Session {
			a.named = nil
		}
	case AgentsHeard:
		for _, id := range in.Nodes {
			if a := e.agents[id]; a != nil {
				a.last, a.confirmed = now, false
				e.lookNow = e.lookNow || a.reported && e.work.Node(id).Status.State != cluster.NodeReady
			}
		}
	case AgentDescribes:
		e.agentDescribes(in, now)
	case AgentReports:
		e.agentReports(in, now)
	case PluginUp:
		e.pluginUp(in)
	case PluginDown:
		e.pluginDown(in)
	case PluginGone:
		e.pluginGone(in)
	case PluginApplied:
		e.pluginApplied(in)
	case PluginVerdicts:
		e.pluginVerdicts(in)
	case PluginSlots:
		e.pluginSlots(in)
	case PluginDrain:
		e.pluginDrain(in, now)
	case SinksKnown:
		e.sinksKnown(in)
	case SinkTold:
		e.sinkTold(in, now)
	case SinkFails:
		e.sinkFails(in)
	}
}

// monitor concludes which nodes are ready, silent and down, and which tasks are gone.
func (e *Engine) monitor(now cluster.Time) time.Duration {
	if e.still {
		return 0
	}
	if !e.lookNow && now.Engine < e.monitorAt {
		return e.monitorAt - now.Engine
	}
	e.lookNow = false
	nodes, _, _, _ := e.work.Counts()
	pace := e.crowd.judge(e.cfg, nodes, now.Engine)
	limits := monitor.Limits{Silent: pace.Silent, Down: pace.Down, Return: pace.Return, Few: 3, ReplaceEvery: e.cfg.ReplaceEvery}
	r := monitor.Nodes(e.hearings(), limits, now)
	e.applyAll(cluster.AuthorMonitor, r.Changes)
	for _, id := range r.Regrace {
		e.agents[id].grace = now
	}
	var stalls []cluster.Stall
	if r.Stall != nil {
		stalls = append(stalls, *r.Stall)
	}
	e.setStalls(e.work.StallsOf(cluster.Subject{Kind: cluster.SubjectCluster, ID: "nodes"}), stalls)
	e.monitorAt = now.Engine + r.Wake
	if r.Wake == 0 {
		e.monitorAt = 1<<63 - 1
	}
	return r.Wake
}

// gone ends the tasks of nodes that an operator declared gone for good.
func (e *Engine) gone(now cluster.Time) {
	for _, id := range slices.Sorted(maps.Keys(e.dirtyNodes)) {
		if n := e.work.Node(id); n != nil && n.Spec.Decommissioned {
			e.applyAll(cluster.AuthorMonitor, monitor.Gone(n, e.work.TasksOn(id), now))
		}
	}
}

func (e *Engine) hearings() iter.Seq[monitor.Hearing] {
	return func(yield func(monitor.Hearing) bool) {
		for n := range e.work.Nodes() {
			a := e.agents[n.ID]
			if !yield(monitor.Hearing{Node: n, Last: a.last, Grace: a.grace, Reported: a.reported, Confirmed: a.confirmed}) {
				return
			}
		}
	}
}

// reconcile decides about every job of which something changed, until the turn is full; the rest stays for the next.
func (e *Engine) reconcile(now cluster.Time) time.Duration {
	if len(e.changedNodes) > 0 {
		maps.Copy(e.dirtyJobs, e.noRoom)
	}
	order := e.jobsInOrder()
	clear(e.leftOver)
	jobs := decisions{e: e, now: now, changes: len(e.changes)}
	for i, name := range order {
		if len(e.touched) >= e.cfg.MaxChanges {
			e.leaveOver(order[i:])
			break
		}
		r := jobs.next(order[i:])
		if e.cfg.Doubt {
			e.doubt(name, &r, now)
		}
		delete(e.dirtyJobs, name)
		e.applyAll(cluster.AuthorReconcile, r.Changes)
		e.keepBook(name, &r)
		e.noteWay(name, len(r.Changes) > 0)
		if !e.setStallsWithin(e.lookedStalls(name, &r), r.Stalls, 2*e.cfg.MaxChanges) {
			e.dirtyJobs[name] = true // the next turn says the rest
			e.forgetBook(name)
		}
		e.wakes.drop(name)
		delete(e.noRoom, name)
		if r.NoRoom {
			e.noRoom[name] = true
		}
		if r.Wake > 0 {
			e.wakes.set(name, now.Engine+r.Wake)
		}
		if r.Rollback != 0 {
			e.rollBack(name, r.Rollback, r.Why, now)
		}
	}
	if at, ok := e.wakes.first(); ok {
		return max(at-now.Engine, 1)
	}
	return 0
}

// noteWay notes whether a decision about a job changed something.
func (e *Engine) noteWay(job string, changed bool) {
	if changed && e.work.Job(job) != nil {
		e.onTheWay[job] = false // nothing was placed since
	} else {
		delete(e.onTheWay, job)
	}
}

// drains says how far drains are, and asks the drainers about what changed.
func (e *Engine) drains(now cluster.Time) time.Duration {
	for _, id := range slices.Sorted(maps.Keys(e.dirtyNodes)) {
		n := e.work.Node(id)
		if n == nil {
			continue
		}
		e.applyAll(cluster.AuthorReconcile, reconcile.Node(e.view(), id, now).Changes)
		e.askDrains(n, now)
		e.undrained(n)
	}
	clear(e.dirtyNodes)
	return e.askAgain(now)
}

// undrained says so where a node is to be emptied and no plugin is there to say how.
func (e *Engine) undrained(n *cluster.Node) {
	subject := cluster.Subject{Kind: cluster.SubjectNode, ID: string(n.ID)}
	var now []cluster.Stall
	has := false
	for _, p := range e.plugins {
		has = has || !p.ever || p.info.Drainer
	}
	if n.Spec.Availability == cluster.Drain && n.Drain.State != cluster.Drained && !has {
		now = append(now, cluster.Stall{
			Subject: subject, Source: cluster.SourceCore, Code: cluster.CodePluginUnavailable, Message: "no plugin says what leaves a node that is drained",
			Clears: "a drainer is configured, such as plugin \"drain\"",
		})
	}
	var before []*cluster.Stall
	for _, s := range e.work.StallsOf(subject) {
		if s.Source == cluster.SourceCore {
			before = append(before, s)
		}
	}
	e.setStalls(before, now)
}

// Publish makes the state of a committed turn the one that readers see.
func (e *Engine) Publish(t Turn) { e.published.Store(t.State) }

// Records returns what a turn of Step's changed: the records as they are now, and those that are no more as they were. Each record appears once. Who removed jobs
// and nodes is among the records as they are now. It may be called while the next Step is under way.
func (e *Engine) Records(t Turn) (puts, deletes []any) {
	keys := slices.SortedFunc(maps.Keys(t.touched), compareRecords)
	for _, k := range keys {
		if v := t.State.record(k); v != nil {
			puts = append(puts, v)
		} else if v := t.Before.record(k); v != nil {
			deletes = append(deletes, v)
		}
	}
	if r := removals(t, deletes); r != nil {
		puts = append(puts, r)
	}
	return puts, deletes
}
