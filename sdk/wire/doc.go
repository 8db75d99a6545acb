// Package wire converts between the records of sdk/cluster and the messages of sdk/proto/setpoint/v1, both ways, and encodes records for a store.
//
// Every field of a record has a field in its message; a test fills each with a value of its own and fails if one does not come back. What is empty comes
// back as nil: an empty map, an empty list and an absent message mean the same. A message that is nil converts to the zero value of its record.
//
// A message shares maps and lists with the value that it was made from, and the other way round, so neither may be changed afterwards; records that have
// been published never are.
//
// Words (a node's state, an order, …) are taken as they are, so that what a newer version wrote can still be read and shown; numbers that stand for a state
// or a port are checked, because there is nothing to show for one that does not exist.
//
// Records of which there are many are written and read without a message in between, which gives the same bytes; see direct.go.
//
// It imports sdk/cluster and the generated messages, nothing else of Setpoint. Plugin authors do not need it.
package wire
