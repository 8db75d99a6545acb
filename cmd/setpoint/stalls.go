package main

import (
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
		Long: `Shows everything that waits, longest first: why, and what would clear it. docs/STALLS.md explains the codes.

With --watch the list is written anew whenever it changes; with JSON that is one value a line.`,
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
			return a.print(view.OfStalls(stalls), func(w io.Writer, style console.Style) { writeAllStalls(w, style, stalls) })
		},
	}
	cmd.Flags().StringVar(&job, "job", "", "only what this `job` waits for")
	cmd.Flags().StringVar(&code, "code", "", "only with this `code`")
	cmd.Flags().BoolVar(&watch, "watch", false, "show changes as they come, until interrupted")
	return cmd
}

func listStalls(ctx context.Context, s *server, req *apiv1.ListStallsRequest) ([]*apiv1.Stall, error) {
	return pages(func(token string) (*apiv1.ListStallsResponse, error) {
		req.PageToken = token
		return ask(ctx, s, s.ListStalls, req)
	}, func(r *apiv1.ListStallsResponse) ([]*apiv1.Stall, string) { return r.GetStalls(), r.GetNextPageToken() })
}

func writeAllStalls(w io.Writer, style console.Style, stalls []*apiv1.Stall) {
	if len(stalls) == 0 {
		fmt.Fprintln(w, style.Green("Nothing waits."))
		return
	}
	now := time.Now()
	for _, s := range stalls {
		writeStall(w, style, now, s)
	}
	fmt.Fprintf(w, "\n%s\n", console.Count(int64(len(stalls)), "stall"))
}

// watchStalls shows the list whenever what waits, or why, has changed.
func (a *app) watchStalls(ctx context.Context, s *server, req *apiv1.ListStallsRequest) error {
	shown := "never"
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		stalls, err := listStalls(ctx, s, req)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		if now := stallsKey(stalls); now != shown {
			shown = now
			if err := a.showStalls(stalls); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (a *app) showStalls(stalls []*apiv1.Stall) error {
	if a.json() {
		return a.printJSONLine(view.OfStalls(stalls))
	}
	if console.IsTerminal(a.out) {
		fmt.Fprint(a.out, "\x1b[H\x1b[2J")
	} else {
		fmt.Fprintf(a.out, "== %s\n", time.Now().Format(time.TimeOnly))
	}
	writeAllStalls(a.out, a.style(a.out), stalls)
	return nil
}

// stallsKey is equal for lists that say the same.
func stallsKey(stalls []*apiv1.Stall) string {
	key := ""
	for _, s := range stalls {
		key += fmt.Sprintln(s.GetSubject().GetKind(), s.GetSubject().GetId(), s.GetSource(), s.GetCode(), s.GetMessage(), s.GetClears())
	}
	return key
}
