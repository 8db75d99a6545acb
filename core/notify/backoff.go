package notify

import (
	"math/rand/v2"
	"time"
)

// Bounds of how long a sink waits after a failure before it tries again.
const (
	firstRetry = time.Second
	lastRetry  = 5 * time.Minute
)

// backoff says how long to wait after failures in a row. Half of the delay is by chance, so that servers that failed together do not come back together.
type backoff struct {
	failures int
	random   *rand.Rand
}

// failed returns how long to wait after one more failure; atLeast is what the other side asked for.
func (b *backoff) failed(atLeast time.Duration) time.Duration {
	step := lastRetry
	if b.failures < 10 {
		step = min(firstRetry<<b.failures, lastRetry)
	}
	b.failures++
	d := step/2 + time.Duration(b.random.Int64N(int64(step/2)+1))
	return max(d, min(atLeast, lastRetry))
}

func (b *backoff) worked() { b.failures = 0 }
