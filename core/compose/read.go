package compose

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/hashicorp/hcl/v2"

	"github.com/setpointd/setpoint/core/hcltext"
	"github.com/setpointd/setpoint/core/jobfile"
)

// Options say how a Compose file is read.
type Options struct {
	Stack    string            // begins the names of jobs and volumes; "": the file's own name, and without that nothing
	Dir      string            // what relative paths are relative to
	Env      map[string]string // for the file's variables; what stands in a .env in Dir counts where it says nothing
	Profiles []string          // that are active; "*": all
}

// File is a Compose file as jobs.
type File struct {
	*jobfile.File
	Losses []Loss // in the order of their places

	services map[*jobfile.Job]string // of which each job was made
}

// IsCompose reports whether a file is a Compose file, by its name or, of a file without a name that says so, by having a line "services:".
func IsCompose(filename string, src []byte) bool {
	switch filepath.Ext(filename) {
	case ".yml", ".yaml":
		return true
	case ".hcl", ".json":
		return false
	}
	return strings.HasPrefix(string(src), "services:") || strings.Contains(string(src), "\nservices:")
}

// Read reads a Compose file. Diagnostics say what is wrong with it, in the order of their places; only if they have no errors may the jobs be used, and only if
// the losses are acceptable. The file is never nil, so that it can write the diagnostics.
func Read(ctx context.Context, filename string, src []byte, opts Options) (*File, hcl.Diagnostics) {
	doc, diags := parseDocument(filename, src)
	r := &reader{
		doc: doc, dir: opts.Dir, opts: opts, services: make(map[*jobfile.Job]string),
		places: &places{main: doc, dir: opts.Dir, loaded: make(map[string]*document)},
	}
	var jobs []*jobfile.Job
	if !diags.HasErrors() {
		jobs, diags = r.read(ctx)
	}
	hcltext.Sort(diags)
	return &File{File: jobfile.New(r.places.files(), jobs), Losses: sortLosses(r.losses), services: r.services}, diags
}

// reader reads one file.
type reader struct {
	doc    *document
	dir    string
	opts   Options
	env    map[string]string
	places *places
	losses []Loss

	services map[*jobfile.Job]string
}

func (r *reader) read(ctx context.Context) ([]*jobfile.Job, hcl.Diagnostics) {
	if diags := r.environment(); diags.HasErrors() {
		return nil, diags
	}
	loaded, diags := r.load(ctx)
	if diags.HasErrors() {
		return nil, diags
	}
	r.unset(r.doc.root, make(map[string]bool))
	r.top(loaded)
	var jobs []*jobfile.Job
	taken := make(map[string]string)
	for _, name := range sortedKeys(loaded.project.Services) {
		c := r.conversion(loaded, loaded.project.Services[name])
		job := c.job()
		diags = append(diags, c.Diags...)
		r.losses = append(r.losses, c.losses...)
		if other, twice := taken[job.Spec.Name]; twice {
			diags = append(diags, hcltext.Error(c.at(), "Two services with one name", fmt.Sprintf("As jobs, %q and %q would both be called %q.", other, name, job.Spec.Name)))
		}
		taken[job.Spec.Name], r.services[job] = name, name
		jobs = append(jobs, job)
	}
	slices.SortStableFunc(jobs, func(a, b *jobfile.Job) int { return a.Ranges["name"].Start.Byte - b.Ranges["name"].Start.Byte })
	if len(jobs) == 0 && !diags.HasErrors() {
		diags = append(diags, hcltext.Error(r.places.of("services"), "No service in the file", "A Compose file has at least one service that is not in an inactive profile."))
	}
	return jobs, diags
}

func (r *reader) conversion(l *loaded, s types.ServiceConfig) *conversion {
	services, _ := l.model["services"].(map[string]any)
	model, _ := services[s.Name].(map[string]any)
	return &conversion{name: s.Name, service: s, model: model, loaded: l, places: r.places}
}

// top tells what is lost of what stands beside the services.
func (r *reader) top(l *loaded) {
	lose := func(hint bool, why string, steps ...string) {
		r.losses = append(r.losses, Loss{At: r.places.of(steps...), Key: strings.Join(steps, "."), Why: why, Hint: hint})
	}
	for _, name := range sortedKeys(l.project.DisabledServices) {
		s := l.project.DisabledServices[name]
		lose(true, fmt.Sprintf("left out, since no profile of it is active (%s)", strings.Join(s.Profiles, ", ")), "services", name)
	}
	if together := r.together(l); together {
		lose(true, "they do not find each other by name, as they would on a network of their own", "services")
	}
	for _, name := range sortedKeys(l.project.Volumes) {
		v := l.project.Volumes[name]
		if v.Driver != "" && v.Driver != "local" {
			lose(false, "volumes are the engine's own, on each node", "volumes", name, "driver")
		}
		if len(v.DriverOpts) > 0 {
			lose(false, "volumes are the engine's own, on each node, with its defaults", "volumes", name, "driver_opts")
		}
		if len(v.Labels) > 0 {
			lose(true, "volumes have no labels", "volumes", name, "labels")
		}
	}
	for _, key := range sortedKeys(l.model) {
		switch key {
		case "name", "version", "services", "networks", "volumes", "secrets", "configs", "include": // said where services use them
		default:
			if !strings.HasPrefix(key, "x-") && key != "#extensions" && !saysNothing(l.model[key]) {
				lose(false, "Setpoint has nothing like it", key)
			}
		}
	}
}

// together reports whether services are on a network of their own that the file does not speak of.
func (r *reader) together(l *loaded) bool {
	n := 0
	for _, s := range l.project.Services {
		if s.NetworkMode == "" && len(s.Networks) == 0 {
			n++
		}
	}
	return n > 1
}
