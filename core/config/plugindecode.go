package config

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"

	"github.com/setpointd/setpoint/core/hcltext"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// DecodePluginConfig checks a plugin's config block, Plugin.Config, against the schema that the plugin described, and returns it as one JSON object: keys
// sorted, defaults filled in, what is null left out, a repeated block as a list. If the diagnostics have errors it is what could be read: settings and blocks in
// which something is wrong are left out, so that the plugin can be asked about the others; "" if nothing could.
func DecodePluginConfig(body hcl.Body, s *pluginv1.Schema) (string, hcl.Diagnostics) {
	read, err := readSchema(s)
	if err != nil {
		return "", hcl.Diagnostics{hcltext.Error(body.MissingItemRange(), "The plugin describes its settings wrongly", capital(err.Error())+".")}
	}
	value, diags := hcldec.Decode(body, read.spec(), nil)
	if diags.HasErrors() {
		hcltext.Sort(diags)
		value = readable(value)
	}
	plain, err := hcltext.Plain(value)
	if err == nil {
		var text string
		if text, err = hcltext.Encode(withoutNulls(plain)); err == nil {
			return text, diags
		}
	}
	if diags.HasErrors() {
		return "", diags
	}
	return "", append(diags, hcltext.Error(body.MissingItemRange(), "Settings cannot be passed on", capital(err.Error())+"."))
}

// readable is what of a block is known.
func readable(block cty.Value) cty.Value {
	if !block.IsKnown() || block.IsNull() || !block.Type().IsObjectType() {
		return cty.EmptyObjectVal
	}
	out := map[string]cty.Value{}
	for name, v := range block.AsValueMap() {
		if v.IsWhollyKnown() {
			out[name] = v
		}
	}
	return cty.ObjectVal(out)
}

func withoutNulls(plain any) any {
	switch v := plain.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, element := range v {
			if element != nil {
				out[key] = withoutNulls(element)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, element := range v {
			out[i] = withoutNulls(element)
		}
		return out
	}
	return plain
}

// LocateDiagnostic returns where in a config block the value stands at which a plugin's diagnostic points, or the nearest of what that lies in.
func LocateDiagnostic(body hcl.Body, s *pluginv1.Schema, path []*pluginv1.PathStep) hcl.Range {
	var places hcltext.Decoder
	recordBody(&places, body, s, "", 1)
	at, ok := places.Ranges.Find(PathString(path))
	if !ok {
		return body.MissingItemRange()
	}
	return at
}

// PluginDiagnostics returns what a plugin said about its config block, with the lines that it means.
func PluginDiagnostics(plugin string, body hcl.Body, s *pluginv1.Schema, said []*pluginv1.Diagnostic) hcl.Diagnostics {
	var out hcl.Diagnostics
	for _, d := range said {
		diag := hcltext.Error(LocateDiagnostic(body, s, d.GetPath()), oneLine(d.GetSummary()), detailOf(plugin, d))
		if d.GetWarning() {
			diag.Severity = hcl.DiagWarning
		}
		out = append(out, diag)
	}
	hcltext.Sort(out)
	return out
}

func detailOf(plugin string, d *pluginv1.Diagnostic) string {
	return strings.TrimSpace(d.GetDetail() + fmt.Sprintf(" (reported by plugin %q)", plugin))
}

func oneLine(text string) string {
	if text = strings.Join(strings.Fields(text), " "); text == "" {
		return "Invalid setting"
	}
	return text
}

// PathString writes a path as cluster.Problem has it: zones[1], limits["cpu"], rule[0].weight.
func PathString(path []*pluginv1.PathStep) string {
	var out string
	for _, step := range path {
		switch s := step.GetStep().(type) {
		case *pluginv1.PathStep_Attribute:
			out = hcltext.Dotted(out, s.Attribute)
		case *pluginv1.PathStep_Key:
			out = hcltext.Keyed(out, s.Key)
		case *pluginv1.PathStep_Index:
			out = fmt.Sprintf("%s[%d]", out, s.Index)
		}
	}
	return out
}

// recordBody records where everything in a body stands that the schema knows.
func recordBody(places *hcltext.Decoder, body hcl.Body, s *pluginv1.Schema, path string, depth int) {
	places.Record(path, body.MissingItemRange())
	if depth > maxSchemaDepth {
		return
	}
	var known hcl.BodySchema
	nested := make(map[string]*pluginv1.Schema)
	for _, a := range s.GetAttributes() {
		known.Attributes = append(known.Attributes, hcl.AttributeSchema{Name: a.GetName()})
	}
	for _, b := range s.GetBlocks() {
		known.Blocks = append(known.Blocks, hcl.BlockHeaderSchema{Type: b.GetName()})
		nested[b.GetName()] = b.GetBlock()
	}
	content, _, _ := body.PartialContent(&known) // what is wrong with the body was said when it was decoded
	if content == nil {
		return
	}
	for name, a := range content.Attributes {
		places.RecordExpr(hcltext.Dotted(path, name), a.Expr)
	}
	counts := make(map[string]int)
	for _, b := range content.Blocks {
		at := fmt.Sprintf("%s[%d]", hcltext.Dotted(path, b.Type), counts[b.Type])
		counts[b.Type]++
		places.Record(at, b.DefRange)
		recordBody(places, b.Body, nested[b.Type], at, depth+1)
	}
}
