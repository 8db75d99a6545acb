package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/view"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

func (a *app) stallsCommand() *cobra.Command {
	var job, code string
	var watch bool
	cmd := &cobra.Command{
		Use: "stalls", Short: "Show everything that waits, longest first: why, and what would clear it", Args: takes(0, 0),
		Long: `Shows everything that waits, longest first: why, and what would clear it. docs/STALLS.md explains the codes. What waits for the same is shown once, with how many
more there are; -o name names each.

With --watch the list is written anew whenever it changes; with JSON that is one value a line. With -o name it is what waits: tasks and slots as task why takes them.`,
		Example: "  setpoint stalls --job web\n  setpoint stalls --watch\n  setpoint stalls --code constraint -o name | xargs -n1 setpoint task why",
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.connect()
			if err != nil {
				return err
			}
			req := &apiv1.ListStallsRequest{Job: job, Code: code}
			if watch {
				return a.watchStalls(cmd.Context(), s, req)
			}
			stalls, err := listStalls(cmd.Context(), s, req)
			if err != nil {
				return err
			}
			if len(stalls) == 0 && job != "" {
				note, err := noSuchJob(cmd.Context(), s, job)
				if err != nil {
					return err
				}
				if note != "" {
					fmt.Fprintln(a.errOut, note)
				}
			}
			return a.print(view.OfStalls(stalls), func(w io.Writer, style console.Style) { writeAllStalls(w, style, req, stalls) })
		},
	}
	cmd.Flags().StringVar(&job, "job", "", "only what this `job` waits for")
	cmd.Flags().StringVar(&code, "code", "", "only with this `code`")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show changes as they come, until interrupted")
	return named(cmd)
}

func listStalls(ctx context.Context, s *server, req *apiv1.ListStallsRequest) ([]*apiv1.Stall, error) {
	return pages(func(token string) (*apiv1.ListStallsResponse, error) {
		req.PageToken = token
		return ask(ctx, s, s.ListStalls, req)
	}, func(r *apiv1.ListStallsResponse) ([]*apiv1.Stall, string) { return r.GetStalls(), r.GetNextPageToken() })
}

func writeAllStalls(w io.Writer, style console.Style, asked *apiv1.ListStallsRequest, stalls []*apiv1.Stall) {
	if len(stalls) == 0 {
		text := "Nothing"
		if asked.GetJob() != "" {
			text += " of job " + asked.GetJob()
		}
		if text += " waits"; asked.GetCode() != "" {
			text += " with the code " + asked.GetCode()
		}
		fmt.Fprintln(w, style.Green(text+"."))
		return
	}
	writeTogether(w, style, time.Now(), stalls)
	fmt.Fprintf(w, "\n%s\n", console.Count(int64(len(stalls)), "stall"))
}

// watchStalls shows the list whenever what waits, or why, has changed.
func (a *app) watchStalls(ctx context.Context, s *server, req *apiv1.ListStallsRequest) error {
	shown := "never"
	return a.watch(ctx, s, func(ctx context.Context) error {
		stalls, err := listStalls(ctx, s, req)
		if err != nil {
			return err
		}
		now := stallsKey(stalls)
		// On a terminal their age goes on.
		if drawn := console.IsTerminal(a.out) && !a.structured() && a.output != outputName; now == shown && !drawn {
			return nil
		}
		shown = now
		return a.showStalls(req, stalls)
	})
}

func (a *app) showStalls(asked *apiv1.ListStallsRequest, stalls []*apiv1.Stall) error {
	switch {
	case a.structured():
		return a.printNext(view.OfStalls(stalls))
	case a.output == outputName:
		return a.print(view.OfStalls(stalls), nil)
	}
	var text bytes.Buffer
	writeAllStalls(&text, a.style(a.out), asked, stalls)
	if console.IsTerminal(a.out) {
		return console.Redraw(a.out, text.String())
	}
	_, err := fmt.Fprintf(a.out, "== %s\n%s", time.Now().Format(time.TimeOnly), text.String())
	return err
}

// stallsKey is equal for lists that say the same.
func stallsKey(stalls []*apiv1.Stall) string {
	key := ""
	for _, s := range stalls {
		key += fmt.Sprintln(s.GetSubject().GetKind(), s.GetSubject().GetId(), s.GetSource(), s.GetCode(), s.GetMessage(), s.GetClears())
	}
	return key
}
