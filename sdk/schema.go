package sdk

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// Schema describes a block: of the plugin in the daemon's configuration, or in a job. The zero Schema is a block without content.
type Schema struct {
	Description string
	Attributes  []Attribute
	Blocks      []Block
}

// Attribute is a setting.
type Attribute struct {
	Name        string
	Type        string // string, number, bool, any, or list(T), set(T), map(T) of such
	Description string
	Required    bool
	Sensitive   bool   // is not shown in logs and messages
	Default     string // as JSON; "" for none
}

// Block is a block within a block.
type Block struct {
	Name     string
	Repeated bool // any number of them, in order; otherwise at most one
	Schema   Schema
}

var schemaName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// check returns what is wrong with the schema's definition, where naming the place in it.
func (s *Schema) check(where string) error {
	var errs []error
	seen := map[string]bool{}
	name := func(n string) {
		if !schemaName.MatchString(n) || seen[n] {
			errs = append(errs, fmt.Errorf("schema of %s: name %q is given twice or is not of lower-case letters, digits and _", where, n))
		}
		seen[n] = true
	}
	for _, a := range s.Attributes {
		name(a.Name)
		t, err := parseType(a.Type)
		if err != nil {
			errs = append(errs, fmt.Errorf("schema of %s: %s: %w", where, a.Name, err))
			continue
		}
		if a.Default == "" {
			continue
		}
		var d Diagnostics
		if v, err := parseJSON(a.Default); err != nil {
			errs = append(errs, fmt.Errorf("schema of %s: default of %s: %w", where, a.Name, err))
		} else if t.check(v, At(a.Name), &d); len(d) > 0 {
			errs = append(errs, fmt.Errorf("schema of %s: default of %w", where, d))
		}
	}
	for i := range s.Blocks {
		name(s.Blocks[i].Name)
		errs = append(errs, s.Blocks[i].Schema.check(where+"."+s.Blocks[i].Name))
	}
	return errors.Join(errs...)
}

func (s *Schema) wire() *pluginv1.Schema {
	out := &pluginv1.Schema{Description: s.Description}
	for _, a := range s.Attributes {
		out.Attributes = append(out.Attributes, &pluginv1.Attribute{
			Name: a.Name, Type: a.Type, Description: a.Description, Required: a.Required, Sensitive: a.Sensitive, DefaultJson: a.Default,
		})
	}
	for i := range s.Blocks {
		b := &s.Blocks[i]
		out.Blocks = append(out.Blocks, &pluginv1.NestedBlock{Name: b.Name, Repeated: b.Repeated, Block: b.Schema.wire()})
	}
	return out
}

// complete checks one JSON object against the schema and returns it with defaults filled in and keys sorted. Empty input is taken for an empty object.
func (s *Schema) complete(in Settings) (Settings, error) {
	if in == "" {
		in = "{}"
	}
	v, err := parseJSON(string(in))
	if err != nil {
		return "", Diagnostics{{Summary: "the settings are not JSON", Detail: err.Error()}}
	}
	var d Diagnostics
	s.fill(v, nil, &d)
	if err := d.Err(); err != nil {
		return "", err
	}
	out, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("write completed settings: %w", err)
	}
	return Settings(out), nil
}

// fill checks v and adds defaults to it.
func (s *Schema) fill(v any, path Path, d *Diagnostics) {
	object, ok := v.(map[string]any)
	if !ok {
		d.Add(path, "want a block", "found "+jsonKind(v))
		return
	}
	var known []string
	for _, a := range s.Attributes {
		known = append(known, a.Name)
		s.fillAttribute(object, a, path, d)
	}
	for i := range s.Blocks {
		b := &s.Blocks[i]
		known = append(known, b.Name)
		switch x := object[b.Name].(type) {
		case nil:
			delete(object, b.Name)
		case map[string]any:
			if b.Repeated { // written once, which in a job looks like a block that cannot be repeated
				object[b.Name] = []any{x}
			}
			b.fill(object[b.Name], path.Attribute(b.Name), d)
		default:
			b.fill(x, path.Attribute(b.Name), d)
		}
	}
	for _, key := range sortedKeys(object) {
		if !slices.Contains(known, key) {
			d.Add(path.Attribute(key), fmt.Sprintf("unknown setting %q%s", key, Suggest(key, known)), "")
		}
	}
}

func (s *Schema) fillAttribute(object map[string]any, a Attribute, path Path, d *Diagnostics) {
	v := object[a.Name]
	switch {
	case v != nil:
		t, _ := parseType(a.Type)
		t.check(v, path.Attribute(a.Name), d)
	case a.Required:
		d.Add(path.Attribute(a.Name), fmt.Sprintf("%q is required", a.Name), a.Description)
	default:
		delete(object, a.Name)
		if a.Default != "" {
			object[a.Name], _ = parseJSON(a.Default)
		}
	}
}

func (b *Block) fill(v any, path Path, d *Diagnostics) {
	if !b.Repeated {
		b.Schema.fill(v, path, d)
		return
	}
	list, ok := v.([]any)
	if !ok {
		d.Add(path, "want a list of blocks", "found "+jsonKind(v))
		return
	}
	for i, x := range list {
		b.Schema.fill(x, path.Index(i), d)
	}
}

// attrType is a parsed type expression.
type attrType struct {
	name string // string, number, bool, any, list, map
	of   *attrType
}

func parseType(expr string) (*attrType, error) {
	expr = strings.TrimSpace(expr)
	switch expr {
	case "string", "number", "bool", "any":
		return &attrType{name: expr}, nil
	}
	open := strings.IndexByte(expr, '(')
	if open > 0 && strings.HasSuffix(expr, ")") {
		of, err := parseType(expr[open+1 : len(expr)-1])
		switch kind := expr[:open]; {
		case err != nil:
			return nil, err
		case kind == "list" || kind == "set":
			return &attrType{name: "list", of: of}, nil
		case kind == "map":
			return &attrType{name: "map", of: of}, nil
		}
	}
	return nil, fmt.Errorf("type %q: want string, number, bool, any, or list, set or map of such", expr)
}

func (t *attrType) check(v any, path Path, d *Diagnostics) {
	ok := true
	switch t.name {
	case "string":
		_, ok = v.(string)
	case "number":
		_, ok = v.(json.Number)
	case "bool":
		_, ok = v.(bool)
	case "list":
		var list []any
		if list, ok = v.([]any); ok {
			for i, x := range list {
				t.of.check(x, path.Index(i), d)
			}
		}
	case "map":
		var m map[string]any
		if m, ok = v.(map[string]any); ok {
			for _, k := range sortedKeys(m) {
				t.of.check(m[k], path.Key(k), d)
			}
		}
	}
	if !ok {
		d.Add(path, "want a "+t.name, "found "+jsonKind(v))
	}
}
