package pluginhost

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// CheckJob returns what is wrong with what a job says to plugins: each plugin is asked about its part, and a plugin that is not configured is a mistake. Where
// a plugin cannot be asked now, its part is checked against the schema that it described last, and accepted if there is none. Warnings are left out.
func (h *Host) CheckJob(ctx context.Context, spec *cluster.JobSpec) []cluster.Problem {
	found := make([][]cluster.Problem, len(spec.Plugins))
	var asked sync.WaitGroup
	for i, settings := range spec.Plugins {
		s := h.supervisor(settings.Plugin)
		if s == nil {
			found[i] = []cluster.Problem{h.unknown(settings.Plugin)}
			continue
		}
		asked.Go(func() { found[i] = s.checkJob(ctx, spec, settings.JSON) })
	}
	asked.Wait()
	var out []cluster.Problem
	for _, f := range found {
		out = append(out, f...)
	}
	return out
}

func block(plugin string) string { return fmt.Sprintf("plugin[%q]", plugin) }

func (h *Host) unknown(name string) cluster.Problem {
	names := h.Names()
	detail := "Configured are: " + strings.Join(names, ", ") + "."
	if len(names) == 0 {
		detail = "No plugin is configured."
	}
	if near := cluster.Suggest(name, names); near != "" {
		detail = fmt.Sprintf("Did you mean %q? %s", near, detail)
	}
	return cluster.Problem{Path: block(name), Summary: "Unknown plugin", Detail: detail}
}

func (s *supervisor) checkJob(ctx context.Context, spec *cluster.JobSpec, settings string) []cluster.Problem {
	serving, schema := s.current()
	if serving != nil {
		ctx, cancel := context.WithTimeout(ctx, serving.plugin.Timeout)
		defer cancel()
		resp, err := serving.client.Validate(ctx, &pluginv1.ValidateRequest{
			What: &pluginv1.ValidateRequest_JobJson{JobJson: settings},
			Job:  &pluginv1.CompileRequest{JobType: spec.Type, Labels: spec.Labels, SettingsJson: settings},
		}, limited())
		if err == nil {
			return s.problems(resp.Diagnostics)
		}
		s.log.Warn("plugin cannot check a job", "job", spec.Name, "error", err)
	}
	if schema == nil || s.cfg.CheckSettings == nil {
		return nil
	}
	var out []cluster.Problem
	for _, d := range errorsOf(s.cfg.CheckSettings(schema, settings)) {
		out = append(out, cluster.Problem{Path: pathText(block(s.name), d.Path), Summary: d.Summary, Detail: d.Detail})
	}
	return out
}

func (s *supervisor) problems(from []*pluginv1.Diagnostic) []cluster.Problem {
	var out []cluster.Problem
	for _, d := range from[:min(len(from), maxDiagnostics)] {
		if !d.GetWarning() {
			out = append(out, cluster.Problem{Path: pathText(block(s.name), d.GetPath()), Summary: clean(d.GetSummary()), Detail: clean(d.GetDetail())})
		}
	}
	return out
}

// Validation is what there is to say about one plugin's configuration.
type Validation struct {
	Plugin      string
	Version     string // "" if the plugin could not be started
	Diagnostics []Diagnostic
	Err         error // the plugin could not be asked
}

// OK reports whether the plugin would take up its configuration.
func (v Validation) OK() bool { return v.Err == nil && len(errorsOf(v.Diagnostics)) == 0 }

// ValidateConfigs starts each plugin, asks it about its configuration without having it taken up, and ends it; in the order of the configuration. It needs no
// Run and disturbs none.
func (h *Host) ValidateConfigs(ctx context.Context) []Validation {
	all := h.all()
	out := make([]Validation, len(all))
	served := make(map[string][]int) // by job type
	for i, s := range all {
		var types []string
		out[i], types = s.validate(ctx)
		for _, t := range types {
			served[t] = append(served[t], i)
		}
	}
	for _, t := range sortedKeys(served) {
		warnTaken(t, served[t], out)
	}
	return out
}

// warnTaken warns of a job type that several plugins serve.
func warnTaken(jobType string, by []int, out []Validation) {
	first := slices.MinFunc(by, func(i, j int) int { return strings.Compare(out[i].Plugin, out[j].Plugin) })
	for _, i := range by {
		if i != first {
			out[i].Diagnostics = append(out[i].Diagnostics, Diagnostic{
				Warning: true, Summary: fmt.Sprintf("Job type %q is served twice", jobType),
				Detail: fmt.Sprintf("Plugin %s serves it too, and is asked about such jobs because its name comes first.", out[first].Plugin),
			})
		}
	}
}

// validate also returns the job types that the plugin serves.
func (s *supervisor) validate(ctx context.Context) (out Validation, types []string) {
	out.Plugin = s.name
	i, err := start(ctx, s.cfg, s.settings())
	if err != nil {
		out.Err = err
		return out, nil
	}
	defer func() { _ = i.stop(ctx) }()
	out.Version, types = i.about.version, i.about.jobTypes
	text, diags := i.config()
	out.Diagnostics = diags
	ctx, cancel := context.WithTimeout(ctx, i.plugin.StartTimeout)
	defer cancel()
	resp, err := i.client.Validate(ctx, &pluginv1.ValidateRequest{What: &pluginv1.ValidateRequest_ConfigJson{ConfigJson: text}}, limited())
	if err != nil {
		out.Err = i.why(callFailure("validate", err))
		return out, types
	}
	said := i.plugin.diagnosticsOf(resp.Diagnostics)
	if len(errorsOf(diags)) > 0 {
		said = besides(said, text, diags)
	}
	out.Diagnostics = append(out.Diagnostics, said...)
	return out, types
}

// besides returns what a plugin said of settings of which it was given only those that fit its schema: that something is missing, or wrong as a whole, may
// come of what was left out.
func besides(said []Diagnostic, given string, schema []Diagnostic) []Diagnostic {
	var settings map[string]any
	if err := json.Unmarshal([]byte(given), &settings); err != nil {
		return nil
	}
	return slices.DeleteFunc(said, func(d Diagnostic) bool {
		if len(d.Path) == 0 || settings[d.Path[0].GetAttribute()] == nil {
			return true
		}
		return d.Where != "" && slices.ContainsFunc(schema, func(s Diagnostic) bool { return s.Where == d.Where })
	})
}
