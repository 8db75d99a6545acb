package daemon

import (
	"time"

	"github.com/setpointd/setpoint/core/metrics"
	"github.com/setpointd/setpoint/core/pluginhost"
	"github.com/setpointd/setpoint/core/store"
)

// newMetrics returns metrics that look at the server's parts.
func (s *Server) newMetrics() *metrics.Metrics {
	return metrics.New(metrics.Sources{
		Version: s.opts.Version, View: s.View, Queue: s.engine.Waiting, Sessions: s.dispatcher.Sessions,
		Plugins: func() []metrics.Plugin { return measured(s.host.Status()) },
		Sinks:   func() []metrics.Sink { return measuredSinks(s.notifier.Statuses()) },
		Spans:   s.measuredSpans,
		Store: func() metrics.Store {
			out := metrics.Store{Full: s.commits.full.Load()}
			if b, ok := s.backend.(interface{ Stats() store.Stats }); ok {
				out.Size = b.Stats().FileBytes
			}
			return out
		},
	})
}

func measured(all []pluginhost.Status) []metrics.Plugin {
	var out []metrics.Plugin
	for i := range all {
		p := &all[i]
		m := metrics.Plugin{
			Name: p.Name, Running: p.State == pluginhost.StateRunning, Restarts: p.Restarts, Classes: p.Classes, Jobs: p.Jobs,
			Answers: p.Latency.Answers, Taken: p.Latency.Taken,
		}
		if p.Latency.Samples > 0 {
			m.Latency = map[float64]time.Duration{0.5: p.Latency.P50, 0.9: p.Latency.P90, 0.99: p.Latency.P99}
		}
		out = append(out, m)
	}
	return out
}
