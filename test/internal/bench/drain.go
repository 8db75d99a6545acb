package bench

import "time"

// Wait runs one command that waits for something, so long at most, and may end with any code.
func (c *Cluster) Wait(wait time.Duration, args ...string) Result {
	c.t.Helper()
	return c.cliWithin(wait+commandLimit, append(args, "--wait", wait.String())...)
}

// DrainCode drains a node, with flags besides its name, and waits for the end so long at most. The drain may go on after that.
func (c *Cluster) DrainCode(wait time.Duration, node string, flags ...string) Result {
	c.t.Helper()
	c.Drain(node, flags...)
	return c.Wait(wait, append([]string{"node", "drain", node}, flags...)...)
}

// Drained waits until a drain has come to its end, and returns it and how long that took.
func (c *Cluster) Drained(limit time.Duration, node string) (Drain, time.Duration) {
	c.t.Helper()
	var last Drain
	took := c.Until(limit, node+" is drained", func() (bool, any) {
		d := c.Node(node).Drain
		if d == nil {
			return false, "it is not being drained"
		}
		last = *d
		return d.State == "drained", last
	})
	return last, took
}

// DrainSet drains nodes with one command, and waits for the end of all.
func (c *Cluster) DrainSet(wait time.Duration, nodes ...string) Result {
	c.t.Helper()
	c.Must(append([]string{"node", "drain"}, nodes...)...)
	return c.Wait(wait, append([]string{"node", "drain"}, nodes...)...)
}
