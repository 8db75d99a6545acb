package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/plugins"
	"github.com/setpointd/setpoint/sdk"
)

// pluginServe is how the server starts the plugins that come along where setpoint-plugin is not installed beside it: each is this binary in a process of its own.
func (a *app) pluginServe() *cobra.Command {
	return &cobra.Command{
		Use: "serve NAME", Short: "Be one of the plugins that come along; servers start it", Args: takes(1, 1), Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			known := plugins.ByName()
			make, ok := known[args[0]]
			if !ok {
				return refuse("It is "+strings.Join(slices.Sorted(maps.Keys(known)), ", ")+".", "no plugin %q comes along", args[0])
			}
			sdk.Serve(make())
			return nil
		},
	}
}
