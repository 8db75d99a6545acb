package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/view"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

func (a *app) pluginReload() *cobra.Command {
	return &cobra.Command{
		Use: "reload NAME", Short: "Let a plugin's executable, as it is on disk now, take over", Args: takes(1, 1),
		Example: "  setpoint plugin reload gpu",
		Long: `Starts the plugin's executable as it is on disk now beside the process that serves, shows it the whole state, asks it everything, and lets it take over
only if it answers. Otherwise nothing changes, and the command says why and ends with code 1. No task is restarted, and what was asked meanwhile is asked
again.

The settings are those with which the server runs; a changed configuration is taken up by SIGHUP, which does the same for what changed.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.connect()
			if err != nil {
				return err
			}
			res, err := ask(cmd.Context(), s, s.ReloadPlugin, &apiv1.ReloadPluginRequest{Plugin: args[0]})
			if err != nil {
				return err
			}
			return a.print(view.OfPluginReload(args[0], res), func(w io.Writer, style console.Style) {
				before, after := res.GetBefore(), res.GetAfter()
				fmt.Fprintf(w, "%s: version %s serves (process %d); it was %s (process %d)\n", args[0], after.GetVersion(), after.GetPid(), before.GetVersion(), before.GetPid())
				if before.GetDigest() == after.GetDigest() {
					fmt.Fprintln(w, "the executable is the same as before")
				}
				writeComparison(w, style, res.GetComparison(), shownDifferences)
			})
		},
	}
}
