package daemon

import (
	"context"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/core/config"
)

// reconfigure reads the configuration again whenever it is asked to, until the context ends.
func (s *Server) reconfigure(ctx context.Context) error {
	log := s.opts.Log.Named("config")
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.opts.Reconfigure:
		}
		cfg, err := s.opts.Reread()
		if err != nil {
			log.Error("configuration not taken up, nothing changes", "error", err)
			continue
		}
		s.takeUp(ctx, cfg, log)
	}
}

// takeUp makes what can change while the server runs as the configuration says: plugins, secrets, and the level of the log.
func (s *Server) takeUp(ctx context.Context, cfg *config.Config, log hclog.Logger) {
	before := s.opts.Config
	if level := hclog.LevelFromString(cfg.Log.Level); level != hclog.NoLevel {
		s.opts.Log.SetLevel(level)
	}
	takeSecrets(s.secrets, cfg, s.opts.Log.Named("secrets"))
	if need := config.Changes(before, cfg); len(need) > 0 {
		log.Warn("settings that changed need a restart of the server", "settings", need)
	}
	refused := 0
	for _, c := range s.host.Apply(ctx, hostPlugins(cfg)) {
		pairs := []any{"plugin", c.Plugin, "change", c.What}
		if len(c.Why) > 0 {
			pairs = append(pairs, "settings", c.Why)
		}
		if c.Err != nil {
			refused++
			log.Error("plugin not changed", append(pairs, "error", c.Err)...)
			continue
		}
		log.Info("plugin changed", pairs...)
	}
	log.Info("configuration read again", "refused", refused)
}
