package jobfile

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/setpointd/setpoint/core/hcltext"
)

// root reads what stands in a file beside its jobs: variables and locals, which jobs speak of.
type root struct {
	hcltext.Decoder

	filename  string
	files     map[string]*hcl.File
	calls     map[string]function.Function
	variables []*variable
	values    map[string]cty.Value // of the variables
	locals    map[string]local
	jobs      []hcltext.Block
}

// local is a value with a name within a file.
type local struct {
	expr hcl.Expression
	at   hcl.Range
}

// maxLocals limits how many locals a file has.
const maxLocals = 256

// read reads the file's outermost blocks. The jobs are kept to be read once it is known what they can speak of.
func (r *root) read(body hcl.Body, start hcl.Range, opts Options) {
	r.Scope = &hcltext.Scope{Functions: r.calls, Hint: "The default of a variable speaks of nothing else."}
	r.Body(body, "", start, hcltext.Fields{Blocks: map[string]hcltext.BlockField{
		"variable": {Label: "name", Repeated: true, Read: func(b hcltext.Block) { r.variables = append(r.variables, readVariable(&r.Decoder, b)) }},
		"locals":   {Repeated: true, Read: r.readLocals},
		"job":      {Label: "name", Repeated: true, Read: func(b hcltext.Block) { r.jobs = append(r.jobs, b) }},
	}})
	r.assign(opts)
	r.Scope = &hcltext.Scope{
		Objects: map[string]map[string]cty.Value{"var": r.values, "local": {}}, Functions: r.calls, Hint: "There are var.NAME, for variables of the file, and local.NAME.",
		Declared: map[string]string{"var": "A block variable %q {} declares one.", "local": "A block locals { %s = … } gives it a value."},
	}
	r.evaluateLocals()
}

func (r *root) readLocals(b hcltext.Block) {
	attributes, diags := b.Body.JustAttributes()
	r.Diags = append(r.Diags, diags...)
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		a := attributes[name]
		if earlier, twice := r.locals[name]; twice {
			r.Diags = append(r.Diags, hcltext.Error(a.NameRange, "Local given twice", fmt.Sprintf("There is a local.%s at %s:%d already.", name, earlier.at.Filename, earlier.at.Start.Line)))
			continue
		}
		if len(r.locals) == maxLocals {
			r.Diags = append(r.Diags, hcltext.Error(a.NameRange, "Too many locals", fmt.Sprintf("A file has %d at most.", maxLocals)))
			return
		}
		r.locals[name] = local{expr: a.Expr, at: a.NameRange}
	}
}

// evaluateLocals gives locals their values, each after those that it speaks of.
func (r *root) evaluateLocals() {
	done := r.Scope.Objects["local"]
	var way []string
	var evaluate func(name string)
	evaluate = func(name string) {
		l := r.locals[name]
		if i := slices.Index(way, name); i >= 0 {
			circle := append(slices.Clone(way[i:]), name)
			r.Fail("locals."+name, l.at, "Locals in a circle", fmt.Sprintf("Each is given by the next: local.%s.", strings.Join(circle, ", local.")))
			for _, each := range circle {
				done[each] = cty.DynamicVal
			}
			return
		}
		way = append(way, name)
		defer func() { way = way[:len(way)-1] }()
		for _, t := range l.expr.Variables() {
			other, ok := localName(t)
			if _, known := r.locals[other]; !ok || !known {
				continue
			}
			if _, evaluated := done[other]; !evaluated {
				evaluate(other)
			}
		}
		if _, failed := done[name]; failed {
			return
		}
		value, ok := r.Evaluate("locals."+name, l.expr)
		if ok && hcltext.Size(value) > hcltext.MaxValueSize {
			r.Fail("locals."+name, l.at, "Value too large", fmt.Sprintf("It has more than %d bytes.", hcltext.MaxValueSize))
			ok = false
		}
		if !ok {
			value = cty.DynamicVal
		}
		done[name] = value
	}
	for _, name := range slices.Sorted(maps.Keys(r.locals)) {
		if _, evaluated := done[name]; !evaluated {
			evaluate(name)
		}
	}
}

func localName(t hcl.Traversal) (string, bool) {
	if len(t) < 2 || t.RootName() != "local" {
		return "", false
	}
	a, ok := t[1].(hcl.TraverseAttr)
	return a.Name, ok
}

// declares reports whether a file in JSON has variables or locals. Only then texts in it are templates, so that a file without them needs no escapes.
func declares(src []byte) bool {
	var outer map[string]json.RawMessage
	if err := json.Unmarshal(src, &outer); err != nil {
		return false
	}
	return outer["variable"] != nil || outer["locals"] != nil
}

// checkTemplates holds the texts of a file in JSON to the limits of a file, as templates.
func checkTemplates(src []byte, at hcl.Range) hcl.Diagnostics {
	var content any
	if err := json.Unmarshal(src, &content); err != nil {
		return nil // which the parser has said
	}
	var diags hcl.Diagnostics
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			if strings.Contains(v, "${") || strings.Contains(v, "%{") {
				diags = append(diags, hcltext.CheckTemplate(v, at)...)
			}
		case []any:
			for _, each := range v {
				walk(each)
			}
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				walk(key)
				walk(v[key])
			}
		}
	}
	walk(content)
	return diags
}

// isNative reports whether a body is HCL's own form.
func isNative(body hcl.Body) bool {
	_, ok := body.(*hclsyntax.Body)
	return ok
}
