// Package view is what commands print with `-o json`: the API's messages in a stable form that programs rely on. Fields are added, never changed.
//
// Moments are RFC 3339 in UTC, or null where there is none. Amounts of CPU are in cores, of memory in bytes. A node stands as its name, with its id beside it.
// Lists are never null.
//
// It imports the API's messages only.
package view
