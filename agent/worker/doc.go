// Package worker carries out assignments on this machine: for each task one goroutine that starts it with its driver, watches it, stops it, and
// observes what became of it. What to do next is one pure function of what is known (decide, in step.go).
//
// It writes what it is about to do before it does it, and drops a record only after the driver dropped the task, so it can be killed at any
// moment: the next Set on the same file finds each task by its record or, without one, as a stray, which it stops.
//
// It needs no server. What it was told stands until it is told otherwise; only a start waits for the server to confirm, after the agent's
// own restart, that it is still wanted.
//
// Owner: the agent. The package imports agent/driver, agent/health, agent/state and sdk/cluster.
package worker
