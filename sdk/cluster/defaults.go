package cluster

import (
	"cmp"
	"slices"
	"time"
)

// The values that a job has where its user said nothing.
const (
	DefaultCount            = 1
	DefaultPriority         = 50
	DefaultHistoryLimit     = 5
	DefaultParallelism      = 1
	DefaultHealthRetries    = 3
	DefaultDriver           = DriverProcess
	DefaultStopSignal       = "TERM"
	DefaultStopGrace        = 10 * time.Second
	DefaultMonitor          = 5 * time.Second
	DefaultProgressDeadline = 10 * time.Minute
	DefaultRestartDelay     = time.Second
	DefaultRestartMaxDelay  = time.Minute
	DefaultRestartWindow    = 10 * time.Minute
	DefaultHealthInterval   = 10 * time.Second
	DefaultHealthTimeout    = 5 * time.Second
	DefaultUnavailable      = 25 // percent
	DefaultSecretMode       = 0o400
)

// The drivers that agents bring along.
const (
	DriverProcess = "process"
	DriverDocker  = "docker"
	DriverSim     = "sim"
)

// WithDefaults returns the job with a default for each field that is zero, and its plugin settings sorted by name. The job itself is not changed.
//
// Zero is taken as "nothing was said". A language that can tell `count = 0` from no count at all sets what was said once more on the result. It must not be
// used on a job that has its defaults already.
func (s JobSpec) WithDefaults() JobSpec {
	s.Type = cmp.Or(s.Type, TypeReplicated)
	if s.Numbered() {
		s.Count = cmp.Or(s.Count, DefaultCount)
	}
	s.Priority = cmp.Or(s.Priority, DefaultPriority)
	s.MaxUnavailable = cmp.Or(s.MaxUnavailable, Amount{Percent: DefaultUnavailable})
	s.OnDrift = cmp.Or(s.OnDrift, DriftMove)
	s.OnLost = cmp.Or(s.OnLost, LostReplace)
	s.OnDrain = cmp.Or(s.OnDrain, s.defaultOnDrain())
	s.HistoryLimit = cmp.Or(s.HistoryLimit, DefaultHistoryLimit)
	s.Plugins = slices.Clone(s.Plugins)
	slices.SortStableFunc(s.Plugins, func(a, b PluginSettings) int { return cmp.Compare(a.Plugin, b.Plugin) })
	s.Task = s.Task.withDefaults()
	s.Update = s.Update.withDefaults()
	s.Restart = s.Restart.withDefaults(s.Ends())
	return s
}

func (s *JobSpec) defaultOnDrain() OnDrain {
	if s.Type == TypeGlobal || s.Type == TypeGlobalBatch {
		return DrainLast
	}
	return DrainFirst
}

func (t TaskSpec) withDefaults() TaskSpec {
	t.Driver = cmp.Or(t.Driver, DefaultDriver)
	t.Stop.Signal = cmp.Or(t.Stop.Signal, DefaultStopSignal)
	t.Stop.Grace = cmp.Or(t.Stop.Grace, DefaultStopGrace)
	t.Secrets = slices.Clone(t.Secrets)
	for i := range t.Secrets {
		s := &t.Secrets[i]
		s.Target, s.Mode = cmp.Or(s.Target, s.Name), cmp.Or(s.Mode, DefaultSecretMode)
	}
	if t.Health != nil {
		h := *t.Health
		h.Interval = cmp.Or(h.Interval, DefaultHealthInterval)
		h.Timeout = cmp.Or(h.Timeout, DefaultHealthTimeout)
		h.Retries = cmp.Or(h.Retries, DefaultHealthRetries)
		t.Health = &h
	}
	return t
}

func (u UpdateSpec) withDefaults() UpdateSpec {
	u.Parallelism = cmp.Or(u.Parallelism, DefaultParallelism)
	u.Order = cmp.Or(u.Order, StopFirst)
	u.Monitor = cmp.Or(u.Monitor, DefaultMonitor)
	u.OnFailure = cmp.Or(u.OnFailure, FailurePause)
	u.ProgressDeadline = cmp.Or(u.ProgressDeadline, DefaultProgressDeadline)
	return u
}

func (r RestartSpec) withDefaults(ends bool) RestartSpec {
	condition := RestartAny
	if ends {
		condition = RestartOnFailure
	}
	r.Condition = cmp.Or(r.Condition, condition)
	r.Delay = cmp.Or(r.Delay, DefaultRestartDelay)
	r.MaxDelay = cmp.Or(r.MaxDelay, max(r.Delay, DefaultRestartMaxDelay))
	if !ends { // what ends by itself has its attempts once
		r.Window = cmp.Or(r.Window, DefaultRestartWindow)
	}
	return r
}
