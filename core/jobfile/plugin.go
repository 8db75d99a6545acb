package jobfile

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/setpointd/setpoint/core/hcltext"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// constraintPlugin is the plugin for which a job has a short form: constraints = […].
const constraintPlugin = "constraint"

// plugin reads what a job says to a plugin. Only the plugin knows what may stand there, so anything goes here; the server checks it at submit.
func (d *draft) plugin(b hcltext.Block) {
	settings := d.free(b.Body, b.Path)
	if d.plugins == nil {
		d.plugins = make(map[string]map[string]any)
	}
	d.plugins[b.Label] = settings
}

// free reads a body without a schema. A nested block becomes an object, several of one type a list of objects, and a label a key in between, as in HCL's
// JSON form.
func (d *draft) free(body hcl.Body, path string) map[string]any {
	out := make(map[string]any)
	native, ok := body.(*hclsyntax.Body)
	if !ok {
		attributes, diags := body.JustAttributes()
		d.Diags = append(d.Diags, diags...)
		d.freeAttributes(out, attributes, path)
		return out
	}
	attributes := make(hcl.Attributes, len(native.Attributes))
	for name, a := range native.Attributes {
		attributes[name] = a.AsHCLAttribute()
	}
	d.freeAttributes(out, attributes, path)
	d.freeBlocks(out, native.Blocks, path)
	return out
}

func (d *draft) freeAttributes(out map[string]any, attributes hcl.Attributes, path string) {
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		expr := attributes[name].Expr
		at := hcltext.Keyed(path, name)
		d.RecordExpr(at, expr)
		value, ok := d.Evaluate(at, expr)
		if !ok {
			continue
		}
		plain, err := hcltext.Plain(value)
		if err != nil {
			d.Fail(at, expr.Range(), "Value cannot be passed on", fmt.Sprintf("The plugin cannot be given it: %s.", err))
			continue
		}
		out[name] = plain
	}
}

func (d *draft) freeBlocks(out map[string]any, blocks hclsyntax.Blocks, path string) {
	counts := make(map[string]int)
	for _, b := range blocks {
		key, at, into := b.Type, hcltext.Keyed(path, b.Type), out
		for _, label := range b.Labels {
			inner, ok := into[key].(map[string]any)
			if !ok {
				inner = make(map[string]any)
				into[key] = inner
			}
			into, key, at = inner, label, hcltext.Keyed(at, label)
		}
		counts[at]++
		at = fmt.Sprintf("%s[%d]", at, counts[at]-1)
		d.Record(at, b.DefRange())
		settings := d.free(b.Body, at)
		switch earlier := into[key].(type) {
		case nil:
			into[key] = settings
		case map[string]any:
			into[key] = []any{earlier, settings}
		case []any:
			into[key] = append(earlier, settings)
		default:
			d.Fail(at, b.DefRange(), "Both an attribute and a block", fmt.Sprintf("%q is given as an attribute already.", b.Type))
		}
	}
}

// finishPlugins joins the short form of constraints with the block of the constraint plugin, and says all settings.
func (d *draft) finishPlugins() {
	if d.short.Expr != nil {
		d.constraints(d.short)
	}
	var settings []cluster.PluginSettings
	for _, name := range slices.Sorted(maps.Keys(d.plugins)) {
		text, err := hcltext.Encode(d.plugins[name])
		if err != nil {
			at, _ := d.Ranges.Find(hcltext.Keyed("plugin", name))
			d.Fail(hcltext.Keyed("plugin", name), at, "Settings cannot be passed on", err.Error())
			continue
		}
		settings = append(settings, cluster.PluginSettings{Plugin: name, JSON: text})
	}
	d.say(func(s *cluster.JobSpec) { s.Plugins = settings })
}

func (d *draft) constraints(v hcltext.Value) {
	list, ok := hcltext.Strings(v)
	if !ok {
		return
	}
	block := hcltext.Keyed("plugin", constraintPlugin)
	settings := d.plugins[constraintPlugin]
	if _, twice := settings["constraints"]; twice {
		v.Fail("Constraints given twice", fmt.Sprintf("The block plugin %q has constraints as well; write them in one place.", constraintPlugin))
		return
	}
	if len(list) == 0 {
		return
	}
	if d.plugins == nil {
		d.plugins = make(map[string]map[string]any)
	}
	if settings == nil {
		settings = make(map[string]any)
		d.plugins[constraintPlugin] = settings
	}
	items := make([]any, len(list))
	for i, c := range list {
		items[i] = c
	}
	settings["constraints"] = items
	d.RecordExpr(hcltext.Dotted(block, "constraints"), v.Expr)
}
