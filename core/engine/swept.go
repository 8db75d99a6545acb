package engine

// Swept is what the net found in one look: things about which nothing had told the engine, and which it has put right or does so in the next turn.
type Swept struct {
	Caught []Caught
	Round  bool // with this look everything was looked at once since the round began
}

// Caught is one thing that only the net saw. It is a fault of the program wherever it happens.
type Caught struct {
	What   Missed
	About  string // the job, group, task or node, or what is kept of all
	Detail string // what was found there, and what should be
}

// Missed is a kind of thing that the net catches.
type Missed string

// What the net catches.
const (
	MissedDecision  Missed = "decision"  // something is to be decided about a job or a drain, and nothing had it looked at
	MissedDeadline  Missed = "deadline"  // a decision waits for a moment, and nobody wakes for it
	MissedPlacement Missed = "placement" // a task waits, and could be placed; or it is not among those that are placed
	MissedReason    Missed = "reason"    // what is said of why tasks wait is not so
	MissedUse       Missed = "use"       // what is noted to be taken or free on a node is not what its tasks take
	MissedCount     Missed = "count"     // what is counted or indexed of slots, tasks and nodes is not what there is
)

// AllMissed are the kinds of things that the net catches.
func AllMissed() []Missed {
	return []Missed{MissedDecision, MissedDeadline, MissedPlacement, MissedReason, MissedUse, MissedCount}
}
