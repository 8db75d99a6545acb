package bench

import (
	"syscall"
	"time"
)

// StopServer ends the server as an operator does, with SIGTERM, and returns how long that took. It does not end within the limit: the test ends.
func (c *Cluster) StopServer(limit time.Duration) time.Duration {
	c.t.Helper()
	c.serverAway.Store(true)
	began := time.Now()
	if err := c.server.signal(syscall.SIGTERM); err != nil {
		c.t.Fatal(err)
	}
	if !c.server.ended(limit) {
		c.t.Fatalf("the server has not ended %s after SIGTERM", limit)
	}
	return time.Since(began)
}

// HangUp has the server read its configuration again.
func (c *Cluster) HangUp() {
	c.t.Helper()
	if err := c.server.signal(syscall.SIGHUP); err != nil {
		c.t.Fatal(err)
	}
}

// Configure replaces what Options.Config said in the server's configuration.
func (c *Cluster) Configure(config string) {
	c.t.Helper()
	c.write(c.path("server.hcl"), c.configText(config))
}
