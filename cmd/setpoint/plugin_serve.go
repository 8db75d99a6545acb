package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/plugins/constraint"
	"github.com/setpointd/setpoint/plugins/drain"
	"github.com/setpointd/setpoint/plugins/global"
	"github.com/setpointd/setpoint/sdk"
)

// builtinPlugins are the plugins that come along, by the names under which the configuration knows them.
func builtinPlugins() map[string]func() sdk.Plugin {
	return map[string]func() sdk.Plugin{constraint.Name: constraint.New, drain.Name: drain.New, global.Name: global.New}
}

// pluginServe is how the server starts the plugins that come along: each is this binary in a process of its own.
func (a *app) pluginServe() *cobra.Command {
	return &cobra.Command{
		Use: "serve NAME", Short: "Be one of the plugins that come along; servers start it", Args: takes(1, 1), Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			known := builtinPlugins()
			make, ok := known[args[0]]
			if !ok {
				return refuse("It is "+strings.Join(slices.Sorted(maps.Keys(known)), ", ")+".", "no plugin %q comes along", args[0])
			}
			sdk.Serve(make())
			return nil
		},
	}
}
