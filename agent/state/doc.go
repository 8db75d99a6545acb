// Package state is what an agent remembers: which cluster and node it belongs to, what it was told about each task, what it last observed of
// it, and by which handle a driver knows it. All of it is one bbolt file, agent.db, that one agent holds at a time.
//
// The order in which an agent writes is what makes it safe to kill at any moment: the intent to start a task is here before its driver is
// asked, and a task's record goes only after the driver has removed all that it kept of it. So what runs always has a record, unless the file
// was lost.
//
// The file has five buckets. meta: format, cluster, node, revision. assignments, statuses and handles by task id, each value behind a CRC-32C
// of four bytes. forgotten: ids of tasks that are to be stopped and then dropped.
//
// Owner: the agent. The package imports bbolt, agent/driver, proto, sdk/cluster and sdk/wire.
package state
