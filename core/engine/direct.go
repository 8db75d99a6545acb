package engine

// Command returns an operation as an input, for those who call Step themselves.
func Command(by string, op Op) Input { return unwrapped(by, op) }

// Result returns what a command returned.
func (r Reply) Result() (any, error) { return r.value, r.err }
