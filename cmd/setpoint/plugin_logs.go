package main

import (
	"fmt"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

func (a *app) pluginLogs() *cobra.Command {
	var follow bool
	var tail int64
	cmd := &cobra.Command{
		Use: "logs NAME", Short: "Print what a plugin's processes wrote last", Args: takes(1, 1),
		Example: "  setpoint plugin logs constraint -f --tail 20",
		Long: `Prints what a plugin's processes wrote last on standard error and output: 1,000 lines are kept, across restarts and reloads. The server's log has them
too, with their levels.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.connect()
			if err != nil {
				return err
			}
			logs, err := s.PluginLogs(cmd.Context(), connect.NewRequest(&apiv1.PluginLogsRequest{Plugin: args[0], Follow: follow, Tail: tail}))
			if err != nil {
				return refusal(s.Addr(), err)
			}
			defer logs.Close() //nolint:errcheck // what it says, Err says too
			for logs.Receive() {
				for _, l := range logs.Msg().GetLines() {
					if err := a.printLine(l); err != nil {
						return fmt.Errorf("print logs: %w", err)
					}
				}
			}
			if err := logs.Err(); err != nil {
				return refusal(s.Addr(), err)
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what it writes")
	cmd.Flags().Int64Var(&tail, "tail", -1, "only the last so many `lines` of what is kept")
	return cmd
}

func (a *app) printLine(l *apiv1.PluginLine) error {
	at := timeOf(l.GetTime())
	if a.structured() {
		return a.printNext(map[string]any{"time": at, "pid": l.GetPid(), "stream": l.GetStream(), "text": l.GetText()})
	}
	_, err := fmt.Fprintf(a.out, "%s %d %s\n", at.Local().Format("2006-01-02 15:04:05.000"), l.GetPid(), l.GetText())
	return err
}
