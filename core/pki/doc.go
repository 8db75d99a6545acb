// Package pki is the cluster's own certificate authority: it makes the authority, issues certificates to servers, clients and nodes,
// reads from a verified certificate who is calling, and makes the tokens with which machines join.
//
// A certificate says who its holder is in one URI, setpoint://CLUSTER/ROLE/NAME, with the node's id as a last element for nodes. What a
// signing request says about its subject is never read: the server decides it.
//
// Owner: the daemon owns the authority's directory; an agent owns the file of its own certificate. The package keeps no state besides and
// takes the time as a value. It imports the standard library only.
package pki
