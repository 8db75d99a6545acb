package sdk

import "sync"

// inbox carries what other goroutines have for the session's loop, in order. It is bounded by the calls of author's code that are under way.
type inbox struct {
	wake chan struct{} // holds one token while something waits

	mu     sync.Mutex // guards events
	events []func()
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

// post hands the loop something to do. It never blocks.
func (b *inbox) post(event func()) {
	b.mu.Lock()
	b.events = append(b.events, event)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take returns what waits.
func (b *inbox) take() []func() {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.events
	b.events = nil
	return out
}
