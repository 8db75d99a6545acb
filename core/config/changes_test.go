package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChanges(t *testing.T) {
	load := func(text string) *Config {
		t.Helper()
		file := filepath.Join(t.TempDir(), "setpoint.hcl")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, diags := Load(file)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		return c
	}
	before := load(`name = "a"`)
	for text, want := range map[string][]string{
		`name = "a"`: nil,
		"name = \"a\"\nlog {\n  level = \"debug\"\n}":             nil,
		"name = \"a\"\nplugin \"drain\" {\n  timeout = \"9s\"\n}": nil,
		"name = \"b\"\nheartbeat {\n  interval = \"2s\"\n}":       {"name", "heartbeat"},
		"name = \"a\"\nlisten {\n  api = \"127.0.0.1:1\"\n}":      {"advertise", "listen"},
		"name = \"a\"\ndata_dir = \"/tmp/x\"":                     {"data_dir", "store"},
	} {
		if diff := cmp.Diff(want, Changes(before, load(text))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}
