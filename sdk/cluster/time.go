package cluster

import (
	"encoding/json"
	"time"
)

// Time is one moment on two clocks. Decisions compare Engine only; Wall is for people and for schedules.
//
// Engine time is advanced by the monotonic clock while a server runs, is stored with each commit and stands still while no server runs, so that a jump of
// the wall clock or a pause ends no delay.
type Time struct {
	Engine time.Duration // since the cluster was created, counted only while a server ran
	Wall   int64         // nanoseconds since the Unix epoch
}

// IsZero reports whether t was never set.
func (t Time) IsZero() bool { return t == Time{} }

// Sub returns the engine time that passed from u to t.
func (t Time) Sub(u Time) time.Duration { return t.Engine - u.Engine }

// Add returns the moment d later on both clocks.
func (t Time) Add(d time.Duration) Time {
	return Time{Engine: t.Engine + d, Wall: t.Wall + int64(d)}
}

// Before reports whether t is earlier than u in engine time.
func (t Time) Before(u Time) bool { return t.Engine < u.Engine }

// WallTime returns the moment on the wall clock, in UTC; the zero Time gives the zero time.Time.
func (t Time) WallTime() time.Time {
	if t.Wall == 0 {
		return time.Time{}
	}
	return time.Unix(0, t.Wall).UTC()
}

// MarshalJSON writes the wall clock in RFC 3339, or null if t was never set.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(t.WallTime())
}
