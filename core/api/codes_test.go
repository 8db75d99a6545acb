package api_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/engine"
)

// TestEveryCodeIsListed reads from the source which codes there are, and finds each in the list and in docs/API.md.
func TestEveryCodeIsListed(t *testing.T) {
	declared := map[string]bool{}
	constantsOf(t, "codes.go", "Code", declared)
	for _, kind := range []engine.Kind{engine.NotFound, engine.Conflict, engine.Invalid, engine.Refused, engine.KeyReused} {
		declared[string(kind)] = true
	}
	page, err := os.ReadFile("../../docs/API.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([a-z_, ]+) \\| [^|]{20,} \\| [^|]{10,} \\|$")
	documented := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		documented[m[1]] = m[2]
	}
	for code := range declared {
		connects, listed := api.Codes()[api.Code(code)]
		if !listed || len(connects) == 0 {
			t.Errorf("the code %s is not in the list", code)
		}
		var names []string
		for _, c := range connects {
			names = append(names, c.String())
		}
		if got := documented[code]; got != strings.Join(names, ", ") {
			t.Errorf("docs/API.md has the code %s under %q, want a row with its meaning, what to do, and %q", code, got, strings.Join(names, ", "))
		}
	}
	if len(declared) != len(api.Codes()) || len(documented) != len(declared) {
		t.Errorf("%d codes are declared, %d listed and %d documented", len(declared), len(api.Codes()), len(documented))
	}
}

// constantsOf adds the string constants of a type in a file, given as Type("text").
func constantsOf(t *testing.T, file, typ string, out map[string]bool) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 1 {
			return true
		}
		name, isName := call.Fun.(*ast.Ident)
		text, isText := call.Args[0].(*ast.BasicLit)
		if isName && isText && name.Name == typ {
			if s, err := strconv.Unquote(text.Value); err == nil {
				out[s] = true
			}
		}
		return true
	})
}

// TestCodesOfErrorsAreListed finds each code that an error is made with outside of the list.
func TestCodesOfErrorsAreListed(t *testing.T) {
	code := regexp.MustCompile(`(?:Code|code):\s+"([a-z_]+)"`)
	found := 0
	for _, file := range []string{"exec.go", "plugin_control.go", "errors.go", "plan.go", "events.go", "watch.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range code.FindAllStringSubmatch(string(text), -1) {
			found++
			if _, ok := api.Codes()[api.Code(m[1])]; !ok {
				t.Errorf("%s: the code %s is not in the list", file, m[1])
			}
		}
	}
	if found == 0 {
		t.Error("no code was found: the expression is out of date")
	}
}
