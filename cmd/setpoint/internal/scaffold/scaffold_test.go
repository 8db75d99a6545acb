package scaffold_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/scaffold"
)

var kinds = []string{scaffold.Filter, scaffold.Drainer, scaffold.JobType}

func read(t *testing.T, parts ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestWhatIsWritten(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "new")
			files, err := scaffold.Write(dir, scaffold.Spec{Name: "gold-only", Kind: kind, Module: "example.com/x/gold", SDKVersion: "v1.2.3"})
			if err != nil {
				t.Fatal(err)
			}
			want := []string{".gitignore", "Makefile", "README.md", "config.hcl", "go.mod", "job.hcl", "main.go", "plugin.go", "plugin_test.go"}
			if !slices.Equal(files, want) {
				t.Errorf("wrote %v, want %v", files, want)
			}
			for _, name := range files {
				text := read(t, dir, name)
				if strings.Contains(text, "{{.") || strings.Contains(text, "<no value>") || strings.TrimSpace(text) == "" {
					t.Errorf("%s is not filled in:\n%s", name, text)
				}
				if strings.HasSuffix(name, ".go") {
					if _, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution); err != nil {
						t.Error(err)
					}
				}
			}
			if got, want := read(t, dir, "go.mod"), "module example.com/x/gold\n\ngo 1.26.0\n\nrequire github.com/setpointd/setpoint v1.2.3\n"; got != want {
				t.Errorf("go.mod is\n%swant\n%s", got, want)
			}
			if make := read(t, dir, "Makefile"); !strings.Contains(make, "\tsetpoint plugin check --job-settings '{\"") {
				t.Errorf("make check checks nothing:\n%s", make)
			}
			if conf := read(t, dir, "config.hcl"); !strings.HasPrefix(conf, `plugin "gold-only" {`) {
				t.Errorf("config.hcl does not begin with the plugin's block:\n%s", conf)
			}
		})
	}
}

func TestPython(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) { inPython(t, kind) })
	}
	_, err := scaffold.Write(t.TempDir(), scaffold.Spec{Name: "x", Kind: "oracle", Lang: scaffold.Python})
	if !errors.Is(err, scaffold.ErrNoTemplate) {
		t.Errorf("an oracle in Python: got %v, want ErrNoTemplate", err)
	}
}

func inPython(t *testing.T, kind string) {
	dir := t.TempDir()
	spec := scaffold.Spec{Name: "gold-only", Kind: kind, Lang: scaffold.Python}
	files, err := scaffold.Write(dir, spec)
	want := []string{
		".gitignore", "Makefile", "README.md", "config.hcl", "job.hcl", "plugin.py", "plugin_pb2.py", "setpoint_plugin.py", "test_plugin.py",
	}
	if err != nil || !slices.Equal(files, want) {
		t.Errorf("wrote %v, %v; want %v", files, err, want)
	}
	if got, want := read(t, dir, "setpoint_plugin.py"), read(t, "../../../../examples/plugins/python/setpoint_plugin.py"); got != want {
		t.Error("the library is not that of the examples")
	}
	if info, err := os.Stat(filepath.Join(dir, spec.Program())); err != nil || info.Mode()&0o111 != 0o111 {
		t.Errorf("the program cannot be started: %v %v", info, err)
	}
	if !strings.Contains(read(t, dir, "plugin.py"), `name="gold-only"`) {
		t.Error("the plugin has another name")
	}
	if text := read(t, dir, "plugin.py") + read(t, dir, "README.md") + read(t, dir, "test_plugin.py"); strings.Contains(text, "{{.") {
		t.Errorf("something is not filled in:\n%s", text)
	}
	if make := read(t, dir, "Makefile"); !strings.Contains(make, "\tsetpoint plugin check --job-settings '{\"") {
		t.Errorf("make check checks nothing:\n%s", make)
	}
}

func TestUnpublishedSDKIsReplaced(t *testing.T) {
	dir := t.TempDir()
	if _, err := scaffold.Write(dir, scaffold.Spec{Name: "x", Kind: scaffold.Filter, SDKDir: "/src/setpoint"}); err != nil {
		t.Fatal(err)
	}
	if mod := read(t, dir, "go.mod"); !strings.HasSuffix(mod, "\nreplace github.com/setpointd/setpoint => /src/setpoint\n") {
		t.Errorf("go.mod does not end with the replacement:\n%s", mod)
	}
}

// TestModulesNeedTheSameGo compares what is written with what the SDK's module needs.
func TestModulesNeedTheSameGo(t *testing.T) {
	dir := t.TempDir()
	if _, err := scaffold.Write(dir, scaffold.Spec{Name: "x", Kind: scaffold.Filter}); err != nil {
		t.Fatal(err)
	}
	goLine := func(mod string) string {
		for line := range strings.Lines(mod) {
			if strings.HasPrefix(line, "go ") {
				return strings.TrimSpace(line)
			}
		}
		return ""
	}
	if got, want := goLine(read(t, dir, "go.mod")), goLine(read(t, "../../../../go.mod")); got != want {
		t.Errorf("it says %q, the SDK's module %q", got, want)
	}
}

// TestAFilterIsShort counts the lines of code, without imports, comments and empty lines.
func TestAFilterIsShort(t *testing.T) {
	dir := t.TempDir()
	if _, err := scaffold.Write(dir, scaffold.Spec{Name: "x", Kind: scaffold.Filter}); err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, name := range []string{"main.go", "plugin.go"} {
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, read(t, dir, name), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		used := map[int]bool{}
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
				continue
			}
			ast.Inspect(d, func(n ast.Node) bool {
				switch n.(type) {
				case nil, *ast.CommentGroup:
					return false
				}
				used[files.Position(n.Pos()).Line], used[files.Position(n.End()-1).Line] = true, true
				return true
			})
		}
		lines += len(used)
	}
	if lines >= 40 || lines < 20 {
		t.Errorf("a filter has %d lines of its author's, want fewer than 40", lines)
	}
}

func TestNothingIsWrittenOver(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "notes"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := scaffold.Write(dir, scaffold.Spec{Name: "x", Kind: scaffold.Filter})
	if !errors.Is(err, scaffold.ErrNotEmpty) {
		t.Errorf("got %v, want ErrNotEmpty", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("the folder has %v", left)
	}
}

func TestBadNames(t *testing.T) {
	for _, name := range []string{"", "GPU", "g pu", "-gpu", "gpu-", "../gpu", "1gpu", "g_pu", "global", "drain", "replicated", strings.Repeat("x", 64)} {
		dir := filepath.Join(t.TempDir(), "new")
		if _, err := scaffold.Write(dir, scaffold.Spec{Name: name, Kind: scaffold.JobType}); err == nil {
			t.Errorf("%q is taken", name)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%q is refused and something was written", name)
		}
	}
}
