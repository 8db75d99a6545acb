package pluginhost

import (
	"maps"
	"slices"
	"sync"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// outbox is what a plugin's session has to say next. Only the newest of each node, class, job and drained node is kept, so its size is bounded by the
// cluster's and not by how slow the plugin is.
type outbox struct {
	wake chan struct{} // has room for one: something may be there to be taken

	mu      sync.Mutex // guards what follows; held for moments only, because the engine waits for it
	session uint64     // 0: none
	begun   bool       // the session's first update, a reset, has come
	parcel  parcel
	trials  []*trial
}

// parcel is what is taken at once, to be sent in the order of the fields.
type parcel struct {
	reset         bool
	told          bool // nodes may have changed: revision counts
	revision      cluster.Revision
	nodes         map[uint32]*cluster.Node // nil: the index is free
	removeClasses map[uint32]struct{}
	addClasses    map[uint32]engine.Class
	removeJobs    map[string]struct{}
	addJobs       map[string]engine.PluginJob
	cancel        map[uint64]struct{}
	drains        map[uint32]engine.DrainQuestion // by node index

	because map[subject]engine.Trace // of which traces what is asked is part; nil: nobody follows any of it
}

func newParcel() parcel {
	return parcel{
		nodes: map[uint32]*cluster.Node{}, removeClasses: map[uint32]struct{}{}, addClasses: map[uint32]engine.Class{},
		removeJobs: map[string]struct{}{}, addJobs: map[string]engine.PluginJob{}, cancel: map[uint64]struct{}{},
		drains: map[uint32]engine.DrainQuestion{},
	}
}

func (p *parcel) empty() bool {
	return !p.told && len(p.removeClasses) == 0 && len(p.addClasses) == 0 && len(p.removeJobs) == 0 && len(p.addJobs) == 0 &&
		len(p.cancel) == 0 && len(p.drains) == 0
}

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1), parcel: newParcel()} }

// begin makes the outbox that of a new session, empty.
func (o *outbox) begin(session uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.session, o.begun, o.parcel = session, false, newParcel()
}

// end empties the outbox and returns the trials that nobody will answer.
func (o *outbox) end() []*trial {
	o.mu.Lock()
	defer o.mu.Unlock()
	left := o.trials
	o.session, o.begun, o.parcel, o.trials = 0, false, newParcel(), nil
	return left
}

// merge adds an update of the engine's. Updates for another session are dropped: that session is over.
func (o *outbox) merge(u engine.PluginUpdate) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.session == 0 || u.Session != o.session || !o.begun && !u.Reset {
		return
	}
	if u.Reset {
		o.begun, o.parcel = true, newParcel()
		o.parcel.reset = true
	}
	o.parcel.merge(u)
	o.rouse()
}

// rouse is called with the lock held or not.
func (o *outbox) rouse() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// ask adds a trial question. It reports false if no session could answer it.
func (o *outbox) ask(t *trial) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.begun || len(o.trials) >= maxTrials {
		return false
	}
	o.trials = append(o.trials, t)
	o.rouse()
	return true
}

const maxTrials = 64 // that wait to be asked

// take returns what is to be said next; ok is false if there is nothing.
func (o *outbox) take() (p parcel, trials []*trial, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.parcel.empty() && len(o.trials) == 0 {
		return parcel{}, nil, false
	}
	p, trials = o.parcel, o.trials
	o.parcel, o.trials = newParcel(), nil
	return p, trials, true
}

func (p *parcel) merge(u engine.PluginUpdate) {
	p.note(&u)
	if u.Reset || u.Revision != 0 {
		p.told, p.revision = true, max(p.revision, u.Revision)
	}
	for _, n := range u.Nodes {
		p.nodes[n.Index] = n.Node
	}
	for _, id := range u.RemoveClasses {
		delete(p.addClasses, id)
		if !u.Reset {
			p.removeClasses[id] = struct{}{}
		}
	}
	for _, c := range u.AddClasses {
		delete(p.removeClasses, c.ID)
		p.addClasses[c.ID] = c
	}
	for _, name := range u.RemoveJobs {
		delete(p.addJobs, name)
		if !u.Reset {
			p.removeJobs[name] = struct{}{}
		}
	}
	for _, j := range u.AddJobs {
		delete(p.removeJobs, j.Name)
		p.addJobs[j.Name] = j
	}
	for _, q := range u.Drains {
		p.drains[q.Node] = q
	}
	for _, id := range u.Cancel {
		before := len(p.drains)
		maps.DeleteFunc(p.drains, func(_ uint32, q engine.DrainQuestion) bool { return q.ID == id })
		if len(p.drains) == before {
			p.cancel[id] = struct{}{}
		}
	}
}

func sortedKeys[K interface{ ~uint32 | ~uint64 | ~string }, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}
