// Package drain is the plugin that says how a node is emptied: first all tasks whose job says on_drain = "first", each within its job's budget, and once none
// of them is left, those that say "last", as global jobs do. It keeps no task; budgets and the drain's deadline are the core's.
//
// It may import sdk and the standard library, as any plugin may.
package drain
