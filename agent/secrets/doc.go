// Package secrets keeps the values of tasks' secrets on this machine: as files in memory, a directory for each task, from its start to its end. They are on a tmpfs or a
// ramfs, or they are not kept at all.
//
// Owner: the agent. The package imports agent/driver and sdk/cluster.
package secrets
