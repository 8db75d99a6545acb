// Package cluster is the vocabulary of Setpoint: nodes, jobs, slots, tasks, what is wanted of them, what was observed, what is inferred, and why they wait.
//
// It is pure: values and functions on values, without clock, I/O or goroutines, and it imports the standard library only. Every record is divided into
// sections, and each section has exactly one writer (see Section and Author). Records that have been published are never changed; a new value replaces them.
package cluster
