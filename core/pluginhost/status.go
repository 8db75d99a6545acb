package pluginhost

import (
	"slices"
	"time"
)

// Status is how a plugin is, for people.
type Status struct {
	Name       string
	Version    string // the plugin's own; "" until it described itself
	State      State
	Since      time.Time // when the state began
	PID        int       // 0: no process
	Restarts   int       // failures so far, each followed by a start
	LastError  string    // why it does not serve; "" while it does
	NextTry    time.Time // zero: none ahead
	Path       string    // of the executable
	Digest     string    // sha256 of the executable in hex
	SDK        string
	Protocol   int // version negotiated
	Interfaces []string
	JobTypes   []string
	Classes    int // that it answers for
	Jobs       int // that it answers for
	Latency    Latency
	Attached   string // socket of the process that somebody else has started and that serves now; "" if none
}

// Latency is how long the plugin took to answer for changed nodes, lately, and how often and how long it did since its process began to serve.
type Latency struct {
	Samples            int // of which the percentiles are made
	P50, P90, P99, Max time.Duration
	Answers            uint64
	Taken              time.Duration // by all answers
}

// Status returns how all plugins are, in the order of the configuration.
func (h *Host) Status() []Status {
	var out []Status
	for _, s := range h.all() {
		out = append(out, s.status())
	}
	return out
}

func (s *supervisor) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Status{
		Name: s.name, PID: s.pid, Restarts: s.restarts.Failures(), LastError: s.lastError.text, NextTry: s.restarts.Next(), Path: s.plugin.Command.Path,
		Digest: s.digest, Protocol: s.protocol, Classes: int(s.stats.classes.Load()), Jobs: int(s.stats.jobs.Load()), Latency: s.stats.latency(),
	}
	out.State, out.Since = s.restarts.State()
	if s.serving != nil {
		out.LastError, out.Attached = "", s.serving.attachedTo()
	}
	if s.about != nil {
		out.Version, out.SDK = s.about.version, s.about.sdk
		out.Interfaces, out.JobTypes = slices.Clone(s.about.interfaces), slices.Clone(s.about.jobTypes)
	}
	return out
}

func (s *stats) latency() Latency {
	s.mu.Lock()
	all, answers, taken := slices.Clone(s.last), s.answers, s.taken
	s.mu.Unlock()
	if len(all) == 0 {
		return Latency{}
	}
	slices.Sort(all)
	at := func(percent int) time.Duration { return all[min(len(all)-1, len(all)*percent/100)] }
	return Latency{Samples: len(all), P50: at(50), P90: at(90), P99: at(99), Max: all[len(all)-1], Answers: answers, Taken: taken}
}
