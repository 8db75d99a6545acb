package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/hashicorp/go-plugin"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pluginhost/runner"
	"github.com/setpointd/setpoint/sdk"
)

// Host runs the plugins of a configuration.
type Host struct {
	cfg         Config
	supervisors map[string]*supervisor // by name; never changed
	order       []string               // as configured
}

// New returns a host that runs nothing yet. It panics if two plugins have one name, which the configuration refuses.
func New(cfg Config) *Host {
	h := &Host{cfg: cfg.withDefaults(), supervisors: make(map[string]*supervisor, len(cfg.Plugins))}
	for _, p := range cfg.Plugins {
		if h.supervisors[p.Name] != nil {
			panic(fmt.Sprintf("plugin %q is configured twice", p.Name))
		}
		h.supervisors[p.Name] = newSupervisor(&h.cfg, p.withDefaults())
		h.order = append(h.order, p.Name)
	}
	return h
}

// Run starts all plugins and keeps them running until ctx ends; then it asks them to end, and kills those that do not, which takes 5 s at most unless a
// process hangs in the kernel. A plugin's failure is told to the engine and is no error of Run's; that the engine takes nothing any more is one.
func (h *Host) Run(ctx context.Context) error {
	var all sync.WaitGroup
	errs := make([]error, len(h.order))
	for i, name := range h.order {
		all.Go(func() { errs[i] = h.supervisors[name].run(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// Update takes what a plugin is to be told. It does not block; the engine's goroutine calls it. What is for a plugin or session that is not there is dropped.
func (h *Host) Update(u engine.PluginUpdate) {
	if s := h.supervisors[u.Plugin]; s != nil {
		s.outbox.merge(u)
	}
}

// Restart ends a plugin's process and starts it again at once, forgetting earlier failures; it does not wait for that. It fails with ErrUnknownPlugin.
func (h *Host) Restart(plugin string) error {
	s := h.supervisors[plugin]
	if s == nil {
		return fmt.Errorf("restart plugin %s: %w", plugin, ErrUnknownPlugin)
	}
	s.restart()
	return nil
}

// Names returns the names of the plugins as configured.
func (h *Host) Names() []string { return slices.Clone(h.order) }

// protocol is what this host speaks.
func protocol() runner.Protocol {
	return runner.Protocol{
		Handshake: sdk.Handshake(),
		Versions:  map[int]plugin.PluginSet{sdk.ProtocolVersion: {sdk.PluginKey: sdk.Client{}}},
	}
}
