package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/view"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

func (a *app) pluginCommand() *cobra.Command {
	return group("plugin", "See the plugins that decide", a.pluginList(), a.pluginInspect(), a.pluginLogs(), a.pluginReload(), a.pluginShadow(), a.pluginConfirm(),
		a.pluginNew(), a.pluginCheck(), a.pluginDescribe(), a.pluginRun(), a.pluginRecord(), a.pluginReplay(), a.pluginServe())
}

func (a *app) pluginList() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List plugins", Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.connect()
			if err != nil {
				return err
			}
			res, err := ask(cmd.Context(), s, s.ListPlugins, &apiv1.ListPluginsRequest{})
			if err != nil {
				return err
			}
			return a.print(view.OfPlugins(res.GetPlugins()), func(w io.Writer, style console.Style) {
				now := time.Now()
				table := console.NewTable("NAME", "VERSION", "STATE", "FOR", "PID", "RESTARTS", "INTERFACES", "MESSAGE")
				var stalls []*apiv1.Stall
				for _, p := range res.GetPlugins() {
					pid := ""
					if p.GetPid() != 0 {
						pid = fmt.Sprint(p.GetPid())
					}
					table.Row(p.GetName(), p.GetVersion(), pluginState(style, p.GetState()), ago(now, p.GetSince()), pid, fmt.Sprint(p.GetRestarts()),
						strings.Join(p.GetInterfaces(), " "), console.Shorten(p.GetMessage(), 60))
					stalls = append(stalls, p.GetStalls()...)
				}
				table.Write(w, style)
				writeStalls(w, style, now, stalls)
			})
		},
	}
}

func pluginState(style console.Style, state string) string {
	switch state {
	case "running":
		return style.Green(state)
	case "backoff", "crash_loop":
		return style.Red(state)
	}
	return style.Yellow(state)
}

func (a *app) pluginConfirm() *cobra.Command {
	return &cobra.Command{
		Use: "confirm NAME", Short: "Accept first answers of a plugin that would stop many tasks", Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.connect()
			if err != nil {
				return err
			}
			if _, err := ask(cmd.Context(), s, s.ConfirmPlugin, &apiv1.ConfirmPluginRequest{Plugin: args[0]}); err != nil {
				return err
			}
			return a.print(map[string]any{"name": args[0], "confirmed": true}, func(w io.Writer, _ console.Style) {
				fmt.Fprintf(w, "%s: its answers count now\n", args[0])
			})
		},
	}
}
