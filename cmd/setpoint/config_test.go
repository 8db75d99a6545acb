package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSourceLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "setpoint.hcl")
	if err := os.WriteFile(file, []byte("a = 1\nb = two\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for where, want := range map[string]string{
		file + ":2,5-8":     "   2: b = two",
		file + ":9,1-2":     "",
		file + ":x":         "",
		"nowhere.hcl:1,1-2": "",
		"":                  "",
	} {
		if got := sourceLine(where); got != want {
			t.Errorf("sourceLine(%q) = %q, want %q", where, got, want)
		}
	}
}
