package engine

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/setpointd/setpoint/core/reconcile"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// decisions makes the decisions of one turn about jobs, one after the other, each on the state that those before left. Where those before changed nothing, the
// next ones are made at once on all processors: what is decided about a job follows from the state, and all that changes of it in between is a change of the
// turn. So what was decided ahead is what would be decided now as long as the turn has no more changes than it had then, and is thrown away otherwise.
//
// That is the first turn of a server: every slot of every job is looked at, and mostly nothing is to be done.
type decisions struct {
	e       *Engine
	now     cluster.Time
	ready   []reconcile.Result // of the next jobs in order
	changes int                // of the turn, when they were made
	still   int                // decisions in a row that changed nothing
}

// Limits of what is decided ahead: after so many decisions that changed nothing, and for so many jobs at most.
const (
	aheadAfter = 2
	aheadLimit = 64
)

// next decides about the first of the jobs that are left.
func (d *decisions) next(left []string) reconcile.Result {
	if n := len(d.e.changes); n == d.changes {
		d.still++
	} else {
		d.ready, d.still, d.changes = nil, 0, n
	}
	if len(d.ready) == 0 && d.still > aheadAfter {
		d.ready = d.ahead(left[:min(len(left), d.still, aheadLimit)])
	}
	if len(d.ready) == 0 {
		return reconcile.Job(d.e.view(), left[0], d.now, d.e.rev)
	}
	r := d.ready[0]
	d.ready = d.ready[1:]
	return r
}

// ahead decides about the first of the given jobs of which all slots are to be looked at.
func (d *decisions) ahead(jobs []string) []reconcile.Result {
	for i, name := range jobs {
		if d.e.books[name] != nil {
			jobs = jobs[:i] // the others are decided about in no time
			break
		}
	}
	workers := min(runtime.GOMAXPROCS(0), len(jobs))
	if workers < 2 {
		return nil
	}
	d.e.ledger.cluster() // puts the nodes in order, which is done by whoever needs it first
	out, failed := make([]reconcile.Result, len(jobs)), int64(len(jobs))
	var taken atomic.Int64
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			i := taken.Add(1) - 1
			defer func() {
				if recover() != nil {
					lower(&failed, i) // it panics again when it is that job's turn, where those who wait for it see it
				}
			}()
			v := d.e.view()
			for ; i < int64(len(jobs)); i = taken.Add(1) - 1 {
				out[i] = reconcile.Job(v, jobs[i], d.now, d.e.rev)
				v.next(len(out[i].Changes) > 0)
			}
		})
	}
	group.Wait()
	return out[:failed]
}

// lower sets a number to one that is lower.
func lower(n *int64, to int64) {
	for old := atomic.LoadInt64(n); to < old && !atomic.CompareAndSwapInt64(n, old, to); old = atomic.LoadInt64(n) {
	}
}
