package sim

import (
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// books is what the checkers remember from turn to turn, and how often each had something to look at: a check that never looks finds nothing.
type books struct {
	stepping bool                             // the engine decides and has committed nothing yet
	ids      map[cluster.TaskID]bool          // that were ever used
	restarts map[string]*spent                // by slot
	moved    map[string]cluster.Revision      // when a slot last took up other content
	removed  map[string]*removal              // jobs
	versions map[string]uint64                // the newest version of each job
	first    map[cluster.TaskID]bool          // tasks that were made when their job starts first
	differs  map[cluster.TaskID]time.Duration // since when, in the world's time, a process and its record differ
	waits    map[string]time.Duration         // since when, in the world's time, something waits without a reason
	Looked   map[string]int
}

// spent is the restarts of a slot.
type spent struct {
	version uint64 // of the task section
	at      []time.Duration
}

// removal is a job that was removed.
type removal struct {
	since time.Duration // when nothing of it stood in the way of forgetting it
}

func newBooks() books {
	return books{
		ids: map[cluster.TaskID]bool{}, restarts: map[string]*spent{}, moved: map[string]cluster.Revision{}, removed: map[string]*removal{}, versions: map[string]uint64{},
		first: map[cluster.TaskID]bool{}, differs: map[cluster.TaskID]time.Duration{}, waits: map[string]time.Duration{}, Looked: map[string]int{},
	}
}

// looked counts what a checker looked at.
func (w *World) looked(what string) { w.books.Looked[what]++ }

// Looked returns how often each checker had something to look at.
func (w *World) Looked() map[string]int { return w.books.Looked }

// loaded forgets what is measured in a time that stands still while no daemon runs.
func (b *books) loaded(*engine.State) {
	clear(b.differs)
	clear(b.waits)
}

// received returns what the server calls once a report is durable.
func (w *World) received() func() {
	return func() {
		w.looked("acknowledgements")
		if w.books.stepping {
			w.failf("a report was acknowledged before it was committed")
		}
	}
}

// checkLimits checks that a turn can be written at once, and that a small limit is kept but for what one job, or what was taken in, adds to it.
func (w *World) checkLimits(t engine.Turn, records int) {
	const store, slack = 10_000, 2_500
	limit := w.Engine.Config().MaxChanges
	if records > store || records > limit+limit+slack {
		w.failf("limits: r%d writes %d records, and its limit is %d", t.State.Revision, records, limit)
	}
}
