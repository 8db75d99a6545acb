package daemon

import (
	"strconv"
	"strings"

	"github.com/setpointd/setpoint/core/config"
	"github.com/setpointd/setpoint/core/pluginhost"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// checkSettings checks what a job says to a plugin against the schema that the plugin described, for while the plugin itself cannot be asked.
func checkSettings(schema *pluginv1.Schema, settings string) []pluginhost.Diagnostic {
	const plugin = "it"
	var out []pluginhost.Diagnostic
	_, problems := config.CheckSettings(plugin, settings, schema)
	for _, p := range problems {
		path := strings.TrimPrefix(p.Path, "plugin["+strconv.Quote(plugin)+"]")
		out = append(out, pluginhost.Diagnostic{Summary: p.Summary, Detail: p.Detail, Path: pathSteps(path)})
	}
	return out
}

// pathSteps reads a path as problems write it, such as .limits["gpu"][2].name. What cannot be read ends it: the place before is pointed at.
func pathSteps(path string) []*pluginv1.PathStep {
	var out []*pluginv1.PathStep
	for path != "" {
		switch {
		case strings.HasPrefix(path, "["):
			inner, rest, ok := bracketed(path[1:])
			if !ok {
				return out
			}
			path = rest
			if key, err := strconv.Unquote(inner); err == nil {
				out = append(out, &pluginv1.PathStep{Step: &pluginv1.PathStep_Key{Key: key}})
				continue
			}
			index, err := strconv.ParseInt(inner, 10, 64)
			if err != nil {
				return out
			}
			out = append(out, &pluginv1.PathStep{Step: &pluginv1.PathStep_Index{Index: index}})
		default:
			path = strings.TrimPrefix(path, ".")
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			if end == 0 {
				return out
			}
			out = append(out, &pluginv1.PathStep{Step: &pluginv1.PathStep_Attribute{Attribute: path[:end]}})
			path = path[end:]
		}
	}
	return out
}

// bracketed splits text at the bracket that closes it, which is behind a quoted text if there is one.
func bracketed(text string) (inner, rest string, ok bool) {
	if quoted, err := strconv.QuotedPrefix(text); err == nil {
		rest, ok = strings.CutPrefix(text[len(quoted):], "]")
		return quoted, rest, ok
	}
	return strings.Cut(text, "]")
}
