package sdk

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Plugin is everything that a plugin serves. At least one of Filter, Drainer and JobTypes is needed.
type Plugin struct {
	Name    string // lower-case letters, digits, - and _; begins with a letter
	Version string

	Filter   Filter
	Drainer  Drainer
	JobTypes map[string]JobType // by the type that jobs name

	// Config describes the config block of the plugin in the daemon's configuration; SchemaOf makes it from a struct.
	Config Schema
	// Job describes the plugin's block in a job.
	Job Schema
	// Watches are the node fields that answers depend on. Other fields are not sent, and a change of them asks nothing. A node's id, its name and whether it
	// was decommissioned are always seen.
	Watches []Watch
}

// Watch is a group of node fields.
type Watch string

// The groups of node fields.
const (
	WatchLabels       Watch = "labels"
	WatchAttributes   Watch = "attributes"
	WatchPlatform     Watch = "platform" // hostname, os, arch, addresses, drivers, version
	WatchCapacity     Watch = "capacity"
	WatchAvailability Watch = "availability"
	WatchState        Watch = "state"
)

// The names of the interfaces, as plugins describe themselves.
const (
	InterfaceFilter  = "filter"
	InterfaceDrainer = "drainer"
	InterfaceJobType = "job_type"
)

var (
	watches    = []Watch{WatchLabels, WatchAttributes, WatchPlatform, WatchCapacity, WatchAvailability, WatchState}
	pluginName = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)
	ownTypes   = []string{cluster.TypeReplicated, cluster.TypeBatch}
)

// validName reports whether a plugin or a job type may have a name: 63 characters at most.
func validName(name string) bool { return len(name) <= 63 && pluginName.MatchString(name) }

// check returns all that is wrong with the plugin's definition.
func (p *Plugin) check() error {
	var errs []error
	if !validName(p.Name) {
		errs = append(errs, fmt.Errorf("name %q: want at most 63 lower-case letters, digits, - and _, beginning with a letter", p.Name))
	}
	if p.Filter == nil && p.Drainer == nil && len(p.JobTypes) == 0 {
		errs = append(errs, errors.New("nothing is served: set Filter, Drainer or JobTypes"))
	}
	for _, name := range p.jobTypes() {
		if p.JobTypes[name] == nil || !validName(name) || slices.Contains(ownTypes, name) {
			errs = append(errs, fmt.Errorf("job type %q: it is nil, has a bad name, or is the core's own", name))
		}
	}
	for _, w := range p.Watches {
		if !slices.Contains(watches, w) {
			errs = append(errs, fmt.Errorf("watched field %q is unknown", w))
		}
	}
	errs = append(errs, p.Config.check("config"), p.Job.check("job"))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("plugin %q: %w", p.Name, err)
	}
	return nil
}

func (p *Plugin) jobTypes() []string { return slices.Sorted(maps.Keys(p.JobTypes)) }

func (p *Plugin) interfaces() []string {
	var out []string
	if p.Filter != nil {
		out = append(out, InterfaceFilter)
	}
	if p.Drainer != nil {
		out = append(out, InterfaceDrainer)
	}
	if len(p.JobTypes) > 0 {
		out = append(out, InterfaceJobType)
	}
	return out
}
