// Package store names what a durable layer under the engine must do: keep the records of a cluster, one batch per revision, so that an
// acknowledged batch outlives the process and the machine's power.
//
// It works on keys and bytes and knows nothing of jobs, tasks or nodes; what the bytes mean is the caller's. The working copy of the state
// is in the caller's memory. A Backend is read once, at start, and written from then on; the log of recent batches serves watchers which
// resume from a revision.
//
// Backends: store/bolt (one file, one process) and store/mem (memory, with faults to order). Both pass the suite in store/storetest. With
// either of them one process leads from the start, and no standby can follow; following a leader is part of a backend for several servers.
//
// Owner: one goroutine calls Load, then Commit; Read, Limits and Stats may be called beside it from any goroutine. This package and its
// backends import the standard library, golang.org/x/sys, and go.etcd.io/bbolt in store/bolt alone.
package store
