package jobfile

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hashicorp/hcl/v2"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/setpointd/setpoint/core/hcltext"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// everyBlock has each block once, with nothing in it.
const everyBlock = `
task {
  resources {}
  port "a" {}
  address "a" {}
  secret "a" {}
  stop {}
  health {}
}
spread {}
update {}
restart {}
plugin "a" {}
`

var labelsAndIndexes = regexp.MustCompile(`\[[^\]]*\]`)

// TestReferenceIsWhole holds the reference against what the reader takes: what could have stood in blocks that say nothing.
func TestReferenceIsWhole(t *testing.T) {
	parsed, diags := hcltext.Parse("job.hcl", []byte(everyBlock))
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	d := &draft{}
	d.Body(parsed.Body, "", hcl.Range{Filename: "job.hcl"}, d.jobFields())
	var takes []string
	for _, path := range d.Unsaid {
		takes = append(takes, labelsAndIndexes.ReplaceAllString(path, ""))
	}
	for path := range d.Ranges {
		steps := strings.ReplaceAll(path, "\x00", ".")
		if i := slices.IndexFunc(Blocks(), func(b BlockKind) bool { return b.Path == steps }); i < 0 && steps != "" && !strings.Contains(steps, ".a") && !strings.Contains(steps, "[0") {
			t.Errorf("the block %s is not told of", steps)
		}
	}
	var told []string
	for _, f := range Fields() {
		told = append(told, prefixOf(f.Block)+f.Name)
		if f.Says == "" || strings.HasSuffix(f.Says, ".") || strings.Contains(f.Says, "|") {
			t.Errorf("%s.%s says %q", f.Block, f.Name, f.Says)
		}
	}
	slices.Sort(takes)
	slices.Sort(told)
	if diff := cmp.Diff(slices.Compact(takes), told); diff != "" {
		t.Errorf("what the reader takes (-) is not what the reference says (+):\n%s", diff)
	}
}

// TestReferenceDefaults says each default expressly: it must make no difference.
func TestReferenceDefaults(t *testing.T) {
	file := func(f Field, value string) string {
		line := ""
		if value != "" {
			line = f.Name + " = " + value + "\n"
		}
		body := map[string]string{f.Block: line}
		health := `health {` + "\n" + `tcp = "a:1"` + "\n" + body["task.health"] + "}\n"
		return fmt.Sprintf("job \"a\" {\n%stask {\ncommand = [\"x\"]\n%sresources {\n%s}\nstop {\n%s}\n%s}\nupdate {\n%s}\nrestart {\n%s}\n}\n",
			body[""], body["task"], body["task.resources"], body["task.stop"], health, body["update"], body["restart"])
	}
	for _, f := range Fields() {
		if f.Default == "" {
			continue
		}
		without, with := mustParse(t, "job.hcl", []byte(file(f, ""))), mustParse(t, "job.hcl", []byte(file(f, f.Default)))
		if !strings.Contains(file(f, f.Default), f.Default) {
			t.Errorf("%s.%s was not said", f.Block, f.Name)
		}
		if diff := cmp.Diff(without[0].Spec, with[0].Spec, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s.%s = %s makes a difference:\n%s", f.Block, f.Name, f.Default, diff)
		}
	}
	for _, f := range Fields() { // and words are those that are taken
		for _, w := range f.Words {
			src := file(f, fmt.Sprintf("%q", w))
			if f.Name == "driver" && w == cluster.DriverDocker {
				src = strings.Replace(src, "resources {", "config = { image = \"a\" }\nresources {", 1)
			}
			mustParse(t, "job.hcl", []byte(src))
		}
	}
}

func TestSchema(t *testing.T) {
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	content, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("job.json", content); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("job.json")
	if err != nil {
		t.Fatal(err)
	}
	full, err := os.ReadFile("testdata/full.json")
	if err != nil {
		t.Fatal(err)
	}
	check := func(src string) error {
		t.Helper()
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(src))
		if err != nil {
			t.Fatal(err)
		}
		return schema.Validate(v)
	}
	for name, src := range map[string]string{
		"full.json":  string(full),
		"variables":  `{"variable": {"n": {"type": "number", "default": 1, "validation": {"condition": "${var.n > 0}", "error_message": "no"}}}, "locals": {"x": 1}, "job": {"a": {"count": "${var.n}", "task": {"command": ["x"]}}}}`,
		"a comment":  `{"//": "hello", "job": {"a": {"//": 1, "task": {"command": ["x"]}}}}`,
		"lists":      `{"job": [{"a": [{"task": [{"command": ["x"], "port": [{"http": {"static": 1}}, {"b": {}}]}]}]}]}`,
		"an amount":  `{"job": {"a": {"max_unavailable": 3, "task": {}}}}`,
		"a null":     `{"job": {"a": {"count": null, "task": {}}}}`,
		"two spread": `{"job": {"a": {"spread": [{"attribute": "node.id"}, {"attribute": "node.os", "targets": {"linux": 50}}], "task": {}}}}`,
	} {
		if err := check(src); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, src := range map[string]string{
		"no job":           `{}`,
		"an unknown field": `{"job": {"a": {"cuont": 1, "task": {}}}}`,
		"an unknown block": `{"job": {"a": {"tusk": {}, "task": {}}}}`,
		"no task":          `{"job": {"a": {}}}`,
		"a wrong word":     `{"job": {"a": {"on_lost": "wat", "task": {}}}}`,
		"a wrong number":   `{"job": {"a": {"count": 1.5, "task": {}}}}`,
		"a wrong duration": `{"job": {"a": {"lost_after": "soon", "task": {}}}}`,
		"a wrong size":     `{"job": {"a": {"task": {"resources": {"memory": "lots"}}}}}`,
		"a wrong list":     `{"job": {"a": {"constraints": "x == y", "task": {}}}}`,
	} {
		if err := check(src); err == nil {
			t.Errorf("%s: nothing is wrong with %s", name, src)
		}
	}
}

const docs = "../../docs/JOBS.md"

// TestJobsDocument holds the tables of docs/JOBS.md against the reference.
func TestJobsDocument(t *testing.T) {
	text, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	for name, table := range tables() {
		begin, end := "<!-- begin "+name+" -->\n", "<!-- end "+name+" -->"
		before, rest, found := strings.Cut(got, begin)
		_, after, closed := strings.Cut(rest, end)
		if !found || !closed {
			t.Errorf("docs/JOBS.md has no place for the table %q", name)
			continue
		}
		got = before + begin + table + end + after
	}
	if *update {
		if err := os.WriteFile(docs, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(got, string(text)); diff != "" {
		t.Errorf("docs/JOBS.md is not current; go test ./core/jobfile -run TestJobsDocument -update writes it:\n%s", diff)
	}
}

// tables are the generated parts of docs/JOBS.md by name: one of each block, and the functions.
func tables() map[string]string {
	out := map[string]string{"job": table("")}
	for _, b := range Blocks() {
		if !b.Free {
			out[b.Path] = table(b.Path)
		}
	}
	var calls strings.Builder
	calls.WriteString("| function | |\n|---|---|\n")
	all := append(Functions(), Function{Name: "file", Says: FileFunction})
	slices.SortFunc(all, func(a, b Function) int { return strings.Compare(a.Name, b.Name) })
	for _, f := range all {
		fmt.Fprintf(&calls, "| `%s` | %s |\n", f.Name, f.Says)
	}
	out["functions"] = calls.String()
	return out
}

func table(block string) string {
	var out strings.Builder
	out.WriteString("| | value | default | |\n|---|---|---|---|\n")
	for _, f := range Fields() {
		if f.Block != block {
			continue
		}
		kind, preset := string(f.Kind), ""
		if f.Words != nil {
			kind = "`" + strings.Join(f.Words, "`, `") + "`"
		}
		if f.Default != "" {
			preset = "`" + f.Default + "`"
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", f.Name, kind, preset, f.Says)
	}
	return out.String()
}
