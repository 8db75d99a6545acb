// Package api is what people and programs talk to: the service setpoint.api.v1.ApiService over HTTP (gRPC, and JSON by Connect), the events,
// health and readiness.
//
// Its handlers decode a request, ask the engine or look at its newest state, and encode the answer. Who may call what is in one table, held
// by one interceptor, which also turns errors into answers; only here are panics of a call recovered.
//
// Owner: of the recent events, and of nothing that is stored. It imports the engine's types, core/pki for identities, the vocabulary and the
// messages; it is a shell, and imports no other: what it needs of plugins, agents and tokens are interfaces.
package api
