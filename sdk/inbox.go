package sdk

import "sync"

// event is something that happened outside of the session's loop and that the loop deals with.
type event interface{ happen() }

// eventFunc is an event that is a function.
type eventFunc func()

func (f eventFunc) happen() { f() }

// inbox carries events to the session's loop, in order. It is bounded by the calls of author's code that are under way.
type inbox struct {
	wake chan struct{} // holds one token while something waits

	mu     sync.Mutex // guards events
	events []event
	taken  []event // by the loop; its memory is used again
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

// post hands the loop something to do. It never blocks.
func (b *inbox) post(e event) {
	b.mu.Lock()
	b.events = append(b.events, e)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// call hands the loop a function to call. It never blocks.
func (b *inbox) call(f func()) { b.post(eventFunc(f)) }

// deal deals with what waits. Only the loop calls it.
func (b *inbox) deal() {
	b.mu.Lock()
	b.events, b.taken = b.taken[:0], b.events
	b.mu.Unlock()
	for _, e := range b.taken {
		e.happen()
	}
	clear(b.taken)
}
