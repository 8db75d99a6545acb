package worker

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/agent/machine"
	"github.com/setpointd/setpoint/agent/secrets"
	"github.com/setpointd/setpoint/agent/state"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// maxStarts is how many tasks a node starts at the same time.
const maxStarts = 64

// Store makes durable what a Set has to remember; *state.File is one.
type Store interface {
	// Commit writes a batch, all of it or nothing.
	Commit(b state.Batch) error
}

// Options are what a Set needs.
type Options struct {
	Store   Store
	Drivers []driver.Driver
	Node    string // the node's name, which tasks are told
	Cluster string // the cluster's id, which drivers are told
	Log     hclog.Logger
	// Secrets keeps tasks' secrets in memory; nil: this machine cannot, for the reason NoSecrets, and tasks that need some are rejected.
	Secrets   *secrets.Dir
	NoSecrets string
	// Boot returns the time since the machine's start, that in which it slept included; nil: machine.SinceBoot.
	Boot func() time.Duration
}

// Set is all tasks of one agent.
type Set struct {
	opts    Options
	drivers map[string]driver.Driver
	starts  chan struct{} // holds a value for each start that goes on
	ready   chan struct{} // closed once everything that was found here is known
	spawn   chan struct{} // holds a value if something in born waits
	cut     atomic.Int64  // since when no server is heard; connected: one is

	applying sync.Mutex // held by Apply and Halt: what is decided on what is known stands when it is enforced

	mu       sync.Mutex // guards what follows
	revision cluster.Revision
	tasks    map[cluster.TaskID]*task
	strays   map[cluster.TaskID]struct{} // found here without a record and not ended yet
	found    map[cluster.TaskID]struct{} // all that were ever strays: they are not started again
	born     []runner                    // not running yet
	feeds    map[*Feed]struct{}
	halted   *time.Duration // everything is to stop, within this time if it is not negative
}

// runner is something with a goroutine of its own.
type runner interface {
	run(ctx context.Context)
}

// New returns a set of what is remembered, as if a server were heard. Nothing happens before Run.
func New(opts Options, tasks []state.Task, revision cluster.Revision) *Set {
	if opts.Boot == nil {
		opts.Boot = machine.SinceBoot
	}
	s := &Set{
		opts: opts, drivers: make(map[string]driver.Driver), starts: make(chan struct{}, maxStarts), ready: make(chan struct{}),
		spawn: make(chan struct{}, 1), revision: revision, tasks: make(map[cluster.TaskID]*task), strays: make(map[cluster.TaskID]struct{}),
		found: make(map[cluster.TaskID]struct{}), feeds: make(map[*Feed]struct{}),
	}
	s.cut.Store(connected)
	for _, d := range opts.Drivers {
		s.drivers[d.Name()] = d
	}
	for _, r := range tasks {
		t := newTask(s, r.Assignment, r.Status)
		t.forgotten = r.Forgotten
		if r.Handle != nil {
			t.handle = *r.Handle
		}
		s.tasks[t.id] = t
	}
	return s
}

// Run finds what runs here, and then carries out what is applied, until the context ends. Tasks run on after it.
func (s *Set) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	s.recover(ctx)
	close(s.ready)
	for {
		s.mu.Lock()
		born := s.born
		s.born = nil
		s.mu.Unlock()
		for _, r := range born {
			group.Go(func() { r.run(ctx) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.spawn:
		}
	}
}

// Ready is closed once the set knows what runs here, as far as its drivers could tell.
func (s *Set) Ready() <-chan struct{} { return s.ready }

// Revision returns that of the newest assignments which were applied.
func (s *Set) Revision() cluster.Revision {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
}

// Statuses returns what was observed of every task that the server may know, in the order of their ids.
func (s *Set) Statuses() []state.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]state.Status, 0, len(s.tasks))
	for _, id := range slices.Sorted(maps.Keys(s.tasks)) {
		if status, forgotten := s.tasks[id].seen(); !forgotten {
			out = append(out, status)
		}
	}
	return out
}

// Strays returns what runs here and should not: what was found without a record, and what is to be forgotten and has not ended yet.
func (s *Set) Strays() []cluster.TaskID {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := slices.Collect(maps.Keys(s.strays))
	for id, t := range s.tasks {
		if status, forgotten := t.seen(); forgotten && !status.State.Terminal() {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// Find returns a task's driver and handle, for reading its output.
func (s *Set) Find(id cluster.TaskID) (driver.Driver, driver.Handle, bool) {
	s.mu.Lock()
	t := s.tasks[id]
	s.mu.Unlock()
	if t == nil {
		return nil, driver.Handle{}, false
	}
	name := t.driverName()
	return s.drivers[name], driver.Handle{Driver: name, TaskID: string(id)}, s.drivers[name] != nil
}

// status returns what was observed of a task, if the server may know it.
func (s *Set) status(id cluster.TaskID) (state.Status, bool) {
	s.mu.Lock()
	t := s.tasks[id]
	s.mu.Unlock()
	if t == nil {
		return state.Status{}, false
	}
	status, forgotten := t.seen()
	return status, !forgotten
}

// changed tells the feeds of a task.
func (s *Set) changed(id cluster.TaskID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for f := range s.feeds {
		f.task(id)
	}
}

// straysChanged tells the feeds that there are more or fewer strays. It is called with the lock held.
func (s *Set) straysChanged() {
	for f := range s.feeds {
		f.stray()
	}
}

// begin has Run start a goroutine. It is called with the lock held.
func (s *Set) begin(r runner) {
	s.born = append(s.born, r)
	select {
	case s.spawn <- struct{}{}:
	default:
	}
}

// drop forgets a task of which nothing is left.
func (s *Set) drop(id cluster.TaskID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tasks, id)
	s.straysChanged()
}
