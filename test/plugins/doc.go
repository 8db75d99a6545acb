// Package plugins shows that plugins as others write them work in a real cluster: those of examples/plugins, and those that `setpoint plugin new` begins. They
// are modules of their own, so .ci/plugins builds them, and names their directory in SETPOINT_PLUGINS; without it there is nothing to test.
//
// Owner: nobody imports it. What the tests need is in test/internal/bench.
package plugins
