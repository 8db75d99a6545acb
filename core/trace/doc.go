// Package trace tells of what becomes of commands, as spans of OpenTelemetry, and exports them by OTLP over HTTP (opentelemetry.io/docs/specs/otlp).
// docs/TRACING.md says what is to be seen, and docs/decisions/traces.md why it is made so.
//
// A span is made once all of it is known, from values: when a call is answered, when a turn is durable, when a plugin has answered. It goes into a queue that never
// blocks; one goroutine sends what is in it. While nothing is configured nothing of this package runs.
//
// Owner: the daemon makes a Tracer, runs it, and has the other parts tell it. It is a shell and imports no other.
package trace
