package jobfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"

	"github.com/setpointd/setpoint/core/hcltext"
	"github.com/setpointd/setpoint/sdk/cluster"
)

const withVariables = `
variable "image" {
  description = "what runs"
  type        = string
  default     = "web:1"
}
variable "replicas" {
  type    = number
  default = 2
  validation {
    condition     = var.replicas > 0
    error_message = "There are ${var.replicas}; at least one is needed."
  }
}
variable "env" {
  type    = map(string)
  default = { MODE = "test" }
}
variable "any" { default = null }
locals {
  name = upper(local.short)
  short = trimprefix(var.image, "reg/")
}
job "web" {
  count       = var.replicas
  constraints = concat(["node.os == linux"], [format("node.labels.tier == %s", lower("WEB"))])
  priority    = var.any
  task {
    driver  = "docker"
    command = split(" ", "serve -v")
    env     = merge(var.env, { NAME = local.name, CONFIG = file("web.conf"), JSON = jsonencode({ a = [1, true] }) })
    config  = { image = var.image }
  }
  plugin "cel" {
    expr = "n < ${var.replicas}"
  }
}
`

func readFile(path string) ([]byte, error) {
	if path != "web.conf" {
		return nil, errors.New("there is no " + path)
	}
	return []byte("a=1\n"), nil
}

func TestVariables(t *testing.T) {
	type got struct {
		Count    int
		Image    string
		Env      map[string]string
		Settings string
	}
	defaults := got{2, "web:1", map[string]string{"MODE": "test", "NAME": "WEB:1", "CONFIG": "a=1\n", "JSON": `{"a":[1,true]}`}, `{"expr":"n < 2"}`}
	with := func(change func(*got)) got {
		g := defaults
		g.Env = map[string]string{"MODE": "test", "NAME": "WEB:1", "CONFIG": "a=1\n", "JSON": `{"a":[1,true]}`}
		change(&g)
		return g
	}
	files := []VariableFile{{Name: "a.hcl", Src: []byte("replicas = 3\nimage = \"reg/web:3\"")}, {Name: "b.json", Src: []byte(`{"env": {"A": "b"}, "image": "web:4"}`)}}
	for name, test := range map[string]struct {
		opts Options
		want got
	}{
		"defaults":        {Options{}, defaults},
		"the environment": {Options{Env: map[string]string{"SETPOINT_VAR_replicas": "5", "SETPOINT_VAR_other": "x"}}, with(func(g *got) { g.Count, g.Settings = 5, `{"expr":"n < 5"}` })},
		"files, of which the later counts, before the environment": {
			Options{Env: map[string]string{"SETPOINT_VAR_replicas": "5"}, VariableFiles: files},
			with(func(g *got) {
				g.Count, g.Settings, g.Image = 3, `{"expr":"n < 3"}`, "web:4"
				delete(g.Env, "MODE")
				g.Env["A"], g.Env["NAME"] = "b", "WEB:4"
			}),
		},
		"what is given, before files": {
			Options{VariableFiles: files[:1], Variables: []Given{{"replicas", "7", "--var"}, {"env", `{ X = "${1}" }`, "--var"}, {"image", "a ${b}", "--var"}}},
			with(func(g *got) {
				g.Count, g.Settings, g.Image = 7, `{"expr":"n < 7"}`, "a ${b}"
				delete(g.Env, "MODE")
				g.Env["X"], g.Env["NAME"] = "1", "A ${B}"
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.opts.ReadFile = readFile
			file, diags := Read("web.hcl", []byte(withVariables), test.opts)
			if diags.HasErrors() {
				t.Fatal(diags)
			}
			s := file.Jobs[0].Spec
			if diff := cmp.Diff(test.want, got{s.Count, s.Task.Config["image"], s.Task.Env, s.Settings("cel")}); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if want := `{"constraints":["node.os == linux","node.labels.tier == web"]}`; s.Settings("constraint") != want || len(s.Task.Command) != 2 {
				t.Errorf("constraints are %s, the command %q", s.Settings("constraint"), s.Task.Command)
			}
			if s.Priority != cluster.DefaultPriority {
				t.Errorf("null said that the priority is %d", s.Priority)
			}
		})
	}
}

func TestVariablesInJSON(t *testing.T) {
	const job = `"job": {"web": {"task": {"command": ["echo", "${upper(\"a\")}"]}}}`
	for src, want := range map[string]string{
		`{` + job + `}`: `${upper("a")}`, // as it always was
		`{"variable": {"x": {"default": 1}}, ` + job + `}`: "A",
		`{"locals": {"x": 1}, ` + job + `}`:                "A",
	} {
		jobs := mustParse(t, "job.json", []byte(src))
		if got := jobs[0].Spec.Task.Command[1]; got != want {
			t.Errorf("%s: %q, want %q", src, got, want)
		}
	}
	for src, want := range map[string]string{
		`{"locals": {"x": "%{ for a in [1, 2] }${a}%{ endfor }"}, ` + job + `}`: "No loops here",
		`{"locals": {"x": "${` + strings.Repeat("(", 100) + `"}, ` + job + `}`:  "Too deeply nested",
	} {
		if _, diags := Parse("job.json", []byte(src)); !diags.HasErrors() || diags[0].Summary != want {
			t.Errorf("%s: %v, want %s", src, diags, want)
		}
	}
}

// TestWrongValues gives wrong values; each must be pointed at.
func TestWrongValues(t *testing.T) {
	for name, test := range map[string]struct {
		opts Options
		want string
		line int // 0: no line
		file string
	}{
		"an unknown variable": {Options{Variables: []Given{{"replica", "3", "--var"}}}, `--var gives a value to "replica", which web.hcl does not declare. Did you mean "replicas"?`, 0, ""},
		"not of its type":     {Options{Variables: []Given{{"replicas", "many", "--var"}}}, `--var gives it "many", which is no expression of type number.`, 7, "web.hcl"},
		"not of its type in a file": {
			Options{VariableFiles: []VariableFile{{Name: "v.hcl", Src: []byte("\nreplicas = [1]")}}}, "is of type number; v.hcl, line 2, gives it something else", 2, "v.hcl",
		},
		"unknown in a file": {Options{VariableFiles: []VariableFile{{Name: "v.hcl", Src: []byte("imagee = 1")}}}, `Did you mean "image"?`, 1, "v.hcl"},
		"a broken file":     {Options{VariableFiles: []VariableFile{{Name: "v.hcl", Src: []byte("image =")}}}, "Expected the start of an expression", 1, "v.hcl"},
		"a validation":      {Options{Env: map[string]string{"SETPOINT_VAR_replicas": "0"}}, "There are 0; at least one is needed. (The condition in line 10 is not met by the value that SETPOINT_VAR_replicas gives.)", 7, "web.hcl"},
	} {
		t.Run(name, func(t *testing.T) {
			test.opts.ReadFile = readFile
			_, diags := Read("web.hcl", []byte(withVariables), test.opts)
			if len(diags) != 1 || !strings.Contains(diags[0].Summary+": "+diags[0].Detail, test.want) {
				t.Fatalf("got %v, want %q", diags, test.want)
			}
			at := hcl.Range{}
			if diags[0].Subject != nil {
				at = *diags[0].Subject
			}
			if at.Start.Line != test.line || at.Filename != test.file {
				t.Errorf("it is said to be at %v", at)
			}
		})
	}
}

// TestNothingGrows has expressions that would make more of a file than anybody wants to hold.
func TestNothingGrows(t *testing.T) {
	big := strings.Repeat("x", 100_000)
	for name, expr := range map[string]string{
		"join":       `join(local.big, split("", local.big))`,
		"replace":    `replace(local.big, "x", local.big)`,
		"format":     `format("` + strings.Repeat("%[1]s", 100) + `", local.big)`,
		"width":      `format("%999999999d", 1)`,
		"jsonencode": `jsonencode(jsonencode(jsonencode(jsonencode(jsonencode(jsonencode([replace(local.big, "x", "\"")]))))))`,
		"templates":  `"` + strings.Repeat("${local.big}", 100) + `"`,
		"lists":      `[` + strings.Repeat("local.big,", 100) + `]`,
	} {
		src := "locals {\n big = \"" + big + "\"\n out = " + expr + "\n}\njob \"a\" {\n task {\n command = [\"x\"]\n }\n}\n"
		_, diags := Parse("job.hcl", []byte(src))
		if len(diags) != 1 || !strings.Contains(diags[0].Detail, "bytes") || diags[0].Subject.Start.Line != 3 {
			t.Errorf("%s: %.300v", name, diags)
		}
	}
}

// TestFunctionsAreTold calls each function that is told of.
func TestFunctionsAreTold(t *testing.T) {
	have := functions(nil)
	for _, f := range Functions() {
		if f.Says == "" || strings.Contains(f.Says, "|") {
			t.Errorf("%s says %q", f.Name, f.Says)
		}
		if _, ok := have[f.Name]; !ok {
			t.Errorf("%s cannot be called", f.Name)
		}
	}
	if len(have) != len(Functions())+1 {
		t.Errorf("there are %d functions, and %d are told of", len(have), len(Functions()))
	}
}

// FuzzVariables reads job files, with values that somebody gives.
func FuzzVariables(f *testing.F) {
	f.Add(withVariables, "image", "a", "replicas = 3")
	f.Add(`{"variable": {"a": {"type": "list(number)"}}, "job": {"x": {"task": {"command": ["${var.a[0]}"]}}}}`, "a", "[1]", `{"a": [2]}`)
	f.Add("locals {\n a = local.b\n b = local.a\n}\n", "", "", "")
	paths, err := filepath.Glob("testdata/bad/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		src, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(src), "a", "1", "a = 1")
	}
	f.Fuzz(func(t *testing.T, src, name, value, values string) {
		opts := Options{
			Env: map[string]string{VariableEnv + name: value}, Variables: []Given{{name, value, "--var"}}, VariableFiles: []VariableFile{{Name: "v", Src: []byte(values)}},
			ReadFile: readFile,
		}
		file, diags := Read("job.hcl", []byte(src), opts)
		if err := file.Write(&strings.Builder{}, diags, hcltext.Look{}); err != nil {
			t.Fatal(err)
		}
		if diags.HasErrors() {
			return
		}
		for _, job := range file.Jobs {
			if problems := job.Spec.Validate(); len(problems) > 0 {
				t.Fatalf("a job with problems: %v", problems)
			}
			if _, err := Format(job.Spec); err != nil {
				t.Logf("not written: %v", err)
			}
		}
	})
}
