package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/daemon"
	"github.com/setpointd/setpoint/core/config"
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/store"
)

func (a *app) serverCommand() *cobra.Command {
	var files []string
	var listen string
	cmd := &cobra.Command{
		Use: "server", Short: "Run a server", Args: takes(0, 0),
		Example: "  setpoint server --config /etc/setpoint.hcl",
		Long: `Runs a server: it keeps the cluster's state, decides, and answers agents, plugins and people.

Configuration files, and directories of them, are read in the order given; --data-dir and --listen win over what they say. config.hcl.example shows
every setting. Certificates and an administrator's credential are made in the data directory at the first start.

SIGHUP has the files read again: plugins that were added, removed or changed, or whose executable did, are started, ended or replaced as
` + "`setpoint plugin reload`" + ` does; the log names other settings that changed, which need a restart.

The server collects garbage earlier than Go's programs do, so that a large cluster's state takes half as much again as it is, not twice. With GOGC or
GOMEMLIMIT in its environment it does as those say.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkListen(listen); err != nil {
				return err
			}
			dir, err := a.serverDir(len(files) > 0)
			if err != nil {
				return err
			}
			read := func() (*config.Config, error) {
				cfg, err := a.loadConfig(files)
				if err == nil {
					cfg.Override(dir, listen)
				}
				return cfg, err
			}
			cfg, err := read()
			if err != nil {
				return err
			}
			return a.serve(cmd.Context(), cfg, read)
		},
	}
	cmd.Flags().StringArrayVar(&files, "config", nil, "a configuration `file` or a directory of them; may be repeated")
	cmd.Flags().StringVar(&listen, "listen", "", "where to listen, `HOST:PORT` (default: what the configuration says, or 127.0.0.1:7480)")
	return cmd
}

// serverDir returns the data directory that was named; without that, and without configuration files, the one where commands look.
func (a *app) serverDir(configured bool) (string, error) {
	if configured && a.dataDir == "" && a.env("SETPOINT_DATA_DIR") == "" {
		return "", nil
	}
	dir, err := a.dir()
	return string(dir), err
}

// checkListen refuses what is no address to listen at. Port 0 is any free one.
func checkListen(address string) error {
	if address == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return refuse("Write HOST:PORT, such as 127.0.0.1:7480; port 0 is any free one.", "bad address to listen at: %v", err)
	}
	return nil
}

// gcPercent returns by how many percent a server's memory grows before garbage is collected; false: as the operator says, who set Go's variables.
func (a *app) gcPercent() (int, bool) {
	return engine.GCPercent, a.env("GOGC") == "" && a.env("GOMEMLIMIT") == ""
}

// serve runs a server until the context ends. On SIGHUP it reads its configuration again.
func (a *app) serve(ctx context.Context, cfg *config.Config, read func() (*config.Config, error)) error {
	if percent, ours := a.gcPercent(); ours {
		debug.SetGCPercent(percent)
	}
	hangUps, stop := hangUps()
	defer stop()
	s, err := daemon.Open(ctx, daemon.Options{
		Config: cfg, Version: version, Log: daemon.NewLogger("setpoint", cfg.Log, a.errOut), Reconfigure: hangUps, Reread: read,
	})
	if err != nil {
		return startError(err)
	}
	err = s.Run(ctx)
	return errors.Join(err, s.Close())
}

// hangUps returns what tells of SIGHUP, which does not end the process from now on.
func hangUps() (signals <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	return c, func() { signal.Stop(c) }
}

// startError says what to do about a server that does not start, where that is known.
func startError(err error) error {
	f := &failure{code: exitError, text: fmt.Sprintf("start the server: %v", err)}
	var inUse *store.InUseError
	switch {
	case errors.As(err, &inUse):
		f.hint = "Stop the other one, or name another directory with --data-dir."
	case errors.Is(err, syscall.EADDRINUSE):
		f.hint = "Name another address with --listen; port 0 is any free one."
	}
	return f
}

// loadConfig reads configuration files. Mistakes are written with their lines.
func (a *app) loadConfig(files []string) (*config.Config, error) {
	cfg, diags := config.Load(files...)
	if len(diags) > 0 {
		if err := cfg.Write(a.errOut, diags, a.look()); err != nil {
			return nil, err
		}
	}
	if diags.HasErrors() {
		fmt.Fprintln(a.errOut, "Error: the configuration has mistakes. `setpoint config validate FILE` checks it again.")
		return nil, errShown(exitRefused)
	}
	return cfg, nil
}
