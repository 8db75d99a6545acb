// Package storetest is the suite that every store.Backend passes. A backend's test calls Run with a way to make fresh storage and to open
// it again. Imports the standard library, core/store and rapid.
package storetest
