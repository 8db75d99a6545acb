package engine

import (
	"runtime"
	"sync"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// loadTasks notes what tasks take, and those that wait. The tasks of a job follow each other.
func (e *Engine) loadTasks() {
	takers := newTakers(&e.ledger)
	var t cluster.Task
	job, taken := "", 0
	for x := range e.work.allTasks() {
		if x.into(&t); t.Job != job {
			e.ledger.tally(job, taken)
			job, taken = t.Job, 0
			if e.work.Job(job) == nil {
				e.dirtyJobs[job] = true // removed; the others are dirty already
			}
		}
		if reserves(&t) {
			if i, ok := e.index[t.Placement.Node]; ok {
				takers.give(taking{i, t.ID, t.Job, t.Reserve.Resources, t.Placement.Ports})
				taken++
			}
			e.takeAddresses(&t)
		}
		if e.waits(&t) {
			e.joinGroup(x.unpack()) // which keeps it
		}
	}
	e.ledger.tally(job, taken)
	takers.end()
}

// takers note in the ledger what tasks take on nodes, each on nodes of its own.
type takers struct {
	next  [][]taking // to be given, by taker
	to    []chan []taking
	spent chan []taking // noted: to be filled again
	group sync.WaitGroup
}

// takenAtOnce is how much is given to a taker together.
const takenAtOnce = 512

func newTakers(l *ledger) *takers {
	n := runtime.GOMAXPROCS(0)
	x := &takers{next: make([][]taking, n), to: make([]chan []taking, n), spent: make(chan []taking, 4*n)}
	for k := range x.to {
		x.to[k] = make(chan []taking, 2)
		x.group.Go(func() {
			for some := range x.to[k] {
				for i := range some {
					l.takeUncounted(&some[i])
				}
				select {
				case x.spent <- some:
				default:
				}
			}
		})
	}
	return x
}

func (x *takers) give(t taking) {
	k := int(t.node) % len(x.to)
	if cap(x.next[k]) == 0 {
		x.next[k] = x.room()
	}
	if x.next[k] = append(x.next[k], t); len(x.next[k]) == takenAtOnce {
		x.to[k] <- x.next[k]
		x.next[k] = nil
	}
}

func (x *takers) room() []taking {
	select {
	case some := <-x.spent:
		return some[:0]
	default:
		return make([]taking, 0, takenAtOnce)
	}
}

// end returns once everything is noted.
func (x *takers) end() {
	for k, to := range x.to {
		to <- x.next[k]
		close(to)
	}
	x.group.Wait()
}
