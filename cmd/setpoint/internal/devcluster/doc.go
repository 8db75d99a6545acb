// Package devcluster starts the agents of a cluster on one machine, finds those again that an earlier run left, and ends them.
//
// Each agent is a process of its own in a session of its own, so that it outlives whoever started it. It writes who it is to its directory (Record), since the
// next run has nothing else to find it by: a number alone may meanwhile be another process's.
//
// Owner: of the agents' processes while it runs; the agents own their directories. It imports the standard library and the data directory's names.
package devcluster
