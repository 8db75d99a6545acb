// Package health finds out whether a running task does its work: by a request over HTTP, a connection over TCP, or a program that exits with
// 0.
//
// A task becomes healthy when its check first passes. Until then it is probed every second, or more often if its interval is shorter, so that
// it is known soon; a failure counts once per interval all the same, and not at all in the start period. After so many failures in a row as
// the job's retries say, the check has failed for good. A task that passed stays healthy until then: one lost answer moves nothing.
//
// Owner: the agent. The package imports sdk/cluster only, and keeps nothing between calls.
package health
