package config

import "testing"

func TestOverride(t *testing.T) {
	c := Default()
	c.Override("/data", "127.0.0.1:1234")
	if c.DataDir != "/data" || c.Store.File != "/data/state.db" || c.Listen.API != "127.0.0.1:1234" || c.Advertise != "127.0.0.1:1234" {
		t.Errorf("got %s, %s, %s, %s", c.DataDir, c.Store.File, c.Listen.API, c.Advertise)
	}
	c.Store.File, c.Advertise = "/disk/state.db", "example.com:7480"
	c.Override("/other", "0.0.0.0:80")
	if c.DataDir != "/other" || c.Store.File != "/disk/state.db" || c.Listen.API != "0.0.0.0:80" || c.Advertise != "example.com:7480" {
		t.Errorf("what was said did not stay: %s, %s, %s, %s", c.DataDir, c.Store.File, c.Listen.API, c.Advertise)
	}
	before := *c
	c.Override("", "")
	if c.DataDir != before.DataDir || c.Listen != before.Listen || len(c.Plugins) != len(before.Plugins) {
		t.Error("nothing was said, and something changed")
	}
}
