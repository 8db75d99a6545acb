package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	celgo "cel.dev/cel-go/cel"
	"cel.dev/cel-go/ext"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// variable is something that an expression can say of a node.
type variable struct {
	name string
	kind *celgo.Type
	of   func(n *cluster.Node) any
}

var texts, counts = celgo.MapType(celgo.StringType, celgo.StringType), celgo.MapType(celgo.StringType, celgo.IntType)

var variables = []variable{
	{"node.id", celgo.StringType, func(n *cluster.Node) any { return string(n.ID) }},
	{"node.name", celgo.StringType, func(n *cluster.Node) any { return n.Spec.Name }},
	{"node.labels", texts, func(n *cluster.Node) any { return n.Spec.Labels }},
	{"node.attributes", texts, func(n *cluster.Node) any { return n.Description.Attributes }},
	{"node.hostname", celgo.StringType, func(n *cluster.Node) any { return n.Description.Hostname }},
	{"node.os", celgo.StringType, func(n *cluster.Node) any { return n.Description.OS }},
	{"node.arch", celgo.StringType, func(n *cluster.Node) any { return n.Description.Arch }},
	{"node.addresses", celgo.ListType(celgo.StringType), func(n *cluster.Node) any { return n.Description.Addresses }},
	{"node.drivers", celgo.ListType(celgo.StringType), func(n *cluster.Node) any { return n.Description.Drivers }},
	{"node.cpu", celgo.DoubleType, func(n *cluster.Node) any { return float64(n.Description.Capacity.MilliCPU) / 1000 }},
	{"node.memory", celgo.IntType, func(n *cluster.Node) any { return n.Description.Capacity.Memory }},
	{"node.units", counts, func(n *cluster.Node) any { return n.Description.Capacity.Units }},
}

// maxExpression is how long an expression may be, in characters.
const maxExpression = 4096

// newEnv returns what expressions may say: the variables, CEL's standard functions, and those for strings and sets. None of them has a clock or chance in it.
func newEnv() (*celgo.Env, error) {
	opts := []celgo.EnvOption{
		ext.Strings(), ext.Sets(), celgo.ASTValidators(celgo.ValidateRegexLiterals()), celgo.ParserExpressionSizeLimit(maxExpression),
	}
	for _, v := range variables {
		opts = append(opts, celgo.Variable(v.name, v.kind))
	}
	env, err := celgo.NewEnv(opts...)
	if err != nil {
		return nil, fmt.Errorf("make the environment of expressions: %w", err)
	}
	return env, nil
}

// compileExpr parses an expression and checks that it is of a type.
func compileExpr(env *celgo.Env, text string, want *celgo.Type, maxCost uint64) (celgo.Program, sdk.Diagnostics) {
	if strings.TrimSpace(text) == "" {
		return nil, sdk.Diagnostics{{Summary: "the expression is empty"}}
	}
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		var out sdk.Diagnostics
		for _, e := range issues.Errors() {
			summary := e.Message + meant(e.Message, text, e.Location.Line(), e.Location.Column())
			out = append(out, sdk.Diagnostic{Summary: summary, Detail: place(text, e.Location.Line(), e.Location.Column())})
		}
		return nil, out
	}
	if got := ast.OutputType(); !got.IsExactType(want) && !got.IsExactType(celgo.DynType) {
		return nil, sdk.Diagnostics{{Summary: fmt.Sprintf("the expression is of type %s; want %s", got, want), Detail: text}}
	}
	program, err := env.Program(ast, celgo.EvalOptions(celgo.OptOptimize), celgo.CostLimit(maxCost))
	if err != nil {
		return nil, sdk.Diagnostics{{Summary: err.Error(), Detail: text}}
	}
	return program, nil
}

// place says where in an expression something is, counting lines from 1 and columns from 0 as CEL does.
func place(text string, line, column int) string {
	lines := strings.Split(text, "\n")
	if line < 1 || line > len(lines) {
		return text
	}
	if len(lines) == 1 {
		return fmt.Sprintf("column %d of %s", column+1, text)
	}
	return fmt.Sprintf("line %d, column %d: %s", line, column+1, strings.TrimSpace(lines[line-1]))
}

// meant suggests a variable for one that does not exist.
func meant(message, text string, line, column int) string {
	if !strings.HasPrefix(message, "undeclared reference to 'node'") {
		return ""
	}
	lines := strings.Split(text, "\n")
	if line < 1 || line > len(lines) || column > len(lines[line-1]) {
		return ""
	}
	rest := strings.FieldsFunc(lines[line-1][column:], func(r rune) bool { return r != '.' && r != '_' && !unicode.IsLetter(r) })
	if len(rest) == 0 {
		return ""
	}
	var known []string
	for _, v := range variables {
		known = append(known, v.name)
	}
	parts := strings.SplitN(rest[0], ".", 3)
	if len(parts) > 1 {
		if near := sdk.Suggest(parts[0]+"."+parts[1], known); near != "" {
			return near
		}
	}
	return "; known are " + strings.Join(known, ", ")
}

// nodeVars gives a program what it asks of a node.
type nodeVars struct{ node *cluster.Node }

// ResolveName returns the value of a variable.
func (v nodeVars) ResolveName(name string) (any, bool) {
	i := slices.IndexFunc(variables, func(x variable) bool { return x.name == name })
	if i < 0 {
		return nil, false
	}
	return variables[i].of(v.node), true
}

// Parent returns nil: there are no other variables.
func (nodeVars) Parent() celgo.Activation { return nil }
