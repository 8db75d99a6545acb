package docker

import (
	"context"
	"sync"
)

// A keyLock is a lock for each key, to wait for which can be given up.
type keyLock struct {
	mu   sync.Mutex
	held map[string]chan struct{} // closed once the key is free
}

// lock returns the function that unlocks.
func (l *keyLock) lock(ctx context.Context, key string) (func(), error) {
	for {
		l.mu.Lock()
		if l.held == nil {
			l.held = make(map[string]chan struct{})
		}
		other := l.held[key]
		if other == nil {
			mine := make(chan struct{})
			l.held[key] = mine
			l.mu.Unlock()
			return func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				delete(l.held, key)
				close(mine)
			}, nil
		}
		l.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
