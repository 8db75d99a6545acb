// Package mem is a store.Backend in memory, for the simulator and for tests: the same contract and the same suite as the durable ones, and
// faults when they are ordered. A Disk is what survives a crash; a Backend is one process's hold on it.
//
// Owner: a Disk belongs to whoever made it, a Backend to the one goroutine that commits. Imports the standard library and core/store.
package mem
