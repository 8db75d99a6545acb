package tidy

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// root is the module's directory, seen from this one.
const root = "../../.."

// source is one Go file of this module.
type source struct {
	path      string // from the module's root
	dir       string // the package's path in the module, "" for the root
	test      bool
	generated bool
	set       *token.FileSet
	file      *ast.File
}

// at returns a position for a message.
func (s *source) at(pos token.Pos) string {
	return fmt.Sprintf("%s:%d", s.path, s.line(pos))
}

func (s *source) line(pos token.Pos) int { return s.set.Position(pos).Line }

// imports returns the paths that the file imports.
func (s *source) imports() []string {
	var paths []string
	for _, spec := range s.file.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			paths = append(paths, p)
		}
	}
	return paths
}

// sources parses all Go files of the module, tests included. Directories with a module of their own are left out.
func sources(t *testing.T) []*source {
	t.Helper()
	var all []*source
	set := token.NewFileSet()
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return enter(name, entry)
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		dir := path.Dir(rel)
		if dir == "." {
			dir = ""
		}
		all = append(all, &source{
			path: rel, dir: dir, test: strings.HasSuffix(rel, "_test.go"), generated: ast.IsGenerated(file), set: set, file: file,
		})
		return nil
	})
	if err != nil {
		t.Fatalf("read the module's source: %v", err)
	}
	if len(all) == 0 {
		t.Fatal("no source found")
	}
	return all
}

// enter returns fs.SkipDir for a directory that is not this module's source.
func enter(name string, entry fs.DirEntry) error {
	if name == root {
		return nil
	}
	if base := entry.Name(); strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata" || base == "bin" {
		return fs.SkipDir
	}
	_, err := os.Stat(filepath.Join(name, "go.mod"))
	switch {
	case err == nil:
		return fs.SkipDir
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

// within reports whether a package is one of those that the patterns name.
func within(pkg string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		base, below := strings.CutSuffix(pattern, "...")
		if !below {
			return pkg == pattern
		}
		return base == "" || pkg == strings.TrimSuffix(base, "/") || strings.HasPrefix(pkg, base)
	})
}

func TestLayers(t *testing.T) {
	known := make(map[string]*layer)
	for _, s := range sources(t) {
		l, found := known[s.dir]
		if !found {
			i := slices.IndexFunc(layers, func(l layer) bool { return within(s.dir, l.packages) })
			if i < 0 {
				t.Errorf("package %s is in no layer: add it to layers_test.go", s.dir)
				known[s.dir] = nil
				continue
			}
			l = &layers[i]
			known[s.dir] = l
		}
		if l == nil || s.test && !within(s.dir, closed) {
			continue
		}
		for _, imported := range s.imports() {
			if own, ok := strings.CutPrefix(imported, module+"/"); ok {
				if !within(own, l.imports) && !within(own, []string{s.dir + "/..."}) {
					t.Errorf("%s: %s must not import %s", s.path, s.dir, own)
				}
			}
		}
	}
}

func TestHomes(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		for _, imported := range s.imports() {
			if imported == module || strings.HasPrefix(imported, module+"/") || !strings.Contains(strings.SplitN(imported, "/", 2)[0], ".") {
				continue
			}
			home, found := "", false
			for mod := range homes {
				if imported == mod || strings.HasPrefix(imported, mod+"/") {
					home, found = mod, true
				}
			}
			switch {
			case !found:
				t.Errorf("%s: %s has no home: if it earns its place, add it to layers_test.go", s.path, imported)
			case within(s.dir, pure):
				t.Errorf("%s: %s is pure and imports the standard library only, not %s", s.path, s.dir, imported)
			case !within(s.dir, homes[home]):
				t.Errorf("%s: %s is imported only by %s", s.path, home, strings.Join(homes[home], ", "))
			}
		}
	}
}

func TestSizes(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || s.generated {
			continue
		}
		if lines := s.line(s.file.FileEnd); lines > maxFileLines {
			t.Errorf("%s: %d lines, at most %d: split it by concept", s.path, lines, maxFileLines)
		}
		for _, decl := range s.file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok {
				if lines := s.line(fn.End()) - s.line(fn.Pos()) + 1; lines > maxFunctionLines {
					t.Errorf("%s: %s has %d lines, at most %d", s.at(fn.Pos()), fn.Name.Name, lines, maxFunctionLines)
				}
			}
		}
	}
}

// TestPatterns holds that no pattern is compiled to many instructions, as x{1,100} is to a hundred: each process that has the package keeps them from its start, whether
// it looks for the pattern or not.
func TestPatterns(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 1 {
				return true
			}
			fn, ok := call.Fun.(*ast.SelectorExpr)
			literal, isLiteral := call.Args[0].(*ast.BasicLit)
			if !ok || !isLiteral || fn.Sel.Name != "MustCompile" {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatalf("%s: %v", s.at(n.Pos()), err)
			}
			parsed, err := syntax.Parse(text, syntax.Perl)
			if err != nil {
				t.Fatalf("%s: %v", s.at(n.Pos()), err)
			}
			program, err := syntax.Compile(parsed.Simplify())
			if err != nil {
				t.Fatalf("%s: %v", s.at(n.Pos()), err)
			}
			if len(program.Inst) > maxPattern {
				t.Errorf("%s: the pattern has %d instructions, at most %d: look at the length beside it", s.at(n.Pos()), len(program.Inst), maxPattern)
			}
			return true
		})
	}
}

func TestHabits(t *testing.T) {
	commented := make(map[string]bool)
	for _, s := range sources(t) {
		if s.generated {
			continue
		}
		if !s.test {
			commented[s.dir] = commented[s.dir] || s.file.Doc != nil
		}
		for _, decl := range s.file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s: nothing happens by import: no init", s.at(fn.Pos()))
			}
		}
		if s.test || within(s.dir, environment) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "os" && slices.Contains([]string{"Getenv", "LookupEnv", "Environ", "ExpandEnv"}, sel.Sel.Name) {
				t.Errorf("%s: os.%s: take it as a value; only the configuration reads the environment", s.at(n.Pos()), sel.Sel.Name)
			}
			return true
		})
	}
	for dir, has := range commented {
		if !has {
			t.Errorf("package %s has no comment that says its purpose, its owner and what it may import", dir)
		}
	}
}
