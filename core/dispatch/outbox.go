package dispatch

import (
	"maps"
	"slices"
	"sync"

	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Limits of what waits to be sent to an agent.
const (
	maxControls = 256  // requests
	maxForget   = 4096 // tasks without a record; more are found again by the next full report
	maxDirty    = 1024 // changed tasks that are named; with more, all of the node's are looked at
	maxBatch    = 256  // tasks taken in one go
)

// outbox is what a session still has to say. Of each kind of thing only the newest counts, and all of it has limits.
type outbox struct {
	wake chan struct{} // holds a value when there is something to send

	mu     sync.Mutex // guards what follows
	due    due
	execs  map[*Exec]struct{}
	dirty  map[cluster.TaskID]struct{} // what is to be said of these may have changed
	forget map[cluster.TaskID]struct{} // the agent knows these, and they have no record
}

// due is what is to be sent next.
type due struct {
	ack      uint64 // newest report that is durable; 0: none since the last
	beat     bool
	leave    string // why the node has to leave; "" if it has not
	controls []*agentv1.FromServer
	execs    []*Exec // of which something is to be said
	all      bool    // whether tasks may start has changed: look at each of them
	tasks    []cluster.TaskID
	forget   []cluster.TaskID
}

func (o *outbox) init() {
	o.wake = make(chan struct{}, 1)
	o.execs = make(map[*Exec]struct{})
	o.dirty = make(map[cluster.TaskID]struct{})
	o.forget = make(map[cluster.TaskID]struct{})
}

// change notes something to send. It never blocks.
func (o *outbox) change(f func(*due)) {
	o.mu.Lock()
	f(&o.due)
	o.mu.Unlock()
	o.notify()
}

func (o *outbox) notify() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *outbox) acknowledge(report uint64) {
	o.change(func(d *due) { d.ack = max(d.ack, report) })
}

func (o *outbox) beat() { o.change(func(d *due) { d.beat = true }) }

func (o *outbox) leave(reason string) { o.change(func(d *due) { d.leave = reason }) }

func (o *outbox) all() { o.change(func(d *due) { d.all = true }) }

// task notes that what is to be said of a task may have changed.
func (o *outbox) task(id cluster.TaskID) {
	o.change(func(d *due) {
		if len(o.dirty) < maxDirty {
			o.dirty[id] = struct{}{}
			return
		}
		clear(o.dirty)
		d.all = true
	})
}

// remove notes that the agent knows a task that has no record.
func (o *outbox) remove(id cluster.TaskID) {
	o.change(func(*due) {
		if len(o.forget) < maxForget {
			o.forget[id] = struct{}{}
		}
	})
}

// control notes a message that has to be sent as it is. It reports false if too many wait already.
func (o *outbox) control(m *agentv1.FromServer) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.due.controls) >= maxControls {
		return false
	}
	o.due.controls = append(o.due.controls, m)
	o.notify()
	return true
}

// exec notes that there is something to say about a command. There are no more of them than the session has commands.
func (o *outbox) exec(x *Exec) { o.change(func(*due) { o.execs[x] = struct{}{} }) }

// take returns what is to be sent next, at most maxBatch tasks of it, and leaves the rest.
func (o *outbox) take() due {
	o.mu.Lock()
	defer o.mu.Unlock()
	d := o.due
	o.due = due{}
	d.execs = slices.Collect(maps.Keys(o.execs))
	clear(o.execs)
	d.tasks = o.some(o.dirty)
	d.forget = o.some(o.forget)
	return d
}

// some takes at most maxBatch tasks out of a set.
func (o *outbox) some(set map[cluster.TaskID]struct{}) []cluster.TaskID {
	var out []cluster.TaskID
	for id := range set {
		if len(out) == maxBatch {
			o.notify()
			break
		}
		out = append(out, id)
		delete(set, id)
	}
	return out
}
