package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/setpointd/setpoint/core/hcltext"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// CheckSettings checks what a job says to a plugin, as one JSON object, against the job schema that the plugin described (nil: jobs say nothing to it). It
// returns the settings as the plugin is to get them: keys sorted, values converted to their types, a block that may be repeated always a list. Defaults are
// left to the plugin. Paths of problems begin with plugin["NAME"]; with problems the text is "".
func CheckSettings(plugin, settings string, s *pluginv1.Schema) (string, []cluster.Problem) {
	c := &settingsChecker{}
	root := hcltext.Keyed("plugin", plugin)
	if len(settings) > cluster.MaxSettings {
		c.add(root, "Settings too large", fmt.Sprintf("They have %d bytes; the limit is %d.", len(settings), cluster.MaxSettings))
		return "", c.problems
	}
	read, err := readSchema(s)
	if err != nil {
		c.add(root, "The plugin describes its settings wrongly", capital(err.Error())+".")
		return "", c.problems
	}
	if len(read.names) == 0 {
		if strings.TrimSpace(settings) != "{}" {
			c.add(root, "Plugin without settings", fmt.Sprintf("Jobs cannot say anything to the plugin %q.", plugin))
			return "", c.problems
		}
		return "{}", nil
	}
	plain := c.object(root, json.RawMessage(settings), read)
	if len(c.problems) > 0 {
		return "", c.problems
	}
	text, err := hcltext.Encode(plain)
	if err != nil {
		c.add(root, "Settings cannot be passed on", capital(err.Error())+".")
		return "", c.problems
	}
	return text, nil
}

// PluginProblems returns what a plugin said about a job's settings, leaving out warnings.
func PluginProblems(plugin string, said []*pluginv1.Diagnostic) []cluster.Problem {
	var out []cluster.Problem
	for _, d := range said {
		if d.GetWarning() {
			continue
		}
		at := hcltext.Keyed("plugin", plugin)
		if path := PathString(d.GetPath()); strings.HasPrefix(path, "[") {
			at += path
		} else if path != "" {
			at = hcltext.Dotted(at, path)
		}
		out = append(out, cluster.Problem{Path: at, Summary: oneLine(d.GetSummary()), Detail: detailOf(plugin, d)})
	}
	return out
}

type settingsChecker struct{ problems []cluster.Problem }

func (c *settingsChecker) add(path, summary, detail string) {
	c.problems = append(c.problems, cluster.Problem{Path: path, Summary: summary, Detail: detail})
}

// object checks one block. It returns nil if it is none.
func (c *settingsChecker) object(at string, text json.RawMessage, s *schema) map[string]any {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(text, &given); err != nil || given == nil {
		c.add(at, "Not a block", "It must be a block, or a JSON object.")
		return nil
	}
	out := make(map[string]any, len(given))
	for _, name := range slices.Sorted(maps.Keys(given)) {
		here, value := hcltext.Dotted(at, name), given[name]
		if !hcltext.IsName(name) {
			here = hcltext.Keyed(at, name)
		}
		a, isAttribute := s.attributes[name]
		b, isBlock := s.blocks[name]
		switch {
		case !isAttribute && !isBlock:
			c.add(here, "Unknown setting", c.unknown(name, s))
		case string(value) == "null":
		case isAttribute:
			if converted, ok := c.attribute(here, value, a); ok {
				out[name] = converted
			}
		case b.repeated:
			out[name] = c.list(here, value, b.block)
		default:
			out[name] = c.object(here, single(value), b.block)
		}
	}
	for _, name := range s.names {
		a, isAttribute := s.attributes[name]
		if value := given[name]; isAttribute && a.required && a.unsaid == cty.NilVal && (value == nil || string(value) == "null") {
			c.add(at, "Missing setting", fmt.Sprintf("The attribute %q is required.", name))
		}
	}
	return out
}

func (c *settingsChecker) unknown(name string, s *schema) string {
	detail := fmt.Sprintf("The plugin has no setting %q.", name)
	if near := cluster.Suggest(name, s.names); near != "" {
		return fmt.Sprintf("%s Did you mean %q?", detail, near)
	}
	return detail
}

func (c *settingsChecker) attribute(at string, text json.RawMessage, a attribute) (any, bool) {
	value, err := valueOf(text, a.wanted)
	if err == nil {
		plain, plainErr := hcltext.Plain(value)
		if plainErr == nil {
			return plain, true
		}
		err = plainErr
	}
	var inside cty.PathError
	if errors.As(err, &inside) {
		at += valuePath(inside.Path)
	}
	c.add(at, "Wrong type of value", capital(err.Error())+".")
	return nil, false
}

// valuePath returns a path within a value.
func valuePath(path cty.Path) string {
	var out strings.Builder
	for _, step := range path {
		switch s := step.(type) {
		case cty.GetAttrStep:
			fmt.Fprintf(&out, "[%q]", s.Name)
		case cty.IndexStep:
			if s.Key.Type() == cty.String {
				fmt.Fprintf(&out, "[%q]", s.Key.AsString())
				continue
			}
			n, _ := s.Key.AsBigFloat().Int64()
			fmt.Fprintf(&out, "[%d]", n)
		}
	}
	return out.String()
}

// list checks a block that may be repeated: a list of objects, or one object alone.
func (c *settingsChecker) list(at string, text json.RawMessage, s *schema) []any {
	var items []json.RawMessage
	if err := json.Unmarshal(text, &items); err != nil {
		items = []json.RawMessage{text}
	}
	out := make([]any, 0, len(items))
	for i, item := range items {
		out = append(out, c.object(fmt.Sprintf("%s[%d]", at, i), item, s))
	}
	return out
}

// single takes a block out of a list of one.
func single(text json.RawMessage) json.RawMessage {
	var items []json.RawMessage
	if err := json.Unmarshal(text, &items); err == nil && len(items) == 1 {
		return items[0]
	}
	return text
}
