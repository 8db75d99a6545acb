package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/view"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// shownDifferences is how many differences a table lists where nobody said how many.
const shownDifferences = 20

func (a *app) pluginShadow() *cobra.Command {
	var limit int32
	cmd := &cobra.Command{
		Use: "shadow NAME PATH [ARG]…", Short: "Show what another executable would answer differently", Args: takes(2, -1),
		Example: "  setpoint plugin shadow gpu /usr/local/lib/setpoint/gpu-next",
		Long: `Runs an executable of the server's machine beside a plugin, shows it the whole state, asks it everything that the plugin was asked, and lists each verdict,
slot and transition on which the two differ. Nothing is done about it, and the executable is ended again.

It runs with the plugin's settings, and with its arguments unless others are given. Transitions are those of the nodes that are being drained.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := filepath.Abs(args[1])
			if err != nil {
				return err
			}
			s, err := a.connect()
			if err != nil {
				return err
			}
			res, err := ask(cmd.Context(), s, s.ShadowPlugin, &apiv1.ShadowPluginRequest{Plugin: args[0], Path: path, Args: args[2:], Limit: limit})
			if err != nil {
				return err
			}
			return a.print(view.OfPluginComparison(res.GetComparison()), func(w io.Writer, style console.Style) {
				writeComparison(w, style, res.GetComparison(), int(limit))
			})
		},
	}
	cmd.Flags().Int32Var(&limit, "limit", 1000, "how many `differences` are listed")
	return cmd
}

func writeComparison(w io.Writer, style console.Style, c *apiv1.PluginComparison, limit int) {
	asked := fmt.Sprintf("%s on %s", classCount(c.GetClasses()), console.Count(c.GetNodes(), "node"))
	asked += fmt.Sprintf(", slots of %s, %s", console.Count(c.GetJobs(), "job"), console.Count(c.GetDrains(), "drain"))
	if c.GetTotal() == 0 {
		fmt.Fprintf(w, "the candidate (%s) answers as the plugin that served (%s): %s\n", c.GetCandidate(), c.GetServing(), asked)
	} else {
		fmt.Fprintf(w, "the candidate (%s) answers differently from the plugin that served (%s) in %s: %s\n", c.GetCandidate(), c.GetServing(),
			console.Count(c.GetTotal(), "place"), asked)
	}
	if c.GetUnjudged() > 0 {
		fmt.Fprintf(w, "%d could not be compared: the plugin that serves has not answered them yet\n", c.GetUnjudged())
	}
	shown := c.GetDifferences()[:min(limit, len(c.GetDifferences()))]
	if len(shown) == 0 {
		return
	}
	table := console.NewTable("WHAT", "JOBS", "WHERE", "SERVED", "CANDIDATE")
	for _, d := range shown {
		where := d.GetNode()
		switch {
		case d.GetTask() != "":
			where += " " + d.GetTask()
		case d.GetSlot() != "":
			where = "slot " + d.GetSlot()
		case where == "":
			where = "everywhere"
		}
		table.Row(d.GetKind(), console.Shorten(strings.Join(d.GetJobs(), " "), 30), where, console.Shorten(d.GetServing(), 60), console.Shorten(d.GetCandidate(), 60))
	}
	table.Write(w, style)
	if more := c.GetTotal() - int64(len(shown)); more > 0 {
		fmt.Fprintf(w, "and %d more\n", more)
	}
}
