// Package constraint is the plugin behind a job's constraints: which nodes meet all of them, and, with affinities, how welcome each is.
//
// A constraint is a line such as
//
//	node.labels.disk == ssd
//	node.attributes.kernel >= 5.10
//	node.labels.zone in (eu-1a, eu-1b)
//	node.labels.gpu exists
//	node.ip == 10.2.0.0/16
//
// What can be asked about: node.id, node.name, node.hostname, node.os, node.arch, node.ip, node.labels.KEY and node.attributes.KEY. Text is compared
// case-sensitively. A node without the key meets !=, !~ and not in; every other operator but "not exists" wants the key to be there. <, <=, > and >= compare
// whole numbers, and versions as soon as one side has a dot: 5.9 is below 5.10, 1.0-rc1 is below 1.0, and a distribution's suffix as in 5.15.0-91-generic
// makes a version no older.
//
// It may import sdk and the standard library, as any plugin may.
package constraint
