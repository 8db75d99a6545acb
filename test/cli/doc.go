// Package cli tests the binary as people use it: each script under testdata/script starts a cluster of its own with `setpoint dev`, with real agents, plugins
// and tasks, and says what somebody new does and sees.
//
// Scripts wait with the commands' own --wait, or with `eventually`, and never for a fixed time. commands_test.go has the commands that scripts have besides
// those of testscript.
package cli
