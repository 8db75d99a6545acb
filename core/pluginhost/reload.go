package pluginhost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pluginhost/runner"
)

// Reloaded says what came of replacing a plugin's process by another.
type Reloaded struct {
	Before, After Process
	Comparison    Comparison // what the new one answered differently, before it took over
}

// Process is a plugin's process, or one that was.
type Process struct {
	Version string
	PID     int // 0: there was none
	Digest  string
}

func unknown(plugin string) error { return fmt.Errorf("plugin %s: %w", plugin, ErrUnknownPlugin) }

// Reload starts the plugin's executable, as it is on disk now, beside the process that serves, has it answer everything that it would be asked, and only then
// lets it take over; what was asked meanwhile is asked again. After an error nothing has changed, and the text says why. It fails with ErrUnknownPlugin.
func (h *Host) Reload(ctx context.Context, plugin string) (Reloaded, error) {
	s := h.supervisor(plugin)
	if s == nil {
		return Reloaded{}, unknown(plugin)
	}
	return s.reload(ctx, s.settings())
}

// reload lets a process with these settings take over.
func (s *supervisor) reload(ctx context.Context, p *Plugin) (Reloaded, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	ready, a, err := s.audition(ctx, p)
	if err == nil {
		err = a.worse()
		if err != nil {
			s.discard(ctx, ready)
		}
	}
	if err != nil {
		s.log.Warn("plugin not replaced", "error", err)
		return Reloaded{}, fmt.Errorf("replace plugin %s: %w; nothing has changed", s.name, err)
	}
	out := Reloaded{Before: s.process(), Comparison: a.compare()}
	out.Comparison.Serving, out.Comparison.Candidate = out.Before.Version, ready.instance.about.version
	if err := s.succeed(ctx, ready); err != nil {
		s.discard(ctx, ready)
		return Reloaded{}, fmt.Errorf("replace plugin %s: %w; nothing has changed", s.name, err)
	}
	s.note(func() { s.plugin = p })
	i := ready.instance
	out.After = Process{Version: i.about.version, PID: i.process.PID(), Digest: i.digest()}
	s.log.Info("plugin replaced", "version", out.After.Version, "pid", out.After.PID, "before", out.Before.Version, "differences", out.Comparison.Total)
	return out, nil
}

// audition starts a process, has it answer everything, and opens a conversation with it in which it can serve.
func (s *supervisor) audition(ctx context.Context, p *Plugin) (*opened, *answers, error) {
	first, err := s.open(ctx, p, func(*instance) {})
	if err != nil {
		return nil, nil, err
	}
	a, err := s.rehearse(ctx, first)
	if err != nil {
		s.discard(ctx, first)
		return nil, nil, err
	}
	ready, err := s.converse(ctx, first.instance)
	if err != nil {
		s.discard(ctx, first)
		return nil, nil, err
	}
	return ready, a, nil
}

// succeed lets a process serve from now on. The one that does is ended.
func (s *supervisor) succeed(ctx context.Context, ready *opened) error {
	select {
	case s.successor <- ready:
		return nil
	case <-s.ended:
		return errors.New("the plugin is not wanted any more")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// process returns what serves now.
func (s *supervisor) process() Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Process{PID: s.pid, Digest: s.digest}
	if s.about != nil {
		out.Version = s.about.version
	}
	return out
}

// Shadow starts a candidate beside the plugin, has it answer everything that the plugin would be asked now, and returns in what it differs from what the
// plugin has answered. Nobody acts upon the candidate's answers, and it is ended. It fails with ErrUnknownPlugin.
func (h *Host) Shadow(ctx context.Context, plugin string, candidate Candidate) (Comparison, error) {
	s := h.supervisor(plugin)
	if s == nil {
		return Comparison{}, unknown(plugin)
	}
	p := *s.settings()
	p.Command.Path, p.Command.SHA256 = candidate.Path, nil
	if candidate.Args != nil {
		p.Command.Args = candidate.Args
	}
	o, err := s.open(ctx, &p, func(*instance) {})
	if err != nil {
		return Comparison{}, fmt.Errorf("shadow plugin %s: %w", plugin, err)
	}
	defer s.discard(ctx, o)
	a, err := s.rehearse(ctx, o)
	if err != nil {
		return Comparison{}, fmt.Errorf("shadow plugin %s: %w", plugin, err)
	}
	out := a.compare()
	out.Serving, out.Candidate = s.process().Version, o.instance.about.version
	return out, nil
}

// Candidate is an executable that might serve a plugin.
type Candidate struct {
	Path string   // absolute
	Args []string // nil: those of the plugin
}

// Change is what came of one plugin when the configuration changed.
type Change struct {
	Plugin string
	What   string    // added, removed, changed or kept
	Why    []string  // what changed, such as "timeout"
	Done   *Reloaded // of one that was changed
	Err    error     // the change was refused; what ran before still runs
}

// What becomes of a plugin.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
)

// Apply makes plugins the configuration: new ones are started, those that are missing are ended, and those that changed, or whose executable did, are
// replaced as by Reload. What cannot answer changes nothing and says why. It returns what it did or refused, in the order of the plugins.
func (h *Host) Apply(ctx context.Context, plugins []Plugin) []Change {
	h.changing.Lock()
	defer h.changing.Unlock()
	var out []Change
	wanted := map[string]bool{}
	for i := range plugins {
		p := &plugins[i]
		wanted[p.Name] = true
		s := h.supervisor(p.Name)
		if s == nil {
			out = append(out, Change{Plugin: p.Name, What: Added, Err: h.add(ctx, *p)})
			continue
		}
		settled := s.settle(*p)
		if why := s.changes(settled); len(why) > 0 {
			done, err := s.reload(ctx, settled)
			c := Change{Plugin: p.Name, What: Changed, Why: why, Err: err}
			if err == nil {
				c.Done = &done
			}
			out = append(out, c)
		}
	}
	for _, name := range h.Names() {
		if !wanted[name] {
			out = append(out, Change{Plugin: name, What: Removed, Err: h.remove(ctx, name)})
		}
	}
	return out
}

// add begins to run a plugin that has answered everything.
func (h *Host) add(ctx context.Context, p Plugin) error {
	s := newSupervisor(&h.cfg, p)
	ready, _, err := s.audition(ctx, s.settings())
	if err != nil {
		return fmt.Errorf("add plugin %s: %w; nothing has changed", p.Name, err)
	}
	s.next = ready
	h.mu.Lock()
	h.supervisors[p.Name] = s
	h.order = append(h.order, p.Name)
	h.mu.Unlock()
	select {
	case h.added <- s:
		return nil
	case <-h.over:
	case <-ctx.Done():
	}
	h.drop(p.Name)
	s.discard(ctx, ready)
	return fmt.Errorf("add plugin %s: the host ends", p.Name)
}

func (h *Host) drop(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.supervisors, name)
	h.order = slices.DeleteFunc(h.order, func(n string) bool { return n == name })
}

// remove ends a plugin for good.
func (h *Host) remove(ctx context.Context, name string) error {
	s := h.supervisor(name)
	s.changing.Lock()
	defer s.changing.Unlock()
	close(s.quit)
	select {
	case <-s.ended:
	case <-h.over: // all end
	}
	h.drop(name)
	if err := h.cfg.Engine.Send(ctx, engine.PluginGone{Name: name}); err != nil {
		return fmt.Errorf("remove plugin %s: %w", name, err)
	}
	return nil
}

// changes returns what would be different of the plugin with other settings: nothing if they are those that it runs with.
func (s *supervisor) changes(p *Plugin) []string {
	now := s.settings()
	var out []string
	differs := func(what string, yes bool) {
		if yes {
			out = append(out, what)
		}
	}
	a, b := &now.Command, &p.Command
	differs("path", a.Path != b.Path)
	differs("sha256", !bytes.Equal(a.SHA256, b.SHA256))
	differs("args", !slices.Equal(a.Args, b.Args))
	differs("env", !slices.Equal(slices.Sorted(slices.Values(a.Env)), slices.Sorted(slices.Values(b.Env))))
	differs("timeout", now.Timeout != p.Timeout)
	differs("handshake_timeout", now.StartTimeout != p.StartTimeout || a.HandshakeTimeout != b.HandshakeTimeout)
	differs("max_memory", a.Confine.Memory != b.Confine.Memory)
	differs("user", !reflect.DeepEqual(a.Confine.User, b.Confine.User))
	differs("sandbox", !a.Confine.Same(&b.Confine))
	differs("on_failure", now.FailureOpen != p.FailureOpen)
	s.mu.Lock()
	about, digest := s.about, s.digest
	s.mu.Unlock()
	if about != nil {
		before, _ := now.configText(about.config)
		after, _ := p.configText(about.config)
		differs("config", before != after)
	}
	if len(out) == 0 && digest != "" {
		onDisk, err := runner.DigestFile(p.Command.Path)
		differs("executable", err == nil && fmt.Sprintf("%x", onDisk) != digest)
	}
	return out
}
