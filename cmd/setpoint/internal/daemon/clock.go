package daemon

import (
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// clock tells engine time, which goes on from where the last server stopped and follows the monotonic clock, and wall time.
type clock struct {
	base    time.Duration
	started time.Time
}

func newClock(base time.Duration) clock { return clock{base: base, started: time.Now()} }

// Now returns this moment on both clocks.
func (c clock) Now() cluster.Time {
	now := time.Now()
	return cluster.Time{Engine: c.base + now.Sub(c.started), Wall: now.UnixNano()}
}
