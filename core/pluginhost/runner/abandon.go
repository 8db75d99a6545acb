package runner

// Abandon lets go of the plugin's lifeline, as the end of the host would, and of nothing else: a plugin that watches it ends by itself. It is for checking that
// it does.
func (p *Process) Abandon() {
	p.child.expectExit()
	p.child.mu.Lock()
	defer p.child.mu.Unlock()
	closeAll(p.child.lifeline)
}
