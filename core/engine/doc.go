// Package engine owns the state of a cluster. One goroutine takes inputs in batches, decides by the pure packages monitor, reconcile and place, commits one
// revision and only then publishes it: to agents, to plugins and to watchers.
//
// Step does all of this without I/O, so that a whole cluster can be run in one goroutine from a seed; Run is the loop around it. The package defines the
// interfaces that it needs and imports neither a store's backend nor any shell.
package engine
