package engine

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/setpointd/setpoint/core/reconcile"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Book returns what was kept of a job since the last decision about it, for reconcile.
func (v view) Book(job string) *reconcile.Book { return v.e.books[job] }

// keepBook keeps what a decision about a job says of its slots, after its changes were applied.
func (e *Engine) keepBook(job string, r *reconcile.Result) {
	if b := e.books[job].Next(r); b != nil {
		e.books[job] = b
		return
	}
	e.forgetBook(job)
}

// forgetBook has the next decision about a job look at all its slots.
func (e *Engine) forgetBook(job string) { delete(e.books, job) }

// wakeSlot has the next decision about a job look at a slot.
func (e *Engine) wakeSlot(job string, key cluster.SlotKey) {
	if b := e.books[job]; b != nil {
		b.Wake(key)
	}
}

// wakeNode has the next decisions look at all slots that depend on a node: those with a task that was placed there, and those that are limited to it. Whoever
// changes anything of a node, or of what plugins say of it, calls this.
func (e *Engine) wakeNode(i uint32) {
	n := e.nodeAt(i)
	if n == nil {
		return
	}
	for t := range e.work.tasksOn(n.ID) {
		job, slot, _ := t.place()
		e.wakeSlot(job, slot)
	}
	for name := range e.answered {
		if e.books[name] == nil {
			continue
		}
		for _, p := range e.plugins {
			if a := p.jobs[name]; a != nil {
				for _, key := range a.among[i] {
					e.wakeSlot(name, key)
				}
			}
		}
	}
}

// bookless is the working state as reconcile sees it where nothing was kept.
type bookless struct{ view }

func (bookless) Book(string) *reconcile.Book { return nil }

func (bookless) Settled(*cluster.Job) (settled, others []cluster.SlotKey, ok bool) {
	return nil, nil, false
}

// doubt holds that what was left out of a decision makes no difference to it.
func (e *Engine) doubt(job string, got *reconcile.Result, now cluster.Time) {
	want := reconcile.Job(bookless{e.view()}, job, now, e.rev)
	want.Stalls = e.notSaid(job, want.Stalls, got)
	if !reflect.DeepEqual(want.Changes, got.Changes) || len(want.Stalls)+len(got.Stalls) > 0 && !reflect.DeepEqual(want.Stalls, got.Stalls) ||
		want.Wake != got.Wake || want.NoRoom != got.NoRoom || want.Rollback != got.Rollback || want.Why != got.Why {
		panic(fmt.Sprintf("reconcile: job %s: looking at slots that are awake alone decides otherwise:\nall   %s\nawake %s", job, inWords(&want), inWords(got)))
	}
}

// notSaid leaves out of what is to be said what was said before of slots that were not looked at; all that was is to be said still.
func (e *Engine) notSaid(job string, want []cluster.Stall, got *reconcile.Result) []cluster.Stall {
	keys, all := got.Looked()
	if all {
		return want
	}
	before := map[string]*cluster.Stall{}
	for _, s := range e.work.SlotStalls(job) {
		before[s.Key()] = s
	}
	for _, key := range keys {
		for _, s := range e.work.StallsOf(cluster.Subject{Kind: cluster.SubjectSlot, ID: job + "/" + string(key)}) {
			delete(before, s.Key())
		}
	}
	out := slices.DeleteFunc(slices.Clone(want), func(s cluster.Stall) bool {
		old := before[s.Key()]
		delete(before, s.Key())
		return old != nil && old.Same(&s)
	})
	for _, key := range slices.Sorted(maps.Keys(before)) {
		panic("reconcile: job " + job + ": nobody says any more that " + before[key].Message)
	}
	return out
}

func inWords(r *reconcile.Result) string {
	out := fmt.Sprintf("wake %s, no room %t, rollback %d %s, stalls %+v, changes", r.Wake, r.NoRoom, r.Rollback, r.Why, r.Stalls)
	for _, c := range r.Changes {
		out += "\n  " + inShort(c)
	}
	return out
}
