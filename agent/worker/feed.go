package worker

import (
	"sync"

	"github.com/setpointd/setpoint/agent/state"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Feed tells its reader which tasks changed. Of each task only the newest status counts, so it never grows beyond the number of tasks.
type Feed struct {
	set  *Set
	wake chan struct{}

	mu     sync.Mutex // guards what follows
	dirty  map[cluster.TaskID]struct{}
	strays bool
}

// Follow returns a feed of what changes from now on. Close ends it.
func (s *Set) Follow() *Feed {
	f := &Feed{set: s, wake: make(chan struct{}, 1), dirty: make(map[cluster.TaskID]struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.feeds[f] = struct{}{}
	return f
}

// Close ends the feed.
func (f *Feed) Close() {
	f.set.mu.Lock()
	defer f.set.mu.Unlock()
	delete(f.set.feeds, f)
}

// Wake holds a value when there is something to take.
func (f *Feed) Wake() <-chan struct{} { return f.wake }

// Take returns the statuses of at most n tasks that changed. It reports false if nothing changed, not even the strays.
func (f *Feed) Take(n int) (statuses []state.Status, changed bool) {
	f.mu.Lock()
	var ids []cluster.TaskID
	for id := range f.dirty {
		if len(ids) == n {
			f.notify()
			break
		}
		ids = append(ids, id)
		delete(f.dirty, id)
	}
	changed = f.strays || len(ids) > 0
	f.strays = false
	f.mu.Unlock()
	for _, id := range ids {
		if status, ok := f.set.status(id); ok {
			statuses = append(statuses, status)
		}
	}
	return statuses, changed
}

func (f *Feed) task(id cluster.TaskID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dirty[id] = struct{}{}
	f.notify()
}

func (f *Feed) stray() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.strays = true
	f.notify()
}

func (f *Feed) notify() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}
