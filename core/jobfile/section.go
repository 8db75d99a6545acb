package jobfile

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
	"golang.org/x/text/unicode/norm"

	"github.com/setpointd/setpoint/core/hcltext"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// section is a block that is being written.
type section struct {
	block *hclwrite.Block
	empty bool
}

func newSection(blockType string, labels ...string) *section {
	return &section{block: hclwrite.NewBlock(blockType, labels), empty: true}
}

// add puts a section in; without content only if it is to be kept.
func (w *section) add(inner *section, keep bool) {
	if inner.empty && !keep {
		return
	}
	if !w.empty {
		w.block.Body().AppendNewline()
	}
	w.block.Body().AppendBlock(inner.block)
	w.empty = false
}

func (w *section) value(name string, v cty.Value) {
	w.block.Body().SetAttributeRaw(name, tokens(v))
	w.empty = false
}

func text[S ~string](w *section, name string, s, unsaid S) {
	if s != unsaid {
		w.value(name, cty.StringVal(string(s)))
	}
}

func number[N ~int | ~uint16 | ~uint64](w *section, name string, n, unsaid N) {
	if n != unsaid {
		w.value(name, cty.NumberIntVal(int64(n)))
	}
}

func (w *section) duration(name string, d, unsaid time.Duration) {
	if d != unsaid {
		w.value(name, cty.StringVal(formatDuration(d)))
	}
}

// formatDuration leaves out the parts that are 0: 1m instead of 1m0s.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func (w *section) list(name string, list []string) {
	if len(list) == 0 {
		return
	}
	values := make([]cty.Value, len(list))
	for i, s := range list {
		values[i] = cty.StringVal(s)
	}
	w.value(name, cty.TupleVal(values))
}

func (w *section) texts(name string, m map[string]string) {
	if len(m) == 0 {
		return
	}
	values := make(map[string]cty.Value, len(m))
	for k, s := range m {
		values[k] = cty.StringVal(s)
	}
	w.value(name, cty.ObjectVal(values))
}

// settings writes a driver's settings: what is JSON of a list or map as such, where it is read back as the same text.
func (w *section) settings(name string, m map[string]string) {
	if len(m) == 0 {
		return
	}
	values := make(map[string]cty.Value, len(m))
	for k, s := range m {
		values[k] = cty.StringVal(s)
		if v, ok := structured(s); ok {
			values[k] = v
		}
	}
	w.value(name, cty.ObjectVal(values))
}

// structured reads a text as JSON of a list, a map, a flag or a whole number, if that is written as the same text again.
func structured(text string) (cty.Value, bool) {
	if text == "true" || text == "false" {
		return cty.BoolVal(text == "true"), true
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && strconv.FormatInt(n, 10) == text {
		return cty.NumberIntVal(n), true
	}
	if !strings.HasPrefix(text, "[") && !strings.HasPrefix(text, "{") || !norm.NFC.IsNormalString(text) {
		return cty.NilVal, false
	}
	t, err := ctyjson.ImpliedType([]byte(text))
	if err != nil {
		return cty.NilVal, false
	}
	v, err := ctyjson.Unmarshal([]byte(text), t)
	if err != nil {
		return cty.NilVal, false
	}
	plain, err := hcltext.Plain(v)
	if err != nil {
		return cty.NilVal, false
	}
	again, err := hcltext.Encode(plain)
	return v, err == nil && again == text
}

// tokens writes a value. Unlike hclwrite's own it quotes a key that begins a loop.
func tokens(v cty.Value) hclwrite.Tokens {
	switch t := v.Type(); {
	case v.IsNull() || t.IsPrimitiveType():
		return hclwrite.TokensForValue(v)
	case t.IsObjectType():
		var items []hclwrite.ObjectAttrTokens
		for it := v.ElementIterator(); it.Next(); {
			key, element := it.Element()
			name := hclwrite.TokensForValue(key)
			if k := key.AsString(); hcltext.IsName(k) && k != "for" && k != "null" && k != "true" && k != "false" {
				name = hclwrite.TokensForIdentifier(k)
			}
			items = append(items, hclwrite.ObjectAttrTokens{Name: name, Value: tokens(element)})
		}
		return hclwrite.TokensForObject(items)
	}
	var items []hclwrite.Tokens
	length, apart := 0, false
	for it := v.ElementIterator(); it.Next(); {
		_, element := it.Element()
		item := tokens(element)
		if element.Type().IsObjectType() && !element.IsNull() {
			item, apart = onOneLine(item), true
		}
		length += len(item.Bytes()) + len(", ")
		items = append(items, item)
	}
	if apart || length > maxListLength && len(items) > 1 {
		return listOfLines(items)
	}
	return hclwrite.TokensForTuple(items)
}

// maxListLength is from what length on each element of a list has a line of its own.
const maxListLength = 120

// onOneLine writes a map in one line, { a = 1, b = 2 }, unless something in it has lines of its own.
func onOneLine(object hclwrite.Tokens) hclwrite.Tokens {
	var out hclwrite.Tokens
	for i, t := range object {
		switch t.Type {
		case hclsyntax.TokenOBrack:
			return object
		case hclsyntax.TokenNewline:
			if i+1 < len(object) && object[i+1].Type != hclsyntax.TokenCBrace && object[i-1].Type != hclsyntax.TokenOBrace {
				out = append(out, &hclwrite.Token{Type: hclsyntax.TokenComma, Bytes: []byte(",")})
			}
			continue
		}
		out = append(out, t)
	}
	return out
}

// listOfLines writes a list with a line for each element.
func listOfLines(items []hclwrite.Tokens) hclwrite.Tokens {
	newline := &hclwrite.Token{Type: hclsyntax.TokenNewline, Bytes: []byte("\n")}
	out := hclwrite.Tokens{{Type: hclsyntax.TokenOBrack, Bytes: []byte("[")}, newline}
	for _, item := range items {
		out = append(append(out, item...), &hclwrite.Token{Type: hclsyntax.TokenComma, Bytes: []byte(",")}, newline)
	}
	return append(out, &hclwrite.Token{Type: hclsyntax.TokenCBrack, Bytes: []byte("]")})
}

// settings is what a job says to a plugin, ready to be written.
type settings struct {
	plugin string
	values map[string]cty.Value
}

func readSettings(plugins []cluster.PluginSettings) ([]settings, error) {
	var out []settings
	for _, p := range plugins {
		t, err := ctyjson.ImpliedType([]byte(p.JSON))
		if err != nil {
			return nil, fmt.Errorf("settings of plugin %s: %w", p.Plugin, err)
		}
		v, err := ctyjson.Unmarshal([]byte(p.JSON), t)
		if err != nil {
			return nil, fmt.Errorf("settings of plugin %s: %w", p.Plugin, err)
		}
		if _, err := hcltext.Plain(v); err != nil {
			return nil, fmt.Errorf("settings of plugin %s: %w", p.Plugin, err)
		}
		if v.IsNull() || !t.IsObjectType() {
			return nil, fmt.Errorf("settings of plugin %s: they are no object", p.Plugin)
		}
		s := settings{plugin: p.Plugin, values: v.AsValueMap()}
		for _, name := range slices.Sorted(maps.Keys(s.values)) {
			if !hcltext.IsName(name) {
				return nil, fmt.Errorf("settings of plugin %s: the key %q is no name", p.Plugin, name)
			}
		}
		out = append(out, s)
	}
	return out, nil
}

// splitConstraints takes the list of constraints out, which has a form of its own. The constraint plugin's block stays if it says anything else.
func splitConstraints(all []settings) (cty.Value, []settings) {
	constraints := cty.NilVal
	var rest []settings
	for _, s := range all {
		if list := s.values["constraints"]; s.plugin == constraintPlugin && isTexts(list) {
			constraints = list
			s.values = maps.Clone(s.values)
			delete(s.values, "constraints")
			if len(s.values) == 0 {
				continue
			}
		}
		rest = append(rest, s)
	}
	return constraints, rest
}

func isTexts(v cty.Value) bool {
	if v == cty.NilVal || v.IsNull() || !v.Type().IsTupleType() || v.LengthInt() == 0 {
		return false
	}
	return !slices.ContainsFunc(v.AsValueSlice(), func(e cty.Value) bool { return e.IsNull() || e.Type() != cty.String })
}

func pluginSection(s settings) *section {
	w := newSection("plugin", s.plugin)
	for _, name := range slices.Sorted(maps.Keys(s.values)) {
		w.value(name, s.values[name])
	}
	return w
}
