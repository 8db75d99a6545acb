package main

import (
	"testing"

	"github.com/setpointd/setpoint/core/engine"
)

// The operator's word about the collector wins.
func TestCollectorIsTheOperators(t *testing.T) {
	for name, want := range map[string]bool{"": true, "PATH": true, "GOGC": false, "GOMEMLIMIT": false} {
		a := &app{env: func(v string) string {
			if v == name {
				return "100"
			}
			return ""
		}}
		if percent, ours := a.gcPercent(); ours != want || percent != engine.GCPercent {
			t.Errorf("with %q set: %d percent, ours %t", name, percent, ours)
		}
	}
}
