package reconcile

import (
	"cmp"
	"slices"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Rest is what a slot counts for in its job while it is at rest: a decision found nothing to do in it, nothing to wait for that comes with time, and nothing to
// say that would not stand, and nothing that it depends on has changed since. That is the slot, its tasks and their nodes, what filters, drainers and its job's type say of them, and the job.
type Rest uint32

const (
	restWanted   Rest = 1 << iota // neither unwanted, held nor excluded
	restCounts                    // takes part in the budget
	restDown                      // of these, not up
	restDownToo                   // of these, those that count for updates as well
	restStale                     // to be moved to the newest version
	restHolds                     // holds a place of the update
	restLeft                      // the update is not over while it is so
	restWaits                     // up to the end of the update it may wait
	restHeldBack                  // held, and stale
	restMovable                   // up, and moved by the update once there is a place
	restTask                      // one of those with a task where the job limits how many have one at a time
	restQueued                    // waits for its turn
	restIs                        // any slot
	restBalanced                  // a rebalance that is under way may move its task
	restWaiting                   // its task is to move once the budget allows that
	restPaused                    // with restHeldBack: by the first of heldWords; those that follow are for the others
	_
	_
	_
	restAwake // not at rest: the next decision looks at it
	restGone  // there is no such slot any more

	restTotals = 19 // how many of these are counted
)

// totals are how many slots at rest count for what.
type totals [restTotals]int

func (n *totals) add(r Rest, by int) {
	for i := range n {
		if r&(1<<i) != 0 {
			n[i] += by
		}
	}
}

func (n *totals) of(r Rest) int {
	for i := range n {
		if r == 1<<i {
			return n[i]
		}
	}
	panic("reconcile: nothing is counted of it")
}

// Entry is what a decision found of one slot.
type Entry struct {
	Key  cluster.SlotKey
	Rest Rest

	created cluster.Revision // with restMovable: of the task that it keeps
	node    cluster.NodeID   // with restBalanced: of the task that it keeps

	cause    cluster.Cause // with restWaiting: of the wish
	deadline time.Duration // engine time at which it is forced; 0: never
}

// Book is what is kept of a job between decisions, so that the next one needs to look only at slots that are awake. What it holds follows from the state alone:
// without it, the same is decided.
//
// Owner: who calls Job. He wakes each slot of which something changes that it depends on, has the book take what was decided, and drops it when the job changes.
type Book struct {
	numbered bool // the job's slots are numbers
	slots    map[cluster.SlotKey]Rest
	awake    []cluster.SlotKey
	totals   totals
	movable  []Entry // in the order in which an update moves them; entries count that are among created
	created  map[cluster.SlotKey]cluster.Revision
	queue    []cluster.SlotKey // in the order in which it is their turn; those count that still wait
	piles    *piles            // nil: no rebalance was under way
	waiting  []Entry           // in the order in which the budget admits them; those count that are in wants
	wants    map[cluster.SlotKey]Entry
	said     said
}

func newBook(numbered bool, slots int) *Book {
	return &Book{slots: make(map[cluster.SlotKey]Rest, slots), created: map[cluster.SlotKey]cluster.Revision{}, wants: map[cluster.SlotKey]Entry{}, numbered: numbered}
}

// Wake has the next decision look at a slot, which may be a new one.
func (b *Book) Wake(key cluster.SlotKey) {
	r, ok := b.slots[key]
	if ok && r == restAwake {
		return
	}
	b.leave(key)
	b.slots[key] = restAwake
	b.awake = append(b.awake, key)
}

// leave takes a slot out of what is kept of slots at rest.
func (b *Book) leave(key cluster.SlotKey) {
	b.totals.add(b.slots[key], -1)
	delete(b.created, key)
	delete(b.wants, key)
	if b.piles != nil {
		b.piles.drop(key)
	}
}

// Next returns the book after a decision that was made with b, nil if it was made without; nil if nothing is to be kept, as once nothing is left of a removed
// job. The decision's changes were applied.
func (b *Book) Next(r *Result) *Book {
	switch {
	case r.whole:
		b = nil
	case b == nil:
		b = r.glanced
	}
	switch {
	case r.restless:
		return nil
	case b == nil:
		b = newBook(r.numbered, len(r.entries))
		if r.rebalancing {
			b.piles = newPiles()
		}
	}
	for _, e := range r.entries {
		b.take(e, r.whole)
	}
	if r.whole {
		slices.SortFunc(b.movable, b.compare)
		slices.SortFunc(b.queue, b.compareKeys)
		slices.SortFunc(b.waiting, b.compareWaiting)
		if b.piles != nil {
			b.piles.sort(b.compareKeys)
		}
	}
	b.awake = slices.DeleteFunc(b.awake, func(key cluster.SlotKey) bool { return b.slots[key] != restAwake })
	for len(b.movable) > 0 && !b.moves(b.movable[0]) {
		b.movable = b.movable[1:]
	}
	for len(b.queue) > 0 && !b.waits(b.queue[0]) {
		b.queue = b.queue[1:]
	}
	for len(b.waiting) > 0 && b.wants[b.waiting[0].Key] != b.waiting[0] {
		b.waiting = b.waiting[1:]
	}
	b.said = r.said
	if len(b.slots) == 0 {
		return nil
	}
	return b
}

func (b *Book) take(e Entry, whole bool) {
	if e.Rest == restAwake {
		b.Wake(e.Key)
		return
	}
	if _, known := b.slots[e.Key]; known {
		b.leave(e.Key)
	}
	if e.Rest == restGone {
		delete(b.slots, e.Key)
		return
	}
	b.slots[e.Key] = e.Rest
	b.totals.add(e.Rest, 1)
	if e.Rest&restQueued != 0 {
		b.queue = insert(b.queue, e.Key, whole, b.compareKeys)
	}
	if e.Rest&restWaiting != 0 {
		b.wants[e.Key] = e
		b.waiting = insert(b.waiting, e, whole, b.compareWaiting)
	}
	if e.Rest&restBalanced != 0 && b.piles != nil {
		b.piles.put(e.Key, e.node, whole, b.compareKeys)
	}
	if e.Rest&restMovable != 0 {
		b.created[e.Key] = e.created
		b.movable = insert(b.movable, e, whole, b.compare)
	}
}

// insert adds what is not there yet at its place, or at the end if all is to be sorted afterwards.
func insert[T any](all []T, one T, unsorted bool, compare func(T, T) int) []T {
	if unsorted {
		return append(all, one)
	}
	if at, known := slices.BinarySearchFunc(all, one, compare); !known {
		return slices.Insert(all, at, one)
	}
	return all
}

// waits reports whether a slot of the queue still waits for its turn.
func (b *Book) waits(key cluster.SlotKey) bool { return b.slots[key]&restQueued != 0 }

func (b *Book) compareKeys(x, y cluster.SlotKey) int { return compareKeys(x, y, b.numbered) }

// moves reports whether an entry of movable still says how it is.
func (b *Book) moves(e Entry) bool {
	created, ok := b.created[e.Key]
	return ok && created == e.created
}

// compareWaiting orders slots as the budget admits them.
func (b *Book) compareWaiting(x, y Entry) int {
	return cmp.Or(cmp.Compare(x.cause, y.cause), cmp.Compare(orNever(x.deadline), orNever(y.deadline)), b.compare(x, y), cmp.Compare(x.Rest, y.Rest))
}

// compare orders slots as an update moves them.
func (b *Book) compare(x, y Entry) int {
	return cmp.Or(cmp.Compare(x.created, y.created), b.compareKeys(x.Key, y.Key))
}
