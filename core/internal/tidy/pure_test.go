package tidy

import (
	"fmt"
	"go/ast"
	"go/types"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// bannedImports have a clock, chance, I/O or threads in them. What is banned of package time is in bannedCalls.
var bannedImports = []string{
	"context", "crypto/rand", "log", "log/slog", "math/rand", "math/rand/v2", "net", "net/http", "os", "os/exec", "os/signal", "runtime", "sync",
	"sync/atomic", "syscall", "testing", "unsafe",
}

// bannedCalls of packages that are otherwise welcome, with what to do instead.
var bannedCalls = map[string]string{
	"time.Now":       "now is an argument",
	"time.Since":     "subtract from now, which is an argument",
	"time.Until":     "subtract now, which is an argument",
	"time.Sleep":     "say when to be asked again",
	"time.After":     "say when to be asked again",
	"time.AfterFunc": "say when to be asked again",
	"time.Tick":      "say when to be asked again",
	"time.NewTimer":  "say when to be asked again",
	"time.NewTicker": "say when to be asked again",
	"fmt.Print":      "nothing is printed",
	"fmt.Printf":     "nothing is printed",
	"fmt.Println":    "nothing is printed",
}

// unordered are the iterators of package maps, which are fine only where they are sorted at once.
var unordered = []string{"maps.Keys", "maps.Values", "maps.All"}

func TestPure(t *testing.T) {
	var patterns []string
	present := sources(t)
	for _, dir := range pure {
		if slices.ContainsFunc(present, func(s *source) bool { return s.dir == dir && !s.test }) {
			patterns = append(patterns, "./"+dir)
		}
	}
	if len(patterns) == 0 {
		t.Skip("no pure package yet")
	}
	for _, p := range load(t, patterns...) {
		for _, problem := range impurities(p) {
			t.Error(problem)
		}
	}
}

// TestImpuritiesAreSeen holds the check itself to a package with planted faults, each beside a comment "want TEXT".
func TestImpuritiesAreSeen(t *testing.T) {
	for _, p := range load(t, "./core/internal/tidy/testdata/impure") {
		problems := impurities(p)
		for _, group := range p.Syntax[0].Comments {
			text, isWant := strings.CutPrefix(group.Text(), "want ")
			if !isWant {
				continue
			}
			line := p.Fset.Position(group.Pos()).Line
			place := fmt.Sprintf("impure.go:%d:", line)
			i := slices.IndexFunc(problems, func(problem string) bool {
				return strings.Contains(problem, place) && strings.Contains(problem, strings.TrimSpace(text))
			})
			if i < 0 {
				t.Errorf("line %d: not seen: %s", line, text)
				continue
			}
			problems = slices.Delete(problems, i, i+1)
		}
		for _, problem := range problems {
			t.Errorf("seen where nothing is planted: %s", problem)
		}
	}
}

// load type-checks packages, which are given by their directories seen from the root.
func load(t *testing.T, patterns ...string) []*packages.Package {
	t.Helper()
	found, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo,
		Dir:  root,
	}, patterns...)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != len(patterns) {
		t.Fatalf("loaded %d packages of %d", len(found), len(patterns))
	}
	for _, p := range found {
		for _, err := range p.Errors {
			t.Errorf("%s: %v", p.PkgPath, err)
		}
	}
	return found
}

// impurities returns what makes a package's answers depend on anything but its arguments, each with its position.
func impurities(p *packages.Package) []string {
	var problems []string
	report := func(n ast.Node, text string) {
		pos := p.Fset.Position(n.Pos())
		problems = append(problems, pos.String()+": "+text)
	}
	for _, file := range p.Syntax {
		for _, spec := range file.Imports {
			if name := strings.Trim(spec.Path.Value, `"`); slices.Contains(bannedImports, name) {
				report(spec, "pure code does not import "+name)
			}
		}
		sorted := make(map[ast.Node]bool)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				report(n, "pure code starts no goroutine")
			case *ast.SelectStmt, *ast.SendStmt:
				report(n, "pure code does not communicate")
			case *ast.RangeStmt:
				if _, isMap := p.TypesInfo.TypeOf(n.X).Underlying().(*types.Map); isMap {
					report(n, "ranges over a map: range over slices.Sorted(maps.Keys(m))")
				}
			case *ast.AssignStmt:
				for _, left := range n.Lhs {
					if name := global(p, left); name != "" {
						report(n, "assigns to the package variable "+name)
					}
				}
			case *ast.IncDecStmt:
				if name := global(p, n.X); name != "" {
					report(n, "assigns to the package variable "+name)
				}
			case *ast.SelectorExpr:
				name := function(p, n)
				if why := bannedCalls[name]; why != "" {
					report(n, name+" in pure code: "+why)
				}
			case *ast.CallExpr:
				name := called(p, n)
				if strings.HasPrefix(name, "slices.Sorted") && len(n.Args) > 0 {
					sorted[n.Args[0]] = true
				}
				if slices.Contains(unordered, name) && !sorted[n] {
					report(n, name+" has no order: put it into slices.Sorted")
				}
			}
			return true
		})
	}
	return problems
}

// called returns the function that a call calls, such as time.Now, or "" for methods and function values.
func called(p *packages.Package, call *ast.CallExpr) string {
	fun := call.Fun
	if index, ok := fun.(*ast.IndexExpr); ok {
		fun = index.X
	}
	if sel, ok := fun.(*ast.SelectorExpr); ok {
		return function(p, sel)
	}
	return ""
}

// function returns the package function that a selector names, or "".
func function(p *packages.Package, sel *ast.SelectorExpr) string {
	fn, ok := p.TypesInfo.Uses[sel.Sel].(*types.Func)
	if !ok || fn.Signature().Recv() != nil {
		return ""
	}
	return fn.FullName()
}

// global returns the name of the package variable that an expression's root is, or "".
func global(p *packages.Package, expr ast.Expr) string {
	for {
		switch x := expr.(type) {
		case *ast.IndexExpr:
			expr = x.X
		case *ast.SelectorExpr:
			expr = x.X
		case *ast.StarExpr:
			expr = x.X
		case *ast.ParenExpr:
			expr = x.X
		case *ast.Ident:
			if v, ok := p.TypesInfo.Uses[x].(*types.Var); ok && v.Pkg() == p.Types && v.Parent() == p.Types.Scope() {
				return v.Name()
			}
			return ""
		default:
			return ""
		}
	}
}
