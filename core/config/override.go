package config

import "path/filepath"

// Override replaces where the server keeps its data and where it listens by what a command line says; what is empty stays. Settings that follow from these,
// and were not said themselves, follow.
func (c *Config) Override(dataDir, listen string) {
	if dataDir != "" {
		if c.Store.File == filepath.Join(c.DataDir, stateFile) {
			c.Store.File = ""
		}
		c.DataDir = dataDir
	}
	if listen != "" {
		if c.Advertise == reachable(c.Listen.API) {
			c.Advertise = ""
		}
		c.Listen.API = listen
	}
	c.complete()
}
