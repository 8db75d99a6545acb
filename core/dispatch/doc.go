// Package dispatch is the server's end of what it says to agents: it lets machines join, keeps one session with each node's agent, sends
// assignments down and passes reports and heartbeats on to the engine.
//
// What a node is told is computed from the newest committed state at the moment it is sent, never from a queue of messages: a session keeps
// only the names of tasks that changed, so that a slow agent costs memory for its own tasks and no more, and a start is not sent once a
// pause or drain was acknowledged.
//
// Owner: of the sessions with agents, and of nothing that is stored. It imports the engine's types, core/pki for identities, the vocabulary
// and the messages; it is a shell, and imports no other.
package dispatch
