// Package cgroup makes Linux control groups, of version 1, of version 2, and of both on one machine: a group of processes has its limits held by the kernel,
// ends as a whole, whatever process group or session its members are in, and tells whether the kernel killed one of them for want of memory.
//
// Groups are made below that of this process, or below a path that the configuration names; others' groups are left alone. A group is a directory in one
// hierarchy or, of version 1, in several, and everything about it lies there, so a later process takes it up by the paths alone.
//
// Owner: who runs processes of others, which are the process driver and the plugins' runner. The package imports the standard library and golang.org/x/sys only,
// since it is part of every task's shim.
package cgroup
