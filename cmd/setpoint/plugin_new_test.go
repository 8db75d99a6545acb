package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPluginNew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gpu")
	execute(t, "", "plugin", "new", "gpu", "--filter", "--dir", dir).expect(t, exitDone, []string{
		dir + " has a filter: .gitignore Makefile README.md config.hcl go.mod", "cd " + dir, "setpoint plugin check ./gpu", "setpoint dev --config config.hcl", "setpoint job run job.hcl",
	}, nil)
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	source, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(mod), "replace github.com/setpointd/setpoint => "+source+"\n") {
		t.Errorf("a binary built from %s uses another SDK:\n%s", source, mod)
	}
	execute(t, "", "plugin", "new", "gpu", "--filter", "--dir", dir).expect(t, exitRefused, nil, []string{"is not empty", "nothing is written over"})
}

func TestPluginNewRefuses(t *testing.T) {
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"GPU", "--filter"}, []string{`bad name: "GPU" has a 'G'`, "such as gpu"}},
		{[]string{"gpu"}, []string{"what should the plugin do?", "Say --filter, --drainer or --job-type."}},
		{[]string{"gpu", "--filter", "--drainer"}, []string{"--drainer and --filter", "Say one of them."}},
		{[]string{"gpu", "--filter", "--lang", "rust"}, []string{"no templates for --lang rust", "docs/PLUGINS.md"}},
		{[]string{"gpu", "--filter", "--sdk", "/nowhere"}, []string{"--sdk /nowhere is not Setpoint's source"}},
		{[]string{"--filter"}, []string{"an argument is missing"}},
	} {
		dir := filepath.Join(t.TempDir(), "new")
		execute(t, "", append([]string{"plugin", "new", "--dir", dir}, test.args...)...).expect(t, exitRefused, nil, test.want)
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%q is refused and something was written", test.args)
		}
	}
}
