package jobfile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/setpointd/setpoint/core/hcltext"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// VariableEnv begins the names of the environment variables that give variables of job files their values.
const VariableEnv = "SETPOINT_VAR_"

// variable is a variable that a job file declares.
type variable struct {
	name        string
	at          hcl.Range
	kind        cty.Type
	value       cty.Value // the default; NilVal without one
	from        string    // where the value comes from, for messages
	fromAt      hcl.Range // and where it stands, if it stands in a file
	validations []validation
}

// validation is what a variable's value must meet.
type validation struct {
	condition hcl.Expression
	message   hcl.Expression
	at        hcl.Range
}

// variableFields are what a variable block may have.
func (v *variable) fields(root *hcltext.Decoder) hcltext.Fields {
	return hcltext.Fields{
		Attributes: map[string]func(hcltext.Value){
			"type": func(value hcltext.Value) {
				kind, diags := typeexpr.TypeConstraint(value.Expr)
				root.Diags = append(root.Diags, diags...)
				if !diags.HasErrors() {
					v.kind = kind
				}
			},
			"default": func(value hcltext.Value) {
				if got, ok := root.Evaluate(value.Path, value.Expr); ok {
					v.value, v.from, v.fromAt = got, "its default", value.Expr.Range()
				}
			},
			"description": func(value hcltext.Value) { hcltext.String(value) },
		},
		Blocks: map[string]hcltext.BlockField{"validation": {Repeated: true, Read: func(b hcltext.Block) {
			check := validation{at: b.At}
			root.Body(b.Body, b.Path, b.At, hcltext.Fields{Attributes: map[string]func(hcltext.Value){
				"condition":     func(value hcltext.Value) { check.condition = value.Expr },
				"error_message": func(value hcltext.Value) { check.message = value.Expr },
			}})
			if check.condition == nil || check.message == nil {
				root.Fail(b.Path, b.At, "Incomplete validation", "A validation has a condition and an error_message.")
				return
			}
			v.validations = append(v.validations, check)
		}}},
	}
}

// readVariable reads a variable block.
func readVariable(root *hcltext.Decoder, b hcltext.Block) *variable {
	v := &variable{name: b.Label, at: b.Named, kind: cty.DynamicPseudoType, value: cty.NilVal}
	if !hclsyntax.ValidIdentifier(b.Label) {
		root.Fail(b.Path, b.Named, "Invalid name of a variable", "A name is letters, digits, hyphens and underscores, and begins with a letter.")
	}
	root.Body(b.Body, b.Path, b.At, v.fields(root))
	return v
}

// Given is a value that somebody gives a variable.
type Given struct {
	Name string
	Text string // as on a command line: as it is for text, an expression for other types
	From string // who gives it, such as --var
}

// VariableFile is a file that gives variables their values: attributes, in HCL or as a JSON object.
type VariableFile struct {
	Name string
	Src  []byte
}

// assign gives variables their values; of several the last counts: the default, the environment, files, what was given.
func (r *root) assign(opts Options) {
	for _, v := range r.variables {
		if text, ok := opts.Env[VariableEnv+v.name]; ok {
			r.give(v, Given{Name: v.name, Text: text, From: VariableEnv + v.name})
		}
	}
	for _, f := range opts.VariableFiles {
		r.readValues(f)
	}
	for _, g := range opts.Variables {
		v := r.variable(g.Name)
		if v == nil {
			r.Diags = append(r.Diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Unknown variable", Detail: r.unknown(g.Name, g.From)})
			continue
		}
		r.give(v, g)
	}
	for _, v := range r.variables {
		r.settle(v)
	}
}

func (r *root) variable(name string) *variable {
	i := slices.IndexFunc(r.variables, func(v *variable) bool { return v.name == name })
	if i < 0 {
		return nil
	}
	return r.variables[i]
}

// unknown says that the file declares no such variable.
func (r *root) unknown(name, from string) string {
	names := make([]string, len(r.variables))
	for i, v := range r.variables {
		names[i] = v.name
	}
	detail := fmt.Sprintf("%s gives a value to %q, which %s does not declare.", from, name, r.filename)
	if near := cluster.Suggest(name, names); near != "" {
		return detail + fmt.Sprintf(" Did you mean %q?", near)
	}
	if len(names) == 0 {
		return detail + ` It declares none: variable "NAME" {} does.`
	}
	return detail + fmt.Sprintf(" It declares %s.", strings.Join(names, ", "))
}

// give takes a value as text: as it is where text is wanted, and else as an expression.
func (r *root) give(v *variable, g Given) {
	v.from, v.fromAt = g.From, hcl.Range{}
	if v.kind == cty.String || v.kind == cty.DynamicPseudoType {
		v.value = cty.StringVal(g.Text)
		return
	}
	parsed, diags := hcltext.Parse(g.From, []byte("value = "+g.Text+"\n"))
	if !diags.HasErrors() {
		attributes, found := parsed.Body.JustAttributes()
		if diags = found; !diags.HasErrors() && len(attributes) == 1 {
			value, found := attributes["value"].Expr.Value(nil)
			if diags = found; !diags.HasErrors() {
				v.value = value
				return
			}
		}
	}
	v.value = cty.NilVal
	r.Fail(hcltext.Keyed("variable", v.name), v.at, "Value cannot be read", fmt.Sprintf("%s gives it %q, which is no expression of type %s.", g.From, g.Text, typeexpr.TypeString(v.kind)))
}

// readValues reads a file of values.
func (r *root) readValues(f VariableFile) {
	parsed, diags := hcltext.Parse(f.Name, f.Src)
	r.files[f.Name] = parsed
	if diags.HasErrors() {
		r.Diags = append(r.Diags, diags...)
		return
	}
	attributes, diags := parsed.Body.JustAttributes()
	r.Diags = append(r.Diags, diags...)
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		a := attributes[name]
		v := r.variable(name)
		if v == nil {
			r.Diags = append(r.Diags, hcltext.Error(a.NameRange, "Unknown variable", r.unknown(name, "The file")))
			continue
		}
		value, diags := a.Expr.Value(nil)
		r.Diags = append(r.Diags, diags...)
		if !diags.HasErrors() {
			v.value, v.from, v.fromAt = value, fmt.Sprintf("%s, line %d,", f.Name, a.Range.Start.Line), a.Expr.Range()
		}
	}
}

// settle converts a variable's value to its type, and holds it to its validations.
func (r *root) settle(v *variable) {
	path := hcltext.Keyed("variable", v.name)
	if r.Failed(path) {
		r.values[v.name] = cty.DynamicVal
		return
	}
	at := v.at
	if v.fromAt.Filename != "" {
		at = v.fromAt
	}
	r.values[v.name] = cty.DynamicVal // so that what is wrong is said once
	switch {
	case v.value == cty.NilVal:
		r.Fail(path, v.at, "Variable without a value", fmt.Sprintf("It has no default; give it one with --var %s=…, in a --var-file, or in the environment as %s%s.",
			v.name, VariableEnv, v.name))
		return
	case hcltext.Size(v.value) > hcltext.MaxValueSize:
		r.Fail(path, at, "Value too large", fmt.Sprintf("It has more than %d bytes.", hcltext.MaxValueSize))
		return
	}
	value, err := convert.Convert(v.value, v.kind)
	if err != nil {
		r.Fail(path, at, "Wrong type of value", fmt.Sprintf("The variable %s is of type %s; %s gives it something else: %s.", v.name, typeexpr.TypeString(v.kind), v.from, err))
		return
	}
	r.values[v.name] = value
	scope := &hcltext.Scope{Objects: map[string]map[string]cty.Value{"var": {v.name: value}}, Functions: r.calls, Hint: "A validation can speak of its own variable."}
	for _, check := range v.validations {
		r.validate(v, check, scope, at)
	}
}

func (r *root) validate(v *variable, check validation, scope *hcltext.Scope, at hcl.Range) {
	d := hcltext.Decoder{Scope: scope}
	met, ok := d.Evaluate("condition", check.condition)
	message, said := d.Evaluate("error_message", check.message)
	r.Diags = append(r.Diags, d.Diags...)
	if !ok || !said {
		return
	}
	if met.IsNull() || met.Type() != cty.Bool || message.IsNull() || message.Type() != cty.String {
		r.Diags = append(r.Diags, hcltext.Error(check.at, "Not a validation", "The condition must be true or false, and error_message text."))
		return
	}
	if met.False() {
		detail := fmt.Sprintf("%s (The condition in line %d is not met by the value that %s gives.)", message.AsString(), check.at.Start.Line, v.from)
		r.Fail(hcltext.Keyed("variable", v.name), at, "Invalid value of variable "+v.name, detail)
	}
}
