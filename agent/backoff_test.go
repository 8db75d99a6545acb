package agent

import (
	"errors"
	"testing"
	"time"

	"connectrpc.com/connect"
)

// However long a server was away, its agents come back within its nodes' grace.
func TestPausesEndWithinTheGrace(t *testing.T) {
	away := connect.NewError(connect.CodeUnavailable, errors.New("connection refused"))
	for _, tt := range []struct {
		name   string
		period time.Duration
		err    error
		most   time.Duration
	}{
		{"away", time.Second, away, time.Second},
		{"broken", time.Second, errors.New("nothing came from the server for 3s"), time.Second},
		{"heartbeats are rare", time.Minute, away, maxPause},
		{"heartbeats are very frequent", time.Millisecond, away, firstPause},
		{"it has not answered since the agent started", 0, away, defaultPeriod},
		{"refused", time.Second, connect.NewError(connect.CodeUnauthenticated, errors.New("expired")), maxPause},
		{"too many", time.Second, connect.NewError(connect.CodeResourceExhausted, errors.New("too many sessions")), maxPause},
	} {
		a := &Agent{}
		a.period.Store(int64(tt.period))
		wait := backoff{most: a.longest(tt.err)}
		var last time.Duration
		for range 20 {
			if last = wait.next(); last > tt.most {
				t.Errorf("%s: a pause of %s, at most %s are wanted", tt.name, last, tt.most)
			}
		}
		if last < tt.most/2 {
			t.Errorf("%s: after many attempts the pause is %s only", tt.name, last)
		}
	}
}
