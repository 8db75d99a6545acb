package agent

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"
)

// The pauses between two attempts to reach the server.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 8 * time.Second
)

// backoff is a pause that grows. The zero value begins with the shortest.
type backoff struct {
	bound time.Duration
	most  time.Duration // 0: maxPause
}

// next returns the pause before the next attempt: between half of a bound that grows and all of it, so that many agents that lost one server
// come back spread over time.
func (b *backoff) next() time.Duration {
	b.bound = min(max(2*b.bound, firstPause), cmp.Or(b.most, maxPause))
	return b.bound/2 + rand.N(b.bound/2)
}

func (b *backoff) reset() { b.bound = 0 }

// pause waits, and reports false if the context ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
