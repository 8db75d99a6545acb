package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/daemon"
)

func (a *app) stateCommand() *cobra.Command {
	return group("state", "Bring a server's state back from a copy", a.stateRestore())
}

func (a *app) stateRestore() *cobra.Command {
	var files []string
	cmd := &cobra.Command{
		Use: "restore FILE", Short: "Make a copy of state.db the state of a server that does not run", Args: takes(1, 1),
		Long: `Makes a copy of a server's state.db the state in its data directory. The copy was made while no server ran, or by a snapshot of the file system. The state that is there is kept
beside it. What else belongs to a backup is put back by hand, before this: the directories ca and secrets, secrets.key, tokens.json and certificates.jsonl.

An agent takes no orders of a state that is older than what it has seen, so that an old copy stops nothing by mistake; and a server that is started on one tells by its log and by
` + "`setpoint status`" + ` that it is. This command raises the revision above all that was ever seen: the agents accept the state as it is then. Tasks that it knows and that still
run go on. Tasks that were made after the copy are stopped, since nobody knows of them; those that ended meanwhile are made anew.`,
		Example: "  setpoint state restore /backup/state.db --data-dir /var/lib/setpoint && setpoint server --data-dir /var/lib/setpoint",
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := a.serverDir(len(files) > 0)
			if err != nil {
				return err
			}
			cfg, err := a.loadConfig(files)
			if err != nil {
				return err
			}
			cfg.Override(dir, "")
			r, err := daemon.Restore(cmd.Context(), cfg, args[0])
			if err != nil {
				return err
			}
			out := map[string]any{"cluster": r.Cluster, "copied_revision": r.Copied, "copied_at": r.At, "revision": r.Revision, "records": r.Records, "replaced": r.Replaced}
			return a.print(out, func(w io.Writer, _ console.Style) {
				fmt.Fprintf(w, "cluster %s: the state of revision %d, committed %s, is at revision %d now (%d records)\n", r.Cluster, r.Copied, r.At.Local().Format(time.DateTime), r.Revision, r.Records)
				if r.Replaced != "" {
					fmt.Fprintf(w, "what was there is in %s\n", r.Replaced)
				}
			})
		},
	}
	cmd.Flags().StringArrayVar(&files, "config", nil, "the server's configuration `file` or a directory of them; may be repeated")
	return cmd
}
