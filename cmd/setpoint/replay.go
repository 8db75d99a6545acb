package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/view"
	"github.com/setpointd/setpoint/core/engine"
)

func (a *app) replayCommand() *cobra.Command {
	return &cobra.Command{
		Use: "replay FILE", Short: "Decide recorded inputs again, and show the first decision that differs", Args: takes(1, 1),
		Example: "  setpoint replay engine.rec",
		Long: `Has a new engine decide again what a server was given, from the state with which it started, and compares each turn with what was decided then. FILE is
what a server with record_inputs in its configuration wrote; - is standard input. No server is asked.

Exit codes: 0 if all decisions are the same, 4 if one differs.`,
		RunE: func(_ *cobra.Command, args []string) error {
			in := a.in
			if args[0] != "-" {
				file, err := os.Open(args[0])
				if err != nil {
					return refuse("Give the path of a file that can be read, or - for standard input.", "%v", err)
				}
				defer file.Close() // it was only read
				in = file
			}
			got, err := engine.Replay(in)
			if errors.Is(err, engine.ErrRecord) {
				return refuse("A server with record_inputs in its configuration writes one.", "%v", err)
			}
			if err != nil {
				return fmt.Errorf("replay %s: %w", args[0], err)
			}
			if err := a.print(view.OfReplayed(got), func(w io.Writer, style console.Style) { writeDecisions(w, style, got) }); err != nil {
				return err
			}
			if got.First != nil {
				return errShown(exitFailed)
			}
			return nil
		},
	}
}

func writeDecisions(w io.Writer, style console.Style, r *engine.Replayed) {
	if r.Program != version {
		fmt.Fprintf(w, "Recorded by %s; this is %s.\n", r.Program, version)
	}
	if r.End != "" {
		fmt.Fprintf(w, "The record ends early: %s.\n", r.End)
	}
	d := r.First
	if d == nil {
		fmt.Fprintf(w, "%s: %s, revisions %d to %d\n", style.Green("Same decisions"), console.Count(int64(r.Turns), "turn"), r.From+1, r.To)
		return
	}
	fmt.Fprintf(w, "%s after %s, in step %d, at %s of engine time (recorded revision %d, now %d)\n", style.Red("Another decision"),
		console.Count(int64(r.Turns-1), "turn"), d.Step, d.At.Engine, d.Recorded, d.Replayed)
	for _, x := range d.Only {
		fmt.Fprintln(w, "  recorded, and not now:  "+x)
	}
	for _, x := range d.New {
		fmt.Fprintln(w, "  now, and not recorded:  "+x)
	}
	if len(d.Only)+len(d.New) == 0 {
		fmt.Fprintln(w, "  the same changes, with other details")
	}
}
