package worker

import (
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// connected stands for a session that goes on, in the place of since when there is none.
const connected = -1

// fenceCheck is how often a task that is to stop without a server looks how late it is. A timer alone would not do: it stands still while the machine sleeps.
const fenceCheck = time.Second

// Reached says that a server is heard: no task stops for want of one.
func (s *Set) Reached() { s.hear(connected) }

// Cut says since when nothing was heard of a server, by the clock of Options.Boot. Tasks that want it so stop once that is too long ago.
func (s *Set) Cut(since time.Duration) { s.hear(since) }

func (s *Set) hear(since time.Duration) {
	s.cut.Store(int64(since))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tasks {
		if t.fence() > 0 {
			t.tell(func() {})
		}
	}
}

// Fenced reports whether some task that may run is to stop when no server is heard for some time.
func (s *Set) Fenced() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tasks {
		if status, _ := t.seen(); t.fence() > 0 && !status.State.Terminal() {
			return true
		}
	}
	return false
}

// fence returns for how long the task may run without a server; 0: for ever.
func (t *task) fence() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fenceOf(t.told.Spec)
}

func fenceOf(s *cluster.TaskSpec) time.Duration {
	if s == nil {
		return 0
	}
	return s.Stop.AfterDisconnect
}

// alone reports whether no server was heard for too long for the task, or may come not to have been. It is called with the lock held.
func (t *task) alone() (tooLong, soon bool) {
	limit, cut := fenceOf(t.told.Spec), time.Duration(t.set.cut.Load())
	if limit <= 0 || cut == connected {
		return false, false
	}
	tooLong = t.set.opts.Boot()-cut >= limit
	return tooLong, !tooLong
}
