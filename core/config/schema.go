package config

import (
	"errors"
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/setpointd/setpoint/core/hcltext"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// The limits of a schema, which comes from a plugin.
const (
	maxSchemaDepth = 16
	maxSchemaNames = 1000 // in one block
	maxTypeLen     = 1000 // of one type expression
)

// A schema that a plugin has described, understood.
type schema struct {
	attributes map[string]attribute
	blocks     map[string]nested
	names      []string // of both, in the plugin's order
}

type attribute struct {
	wanted   cty.Type
	required bool
	unsaid   cty.Value // the default; NilVal: none
}

type nested struct {
	repeated bool
	block    *schema
}

// CheckSchema returns what is wrong with a schema: names that are given twice or cannot be written, types that do not exist, defaults of another type.
func CheckSchema(s *pluginv1.Schema) error {
	_, err := readSchema(s)
	return err
}

func readSchema(s *pluginv1.Schema) (*schema, error) { return readNestedSchema(s, 1) }

func readNestedSchema(s *pluginv1.Schema, depth int) (*schema, error) {
	if depth > maxSchemaDepth {
		return nil, fmt.Errorf("blocks are nested more than %d deep", maxSchemaDepth)
	}
	if n := len(s.GetAttributes()) + len(s.GetBlocks()); n > maxSchemaNames {
		return nil, fmt.Errorf("a block has %d attributes and blocks; the limit is %d", n, maxSchemaNames)
	}
	out := &schema{attributes: make(map[string]attribute), blocks: make(map[string]nested)}
	var errs []error
	for _, a := range s.GetAttributes() {
		read, err := readAttribute(a)
		if err = errors.Join(err, out.addName(a.GetName())); err != nil {
			errs = append(errs, err)
			continue
		}
		out.attributes[a.GetName()] = read
	}
	for _, b := range s.GetBlocks() {
		inner, err := readNestedSchema(b.GetBlock(), depth+1)
		if err != nil {
			err = fmt.Errorf("block %q: %w", b.GetName(), err)
		}
		if err = errors.Join(err, out.addName(b.GetName())); err != nil {
			errs = append(errs, err)
			continue
		}
		out.blocks[b.GetName()] = nested{repeated: b.GetRepeated(), block: inner}
	}
	return out, errors.Join(errs...)
}

func (s *schema) addName(name string) error {
	_, isAttribute := s.attributes[name]
	_, isBlock := s.blocks[name]
	switch {
	case !hcltext.IsName(name):
		return fmt.Errorf("%q cannot be the name of an attribute or block", name)
	case isAttribute || isBlock:
		return fmt.Errorf("%q is described twice", name)
	}
	s.names = append(s.names, name)
	return nil
}

func readAttribute(a *pluginv1.Attribute) (attribute, error) {
	wanted, err := parseType(a.GetType())
	if err != nil {
		return attribute{}, fmt.Errorf("attribute %q: %w", a.GetName(), err)
	}
	out := attribute{wanted: wanted, required: a.GetRequired(), unsaid: cty.NilVal}
	if a.GetDefaultJson() == "" {
		return out, nil
	}
	if out.unsaid, err = valueOf([]byte(a.GetDefaultJson()), wanted); err != nil {
		return attribute{}, fmt.Errorf("attribute %q: its default: %w", a.GetName(), err)
	}
	return out, nil
}

func parseType(text string) (cty.Type, error) {
	if len(text) > maxTypeLen {
		return cty.NilType, fmt.Errorf("its type has %d characters; the limit is %d", len(text), maxTypeLen)
	}
	expr, diags := hclsyntax.ParseExpression([]byte(text), "type", hcl.InitialPos)
	if diags.HasErrors() {
		return cty.NilType, fmt.Errorf("there is no type %q", text)
	}
	t, diags := typeexpr.TypeConstraint(expr)
	if diags.HasErrors() {
		return cty.NilType, fmt.Errorf("there is no type %q: %s", text, diags[0].Detail)
	}
	return t, nil
}

// spec returns how hcldec reads a body of the schema.
func (s *schema) spec() hcldec.ObjectSpec {
	out := make(hcldec.ObjectSpec, len(s.names))
	for name, a := range s.attributes {
		var read hcldec.Spec = &hcldec.AttrSpec{Name: name, Type: a.wanted, Required: a.required && a.unsaid == cty.NilVal}
		if a.unsaid != cty.NilVal {
			read = &hcldec.DefaultSpec{Primary: read, Default: &hcldec.LiteralSpec{Value: a.unsaid}}
		}
		out[name] = read
	}
	for name, b := range s.blocks {
		if b.repeated {
			out[name] = &hcldec.BlockTupleSpec{TypeName: name, Nested: b.block.spec()}
			continue
		}
		out[name] = &hcldec.BlockSpec{TypeName: name, Nested: b.block.spec()}
	}
	return out
}

// valueOf reads JSON as a value of a type, converting as HCL does.
func valueOf(json []byte, wanted cty.Type) (cty.Value, error) {
	t, err := ctyjson.ImpliedType(json)
	if err != nil {
		return cty.NilVal, err
	}
	v, err := ctyjson.Unmarshal(json, t)
	if err != nil {
		return cty.NilVal, err
	}
	if _, err := hcltext.Plain(v); err != nil {
		return cty.NilVal, err
	}
	return convert.Convert(v, wanted)
}
