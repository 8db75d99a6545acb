package daemon

import (
	"context"
	"errors"
	"os"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/core/config"
	"github.com/setpointd/setpoint/core/pluginhost"
	"github.com/setpointd/setpoint/core/pluginhost/runner"
)

// ValidatePlugins starts each plugin of a configuration, has it check its settings, and ends it. Nothing of a server that runs is touched.
func ValidatePlugins(ctx context.Context, cfg *config.Config, version string) (_ []pluginhost.Validation, err error) {
	dir, err := os.MkdirTemp("", "setpoint-validate-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	log := hclog.NewNullLogger()
	launcher, err := runner.NewLauncher(dir, log)
	if err != nil {
		return nil, err
	}
	launcher.UseConfiner(ConfineCommand)
	defer func() { err = errors.Join(err, launcher.Close()) }()
	host := pluginhost.New(pluginhost.Config{Logger: log, Launcher: launcher, Version: version, Plugins: hostPlugins(cfg)})
	return host.ValidateConfigs(ctx), nil
}
