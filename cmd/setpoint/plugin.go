package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/view"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

func (a *app) pluginCommand() *cobra.Command {
	return group("plugin", "See the plugins that decide", a.pluginList(), named(a.pluginInspect()), a.pluginLogs(), a.pluginReload(), a.pluginShadow(), a.asking(a.pluginConfirm(), a.pluginConfirmQuestion),
		a.pluginNew(), a.pluginCheck(), a.pluginDescribe(), a.pluginRun(), a.pluginRecord(), a.pluginReplay(), a.pluginServe())
}

func (a *app) pluginList() *cobra.Command {
	return list(a, &cobra.Command{
		Use: "ls", Short: "List plugins",
		Example: "  setpoint plugin ls\n  setpoint plugin ls --watch",
	}, &listing[*apiv1.Plugin]{
		fetch: listPlugins, view: viewed(view.OfPlugins),
		columns: []column[*apiv1.Plugin]{
			{"NAME", func(_ pen, p *apiv1.Plugin) string { return p.GetName() }, always},
			{"VERSION", func(_ pen, p *apiv1.Plugin) string { return p.GetVersion() }, always},
			{"STATE", func(x pen, p *apiv1.Plugin) string { return pluginState(x.style, p.GetState()) }, always},
			{"FOR", func(x pen, p *apiv1.Plugin) string { return ago(x.now, p.GetSince()) }, ages},
			{"PID", func(_ pen, p *apiv1.Plugin) string {
				if p.GetPid() == 0 {
					return ""
				}
				return fmt.Sprint(p.GetPid())
			}, always},
			{"RESTARTS", func(_ pen, p *apiv1.Plugin) string { return fmt.Sprint(p.GetRestarts()) }, always},
			{"INTERFACES", func(_ pen, p *apiv1.Plugin) string { return strings.Join(p.GetInterfaces(), " ") }, always},
			{"JOB TYPES", func(_ pen, p *apiv1.Plugin) string { return strings.Join(p.GetJobTypes(), " ") }, wide},
			{"MESSAGE", func(_ pen, p *apiv1.Plugin) string { return p.GetMessage() }, long},
		},
		below: func(w io.Writer, style console.Style, now time.Time, plugins []*apiv1.Plugin) {
			var stalls []*apiv1.Stall
			for _, p := range plugins {
				stalls = append(stalls, p.GetStalls()...)
			}
			writeStalls(w, style, now, stalls)
		},
	})
}

func listPlugins(ctx context.Context, s *server) ([]*apiv1.Plugin, error) {
	return pages(func(token string) (*apiv1.ListPluginsResponse, error) {
		return ask(ctx, s, s.ListPlugins, &apiv1.ListPluginsRequest{PageToken: token})
	}, func(res *apiv1.ListPluginsResponse) ([]*apiv1.Plugin, string) {
		return res.GetPlugins(), res.GetNextPageToken()
	})
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
		Example: "  setpoint plugin confirm constraint",
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

// pluginConfirmQuestion is what the server says that the plugin's answers would stop.
func (a *app) pluginConfirmQuestion(cmd *cobra.Command, args []string) (string, error) {
	s, err := a.connect()
	if err != nil {
		return "", err
	}
	res, err := ask(cmd.Context(), s, s.GetPlugin, &apiv1.GetPluginRequest{Plugin: args[0]})
	if err != nil {
		return "", err
	}
	for _, stall := range res.GetPlugin().GetStalls() {
		if stall.GetCode() == string(cluster.CodeMassEviction) {
			return stall.GetMessage() + ".", nil
		}
	}
	return "", nil // there is nothing to confirm, as the server will say
}
