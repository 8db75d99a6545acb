package compose

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/compose-spec/compose-go/v2/schema"
	"github.com/hashicorp/hcl/v2"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/setpointd/setpoint/core/hcltext"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// shape returns all that is wrong with the file by the schema of Compose files; nothing if something else is.
func (r *reader) shape() hcl.Diagnostics {
	content, err := guarded(r.interpolated)
	if err != nil {
		return nil
	}
	text, err := json.Marshal(content)
	if err != nil {
		return nil
	}
	var plain any
	if err := json.Unmarshal(text, &plain); err != nil {
		return nil
	}
	compiled, err := compile()
	if err != nil {
		return nil
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(compiled.Validate(plain), &invalid) {
		return nil
	}
	all := leaves(invalid)
	known := properties()
	var out hcl.Diagnostics
	for _, each := range all {
		if isUnknown(each) && besides(all, each, known) {
			continue
		}
		out = append(out, r.misshapen(each)...)
	}
	return distinct(out)
}

// compile makes the schema of Compose files ready.
func compile() (*jsonschema.Schema, error) {
	content, err := jsonschema.UnmarshalJSON(strings.NewReader(schema.Schema))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.RegisterFormat(&jsonschema.Format{Name: "duration", Validate: func(v any) error {
		text, ok := v.(string)
		if !ok {
			return nil
		}
		_, err := time.ParseDuration(text)
		return err
	}})
	if err := compiler.AddResource("compose.json", content); err != nil {
		return nil, err
	}
	return compiler.Compile("compose.json")
}

// leaves are the mistakes behind a mistake. Where one of several forms was wanted, those count that come closest: what is wrong deepest in the file.
func leaves(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(e.Causes) == 0 {
		return []*jsonschema.ValidationError{e}
	}
	var out []*jsonschema.ValidationError
	for _, cause := range e.Causes {
		out = append(out, leaves(cause)...)
	}
	switch e.ErrorKind.(type) {
	case *kind.OneOf, *kind.AnyOf:
		deepest := slices.MaxFunc(out, func(a, b *jsonschema.ValidationError) int { return depth(a) - depth(b) })
		if depth(deepest) == len(e.InstanceLocation) { // none of the forms
			return []*jsonschema.ValidationError{deepest}
		}
		return slices.DeleteFunc(out, func(each *jsonschema.ValidationError) bool { return depth(each) < depth(deepest) })
	}
	return out
}

// isUnknown reports whether a mistake is that there is such a key at all, which is how the schema speaks of keys that none of its parts knows.
func isUnknown(e *jsonschema.ValidationError) bool {
	_, ok := e.ErrorKind.(*kind.FalseSchema)
	return ok && len(e.InstanceLocation) > 0
}

// besides reports whether a key is called unknown only because something else is wrong: with its value, or beside it, so that the schema has not come to the
// part of it that knows the key.
func besides(all []*jsonschema.ValidationError, e *jsonschema.ValidationError, known map[string]bool) bool {
	parent, key := e.InstanceLocation[:len(e.InstanceLocation)-1], e.InstanceLocation[len(e.InstanceLocation)-1]
	return slices.ContainsFunc(all, func(o *jsonschema.ValidationError) bool {
		return !isUnknown(o) && (within(o.InstanceLocation, e.InstanceLocation) || known[key] && within(o.InstanceLocation, parent))
	})
}

// properties are the keys that the schema knows anywhere.
func properties() map[string]bool {
	out := make(map[string]bool)
	var content any
	if err := json.Unmarshal([]byte(schema.Schema), &content); err != nil {
		return out
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if named, ok := v["properties"].(map[string]any); ok {
				for key := range named {
					out[key] = true
				}
			}
			for _, each := range v {
				walk(each)
			}
		case []any:
			for _, each := range v {
				walk(each)
			}
		}
	}
	walk(content)
	return out
}

func within(path, outer []string) bool {
	return len(path) >= len(outer) && slices.Equal(path[:len(outer)], outer)
}

func depth(e *jsonschema.ValidationError) int {
	if _, ok := e.ErrorKind.(*kind.AdditionalProperties); ok {
		return len(e.InstanceLocation) + 1
	}
	return len(e.InstanceLocation)
}

// misshapen says what is wrong at one place.
func (r *reader) misshapen(e *jsonschema.ValidationError) hcl.Diagnostics {
	location := e.InstanceLocation
	unknown, ok := e.ErrorKind.(*kind.AdditionalProperties)
	if isUnknown(e) {
		last := len(location) - 1
		unknown, ok = &kind.AdditionalProperties{Properties: location[last:]}, true
		location = location[:last]
	}
	path := strings.Join(location, ".")
	if !ok {
		at := r.places.of(e.InstanceLocation...)
		return hcl.Diagnostics{hcltext.Error(at, "Not what a Compose file has here", fmt.Sprintf("In %s: %s", path, sentence(e.ErrorKind.LocalizedString(message.NewPrinter(language.English)))))}
	}
	var out hcl.Diagnostics
	for _, key := range unknown.Properties {
		at := r.places.of(append(slices.Clone(location), key)...)
		detail := fmt.Sprintf("Compose files have no %q in %s.", key, cmpOr(path, "their outermost map"))
		if near := cluster.Suggest(key, knownKeys(location)); near != "" {
			detail += fmt.Sprintf(" Did you mean %q?", near)
		}
		out = append(out, hcltext.Error(at, "Unknown key", detail))
	}
	return out
}

func cmpOr(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// knownKeys are the keys that can stand at a place in a service, as far as the table of fates knows them.
func knownKeys(location []string) []string {
	if len(location) < 2 || location[0] != "services" {
		return nil
	}
	prefix := ""
	for _, step := range location[2:] {
		prefix += step + "."
	}
	var out []string
	for _, f := range fates {
		if rest, ok := strings.CutPrefix(f.key, prefix); ok {
			key, _, _ := strings.Cut(rest, ".")
			out = append(out, key)
		}
	}
	return out
}

func distinct(diags hcl.Diagnostics) hcl.Diagnostics {
	seen := make(map[string]bool)
	return slices.DeleteFunc(diags, func(d *hcl.Diagnostic) bool {
		key := where(*d.Subject) + d.Detail
		twice := seen[key]
		seen[key] = true
		return twice
	})
}
