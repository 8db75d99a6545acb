package api

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/setpointd/setpoint/core/engine"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Limits of what is kept of the past, of the changes that wait to be made into events, and of what a watcher takes at a time.
const (
	keptEvents  = 20_000 // and as many turns
	keptPending = 200_000
	takenTurns  = 256
)

// Events keeps the recent past. Watchers read from it at their own pace; nothing is kept for one of them.
type Events struct {
	head cluster.Revision // when the first turn had not come
	wake chan struct{}    // holds a value when turns wait to be made into events

	mu      sync.Mutex // guards what follows
	pending []engine.Turn
	changes int  // in pending
	lost    bool // more came than could be made into events: what is kept begins anew
	turns   []turnEvents
	events  int           // in turns
	next    chan struct{} // closed when turns changes
}

// turnEvents are the events of one turn.
type turnEvents struct {
	revision cluster.Revision
	events   []*apiv1.Event
}

// NewEvents returns events without a past. The first turn that comes is the one after head.
func NewEvents(head cluster.Revision) *Events {
	return &Events{head: head, wake: make(chan struct{}, 1), next: make(chan struct{})}
}

// Committed takes a turn. It is called after every commit, in order, and never blocks: events are made of it by Run.
func (e *Events) Committed(turn engine.Turn) {
	e.mu.Lock()
	if e.changes+len(turn.Changes) > keptPending {
		e.pending, e.changes, e.lost = nil, 0, true
	}
	e.pending = append(e.pending, turn)
	e.changes += len(turn.Changes)
	e.mu.Unlock()
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Run makes events of the turns that come, until the context ends.
func (e *Events) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.wake:
		}
		e.mu.Lock()
		pending, lost := e.pending, e.lost
		e.pending, e.changes, e.lost = nil, 0, false
		e.mu.Unlock()
		made := make([]turnEvents, len(pending))
		for i, turn := range pending {
			made[i] = turnEvents{turn.State.Revision, eventsOf(turn)}
		}
		e.keep(made, lost)
	}
}

// keep adds turns and drops the oldest beyond the limit.
func (e *Events) keep(made []turnEvents, anew bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if anew {
		e.turns, e.events = nil, 0
	}
	for _, t := range made {
		e.turns = append(e.turns, t)
		e.events += len(t.events)
	}
	for len(e.turns) > 1 && (e.events > keptEvents || len(e.turns) > keptEvents) {
		e.events -= len(e.turns[0].events)
		e.turns[0] = turnEvents{}
		e.turns = e.turns[1:]
	}
	close(e.next)
	e.next = make(chan struct{})
}

// since returns some of the turns kept from a revision on, and what is closed when there are more. It reports false if some of those that
// were asked for are not kept.
func (e *Events) since(from cluster.Revision) (turns []turnEvents, more <-chan struct{}, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.turns) == 0 {
		return nil, e.next, from > e.head
	}
	if from < e.turns[0].revision {
		return nil, e.next, false
	}
	i, _ := slices.BinarySearchFunc(e.turns, from, func(t turnEvents, r cluster.Revision) int { return cmp.Compare(t.revision, r) })
	return slices.Clone(e.turns[i:min(i+takenTurns, len(e.turns))]), e.next, true
}

// recent returns the revision from which at least n matching events are kept, as far as there are so many; with n = 0, from which any are.
func (e *Events) recent(n int, match func(*apiv1.Event) bool) cluster.Revision {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.turns) == 0 {
		return e.head + 1
	}
	if n == 0 {
		return e.turns[0].revision
	}
	for i := len(e.turns) - 1; i >= 0; i-- {
		for _, v := range e.turns[i].events {
			if match(v) {
				n--
			}
		}
		if n <= 0 {
			return e.turns[i].revision
		}
	}
	return e.turns[0].revision
}
