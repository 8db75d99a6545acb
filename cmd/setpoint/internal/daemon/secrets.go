package daemon

import (
	"fmt"
	"io"
	"os"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/core/config"
	"github.com/setpointd/setpoint/core/secret"
)

// configuredBy is who makes the versions of secrets that the configuration has.
const configuredBy = "configuration"

// takeSecrets makes a new version of each secret whose file says something else than its newest one. One whose file cannot be read keeps the versions that it has.
func takeSecrets(vault *secret.Vault, cfg *config.Config, log hclog.Logger) {
	names := make([]string, 0, len(cfg.Secrets))
	for _, s := range cfg.Secrets {
		names = append(names, s.Name)
	}
	if err := vault.Release(names); err != nil {
		log.Error("secrets that the configuration does not have any more stay its own", "error", err)
	}
	for _, s := range cfg.Secrets {
		value, err := readSecret(s.File)
		var info secret.Info
		changed := false
		if err == nil {
			info, changed, err = vault.Put(secret.Put{Name: s.Name, Value: value, By: configuredBy, Configured: true})
		}
		switch {
		case err != nil:
			log.Error("secret of the configuration not taken up", "secret", s.Name, "path", s.File, "error", err)
		case changed:
			log.Info("secret of the configuration has a new version", "secret", s.Name, "version", info.Newest().Number)
		}
	}
}

// readSecret reads a secret's file, and no more of it than a secret may have.
func readSecret(path string) (secret.Value, error) {
	f, err := os.Open(path)
	if err != nil {
		return secret.Value{}, fmt.Errorf("read secret: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, secret.MaxValue+1))
	if err != nil {
		return secret.Value{}, fmt.Errorf("read secret: %w", err)
	}
	return secret.NewValue(text), nil
}
