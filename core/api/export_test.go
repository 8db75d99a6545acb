package api

// HasRole reports whether the table says who may call a procedure.
func HasRole(procedure string) bool {
	_, ok := access[procedure]
	return ok
}

// The following are given to tests.
var (
	EventsOf  = eventsOf
	KeptTurns = keptEvents
)
