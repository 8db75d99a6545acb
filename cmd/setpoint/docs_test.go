package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

const root = "../.."

// TestEveryStallIsExplained holds that docs/STALLS.md has a row for each code of the vocabulary, with a cause and what to do.
func TestEveryStallIsExplained(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/STALLS.md"))
	if err != nil {
		t.Fatal(err)
	}
	explained := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "|") || len(cells) < 3 {
			continue
		}
		for _, cell := range cells[1:] {
			if strings.TrimSpace(cell) == "" {
				t.Errorf("an empty cell in %s", strings.TrimSpace(line))
			}
		}
		for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cells[0], -1) {
			explained[m[1]] = true
		}
	}
	codes := stallCodes(t)
	if len(codes) < 20 {
		t.Fatalf("found %d codes only: %v", len(codes), codes)
	}
	for _, code := range codes {
		if !explained[code] {
			t.Errorf("docs/STALLS.md does not explain %s", code)
		}
		delete(explained, code)
	}
	for code := range explained {
		t.Errorf("docs/STALLS.md explains %s, which is no code", code)
	}
}

// stallCodes reads the constants of type Code from the vocabulary's source.
func stallCodes(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "sdk/cluster/*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no source: %v", err)
	}
	var codes []string
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 || fmt.Sprint(spec.Type) != "Code" {
				return true
			}
			if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
				if code, err := strconv.Unquote(lit.Value); err == nil {
					codes = append(codes, code)
				}
			}
			return true
		})
	}
	return codes
}

// TestDocumentedCommandsExist holds that what the documentation has people type are commands with these flags.
func TestDocumentedCommandsExist(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	pages = append(pages, filepath.Join(root, "README.md"), filepath.Join(root, "config.hcl.example"), filepath.Join(root, "tools/demo.sh"))
	examples, err := filepath.Glob(filepath.Join(root, "examples/jobs/*"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	typed := regexp.MustCompile("(?:`|\\$ |#   |^|  )setpoint ([a-z][^`\n|;&#]*)")
	for _, page := range append(pages, examples...) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			for _, m := range typed.FindAllStringSubmatch(line, -1) {
				if problem := checkTyped(strings.Fields(m[1])); problem != "" {
					t.Errorf("%s: setpoint %s: %s", page, strings.TrimSpace(m[1]), problem)
				}
				found++
			}
		}
	}
	if found < 30 {
		t.Errorf("found %d commands only", found)
	}
}

// notYet are commands that the design names and that are still to come.
var notYet = map[string]bool{"state": true}

// checkTyped says what is wrong with the words behind setpoint, or "".
func checkTyped(words []string) string {
	if notYet[words[0]] {
		return ""
	}
	cmd, rest, err := (&app{}).root().Find(words)
	if err != nil {
		return err.Error()
	}
	if cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return "no command " + rest[0]
	}
	for _, word := range rest {
		name, _, _ := strings.Cut(strings.TrimRight(word, ".,:)`"), "=")
		switch {
		case word == "--": // what follows is another program's
			return ""
		case strings.HasPrefix(name, "--"):
			if flag(cmd, name[2:]) == nil {
				return "no flag " + name
			}
		case len(name) == 2 && name[0] == '-':
			if cmd.Flags().ShorthandLookup(name[1:]) == nil && cmd.InheritedFlags().ShorthandLookup(name[1:]) == nil {
				return "no flag " + name
			}
		}
	}
	return ""
}

func flag(cmd *cobra.Command, name string) any {
	if f := cmd.Flags().Lookup(name); f != nil {
		return f
	}
	if f := cmd.InheritedFlags().Lookup(name); f != nil {
		return f
	}
	return nil
}

// TestEveryCommandIsDescribed holds that each command says what it does, in one line without a full stop.
func TestEveryCommandIsDescribed(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if short := cmd.Short; short == "" || strings.HasSuffix(short, ".") || strings.Contains(short, "\n") {
			t.Errorf("%s: %q", cmd.CommandPath(), short)
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk((&app{}).root())
}

// TestEveryCommandHasAnExample holds that each command which does something shows how, with commands and flags that there are.
func TestEveryCommandHasAnExample(t *testing.T) {
	typed := regexp.MustCompile(`(?:^|[ (])setpoint ([a-z][^|;&#)>$]*)`)
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.HasSubCommands() {
			for _, sub := range cmd.Commands() {
				walk(sub)
			}
			return
		}
		if !cmd.Hidden && !strings.Contains(cmd.Example, cmd.CommandPath()) {
			t.Errorf("%s has no example of itself", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Example) {
			for _, m := range typed.FindAllStringSubmatch(line, -1) {
				if problem := checkTyped(strings.Fields(m[1])); problem != "" {
					t.Errorf("%s: setpoint %s: %s", cmd.CommandPath(), strings.TrimSpace(m[1]), problem)
				}
			}
		}
	}
	walk((&app{}).root())
}
