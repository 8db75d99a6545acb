package api

import "github.com/setpointd/setpoint/core/pki"

// HasRole reports whether the table says who may call a procedure.
func HasRole(procedure string) bool {
	_, ok := access[procedure]
	return ok
}

// EventsOf returns the events of a turn.
var EventsOf = eventsOf

// KeptTurns is how many turns are kept.
const KeptTurns = keptEvents

// Kept returns how many turns are kept now.
func (e *Events) Kept() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.turns)
}

// RoleOf returns who may call a procedure.
func RoleOf(procedure string) pki.Role { return access[procedure] }

// TakesKey reports whether a procedure takes a key.
func TakesKey(procedure string) bool { return keyed[procedure] }
