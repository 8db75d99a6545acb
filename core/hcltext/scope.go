package hcltext

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// MaxValueSize limits, in bytes, what the values that an expression speaks of have together, and what a value may be that others speak of.
const MaxValueSize = 1 << 20

// Scope is what expressions may speak of: objects of named values, as in var.NAME, and functions. A value that is not known is one whose mistake was told
// already: what speaks of it has no value either, and that is no further mistake.
type Scope struct {
	Objects   map[string]map[string]cty.Value
	Functions map[string]function.Function
	Hint      string            // what names there are, a sentence for who uses another
	Declared  map[string]string // how the values of an object are declared, by the object's name; %s is the name that is missing
}

// evaluate returns an expression's value, or NilVal. A name that is not there is told with the one that was probably meant.
func (s *Scope) evaluate(expr hcl.Expression) (cty.Value, hcl.Diagnostics) {
	if s == nil {
		return expr.Value(nil)
	}
	var diags hcl.Diagnostics
	size := 0
	for _, name := range expr.Variables() {
		value, diag := s.find(name)
		if diag != nil {
			diags = append(diags, diag)
			continue
		}
		size += Size(value)
	}
	if size > MaxValueSize {
		diags = append(diags, Error(expr.Range(), "Value too large", fmt.Sprintf("What the expression speaks of has %d bytes together; the limit is %d.", size, MaxValueSize)))
	}
	if diags.HasErrors() {
		return cty.NilVal, diags
	}
	value, diags := expr.Value(s.context())
	if diags.HasErrors() {
		return cty.NilVal, diags
	}
	if !value.IsWhollyKnown() {
		return cty.NilVal, diags
	}
	return value, diags
}

func (s *Scope) context() *hcl.EvalContext {
	out := &hcl.EvalContext{Variables: make(map[string]cty.Value, len(s.Objects)), Functions: s.Functions}
	for name, values := range s.Objects {
		out.Variables[name] = cty.ObjectVal(values)
	}
	return out
}

// find returns the value that a name begins with, such as var.image.
func (s *Scope) find(name hcl.Traversal) (cty.Value, *hcl.Diagnostic) {
	object, known := s.Objects[name.RootName()]
	at := name.SourceRange()
	if !known {
		return cty.NilVal, Error(at, "Unknown name", strings.TrimSpace(fmt.Sprintf("There is no %q here. %s In text, ${ is written $${.", name.RootName(), s.Hint)))
	}
	if len(name) < 2 {
		return cty.ObjectVal(object), nil
	}
	attribute, ok := name[1].(hcl.TraverseAttr)
	if !ok {
		return cty.ObjectVal(object), nil
	}
	value, known := object[attribute.Name]
	if !known {
		detail := fmt.Sprintf("There is no %s.%s in this file.", name.RootName(), attribute.Name)
		if near := cluster.Suggest(attribute.Name, slices.Sorted(maps.Keys(object))); near != "" {
			detail += fmt.Sprintf(" Did you mean %s.%s?", name.RootName(), near)
		} else if how := s.Declared[name.RootName()]; how != "" {
			detail += " " + fmt.Sprintf(how, attribute.Name)
		}
		return cty.NilVal, Error(at, "Unknown name", detail)
	}
	return value, nil
}

// Size is about how many bytes a value has.
func Size(v cty.Value) int {
	switch {
	case v == cty.NilVal || v.IsNull() || !v.IsKnown():
		return 1
	case v.Type() == cty.String:
		return len(v.AsString()) + 1
	case v.Type().IsPrimitiveType():
		return 8
	case !v.CanIterateElements():
		return 1
	}
	n := 8
	for it := v.ElementIterator(); it.Next(); {
		key, element := it.Element()
		n += Size(key) + Size(element)
	}
	return n
}
