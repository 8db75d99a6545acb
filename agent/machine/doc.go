// Package machine finds out what a node is: its platform, addresses, capacity, and what its drivers can do.
//
// Owner: the agent. The package imports agent/driver and sdk/cluster, keeps nothing, and changes nothing.
package machine
