package engine

// Forget drops the marks that say what is to be looked at again, and the moments at which jobs are, as a fault of the program would. It is for tests of the net,
// which has to find them.
func (e *Engine) Forget() {
	clear(e.dirtyJobs)
	clear(e.dirtyNodes)
	clear(e.changedNodes)
	e.wakes = newAlarms()
	for _, g := range e.groups {
		g.dirty = false
		clear(g.changed)
	}
}
