// Package metrics tells what a server does and how its cluster is, in the form that Prometheus reads. docs/METRICS.md lists every metric.
//
// What happens is counted as turns are committed; how things are is read from the newest committed state when somebody asks. The number of series is bounded:
// labels are words of the vocabulary and names of plugins, and of jobs up to a limit, never of tasks or nodes.
//
// Owner: the daemon makes one and feeds it. It is a shell and imports no other.
package metrics
