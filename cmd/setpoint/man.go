package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/manual"
)

func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write manual pages of all commands into a directory", Args: takes(1, 1),
		Long:    `Writes a manual page for each command into a directory, which is made if it is not there. They say what --help says.`,
		Example: `  setpoint man /usr/local/share/man/man1 && man setpoint-job-run`,
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := manual.Write(args[0], cmd.Root(), version)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.out, "%s in %s\n", console.Count(int64(n), "page"), args[0])
			return nil
		},
	}
}
