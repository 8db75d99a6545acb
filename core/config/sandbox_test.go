package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSandbox(t *testing.T) {
	whole := Sandbox{Level: SandboxRequire, Read: []string{"/a"}, Network: true}
	for name, c := range map[string]struct {
		file, text string
		want       Sandbox
	}{
		"short": {"c.hcl", "plugin \"drain\" {\n  sandbox = \"off\"\n}", Sandbox{Level: SandboxOff}},
		"block": {"c.hcl", "plugin \"drain\" {\n  sandbox {\n    level = \"require\"\n    read = [\"/a\"]\n    network = true\n  }\n}", whole},
		"JSON":  {"c.json", `{"plugin":{"drain":{"sandbox":{"level":"require","read":["/a"],"network":true}}}}`, whole},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, mustLoad(t, writeFile(t, c.file, c.text)).Plugin("drain").Sandbox); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestSandboxMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"sandbox = \"requir\"":                        `There is no "requir" here`,
		"sandbox = [1]":                               `or a block`,
		"sandbox {\n level = \"no\"\n}":               `There is no "no" here`,
		"sandbox {\n write = [\"var\"]\n}":            `"var" must be the whole path`,
		"max_memory = \"1KiB\"":                       "it must be at least 16777216",
		"user = \"" + strings.Repeat("x", 300) + "\"": "name or number of a user",
		"sandbox = { networking = true }":             `A sandbox has no "networking"`,
		"sandbox = { network = \"yes\" }":             "The network of a sandbox is of another type",
	} {
		_, diags := Load(writeFile(t, "c.hcl", "plugin \"drain\" {\n"+text+"\n}"))
		if !diags.HasErrors() || !strings.Contains(diags.Error(), want) {
			t.Errorf("%s: %v, want %q", text, diags, want)
		}
	}
}
