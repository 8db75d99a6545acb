package cluster

import "time"

// Strength orders what can be said about one task; the strongest counts.
type Strength uint8

// The strengths, weakest first.
const (
	Nothing   Strength = iota
	Voluntary          // should go, within the job's budget
	Keep               // must not leave voluntarily; a stall of the drainer that keeps it
	Forced             // goes now
)

// Transition says that a task should go to a desired state.
type Transition struct {
	Task     TaskID
	To       DesiredState
	Strength Strength // Voluntary or Forced
	Reason   string
	By       string        // the plugin, or "core"
	Cause    Cause         // orders voluntary moves
	Since    Time          // when it was first asked for
	Grace    time.Duration // how long the task may take to stop; negative: as its specification says
}

// Cause is why a task should move. Voluntary moves are admitted in this order.
type Cause uint8

// The causes, most urgent first.
const (
	CauseDrain Cause = iota
	CauseDrift
	CausePlugin
	CauseUpdate
	CauseRebalance
)

var causeNames = [...]string{"drain", "drift", "plugin", "update", "rebalance"}

func (c Cause) String() string { return causeNames[c] }

// Join returns what counts of two statements about the same task. The stronger counts; at equal strength the one with the shorter grace, then the more
// urgent cause, then the plugin's name, so that the order in which answers arrive never matters.
func Join(a, b Transition) Transition {
	switch {
	case a.Strength != b.Strength:
		if a.Strength > b.Strength {
			return a
		}
		return b
	case graceOf(a) != graceOf(b):
		if graceOf(a) < graceOf(b) {
			return a
		}
		return b
	case a.Cause != b.Cause:
		if a.Cause < b.Cause {
			return a
		}
		return b
	case a.By <= b.By:
		return a
	}
	return b
}

func graceOf(t Transition) time.Duration {
	if t.Grace < 0 {
		return 1<<63 - 1
	}
	return t.Grace
}
