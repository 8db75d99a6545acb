// Package drivertest holds the conformance suite that every driver must pass: what the driver.Driver interface promises, and nothing of how.
//
// Owner: the drivers' tests. The package imports agent/driver and testing only.
package drivertest
