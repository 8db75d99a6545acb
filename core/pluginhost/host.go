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

// Host runs the plugins of a configuration, which may change while it runs.
type Host struct {
	cfg   Config
	added chan *supervisor // to be run
	over  chan struct{}    // closed when Run ends

	changing sync.Mutex // held while the set of plugins changes

	mu          sync.RWMutex // guards what follows; held for moments only, because the engine waits for it
	supervisors map[string]*supervisor
	order       []string // as configured; what was added later comes last
}

// New returns a host that runs nothing yet. It panics if two plugins have one name, which the configuration refuses.
func New(cfg Config) *Host {
	h := &Host{cfg: cfg.withDefaults(), added: make(chan *supervisor), over: make(chan struct{}), supervisors: make(map[string]*supervisor, len(cfg.Plugins))}
	for _, p := range cfg.Plugins {
		if h.supervisors[p.Name] != nil {
			panic(fmt.Sprintf("plugin %q is configured twice", p.Name))
		}
		h.supervisors[p.Name] = newSupervisor(&h.cfg, p)
		h.order = append(h.order, p.Name)
	}
	return h
}

// supervisor returns the one of a plugin, or nil.
func (h *Host) supervisor(name string) *supervisor {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.supervisors[name]
}

// all returns the supervisors in order.
func (h *Host) all() []*supervisor {
	h.mu.RLock()
	defer h.mu.RUnlock()
	out := make([]*supervisor, len(h.order))
	for i, name := range h.order {
		out[i] = h.supervisors[name]
	}
	return out
}

// Run starts all plugins and keeps them running until ctx ends; then it asks them to end, and kills those that do not, which takes 5 s at most unless a
// process hangs in the kernel. A plugin's failure is told to the engine and is no error of Run's; that the engine takes nothing any more is one.
func (h *Host) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer close(h.over)
	var all sync.WaitGroup
	var mu sync.Mutex // guards errs
	var errs []error
	begin := func(s *supervisor) {
		all.Go(func() {
			if err := s.run(ctx); err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
				cancel() // an engine that takes nothing takes nothing from anybody
			}
		})
	}
	for _, s := range h.all() {
		begin(s)
	}
	if h.cfg.AttachDir != "" {
		files := attachments{host: h, dir: h.cfg.AttachDir, seen: map[string]request{}}
		all.Go(func() { files.follow(ctx) })
	}
	for running := true; running; {
		select {
		case s := <-h.added:
			begin(s)
		case <-ctx.Done():
			running = false
		}
	}
	all.Wait()
	return errors.Join(errs...)
}

// Update takes what a plugin is to be told. It does not block; the engine's goroutine calls it. What is for a plugin or session that is not there is dropped.
func (h *Host) Update(u engine.PluginUpdate) {
	if s := h.supervisor(u.Plugin); s != nil {
		s.outbox.merge(u)
	}
}

// Restart ends a plugin's process and starts it again at once, forgetting earlier failures; it does not wait for that. It fails with ErrUnknownPlugin.
func (h *Host) Restart(plugin string) error {
	s := h.supervisor(plugin)
	if s == nil {
		return fmt.Errorf("restart plugin %s: %w", plugin, ErrUnknownPlugin)
	}
	s.restart()
	return nil
}

// Names returns the names of the plugins as configured.
func (h *Host) Names() []string {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return slices.Clone(h.order)
}

// protocol is what this host speaks.
func protocol() runner.Protocol {
	return runner.Protocol{
		Handshake: sdk.Handshake(),
		Versions:  map[int]plugin.PluginSet{sdk.ProtocolVersion: {sdk.PluginKey: sdk.Client{}}},
	}
}
