// Package place decides on which node a waiting task runs, and says of each node why not when none can take it.
//
// Tasks are placed in groups: one class, one version of the specification, one set of nodes. What depends on the group alone (its filters' verdicts, the nodes
// that its slots are limited to) is looked at once for the group; what depends on other tasks (resources, ports, the limit per node) once for each node and
// again only where something was placed. A group that cannot be placed keeps each node's first reason, so that a changed node is looked at alone.
//
// Owner: nobody; the package keeps nothing between calls. It is pure: no clock, chance, goroutine, lock, log or I/O, and arguments are never changed. The same
// input gives the same output, whatever the order of nodes, groups and maps. It imports sdk/cluster and the standard library.
package place
