package daemon

import (
	"io"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/core/config"
)

// NewLogger returns the logger of a daemon, which writes to w.
func NewLogger(name string, cfg config.Log, w io.Writer) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Name: name, Level: hclog.LevelFromString(cfg.Level), JSONFormat: cfg.JSON, Output: w})
}
