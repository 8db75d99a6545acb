// Package global is the plugin that says what "one on every node" means: a job of type global or global-batch has one slot for each node that was not
// decommissioned, limited to that node. Filters then take nodes away, and the core holds the slots of nodes that are paused, drained, silent or down.
//
// It may import sdk and the standard library, as any plugin may.
package global
