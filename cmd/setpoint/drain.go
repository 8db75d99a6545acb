package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/view"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

func (a *app) nodeDrain() *cobra.Command {
	var wait, deadline time.Duration
	cmd := &cobra.Command{
		Use: "drain NAME", Short: "Empty a node: its tasks move away, within their jobs' budgets", Args: takes(1, 1),
		Long: `Empties a node: its tasks move away, within their jobs' budgets, and nothing new starts there until it is activated.

A drain is over when every stop has been observed. A deadline ends the waiting for budgets, not a task's own time to stop.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.connect()
			if err != nil {
				return err
			}
			req := &apiv1.SetAvailabilityRequest{Node: args[0], Availability: "drain"}
			if deadline > 0 {
				req.DrainDeadline = durationpb.New(deadline)
			}
			res, err := ask(cmd.Context(), s, s.SetAvailability, req)
			if err != nil {
				return err
			}
			if wait > 0 {
				return a.followDrain(cmd.Context(), s, res.GetNode(), wait)
			}
			return a.printNode(res)
		},
	}
	waitFlag(cmd, &wait, "the node is empty")
	cmd.Flags().DurationVar(&deadline, "deadline", 0, "after so `long` budgets no longer hold the drain up (default: they always do)")
	return cmd
}

// followDrain shows how far a drain has come until it is over.
func (a *app) followDrain(ctx context.Context, s *server, n *apiv1.Node, limit time.Duration) error {
	progress := a.progress()
	began := n.GetDrain().GetLeft()
	err := a.wait(ctx, limit, func(ctx context.Context) (bool, error) {
		res, err := ask(ctx, s, s.GetNode, &apiv1.GetNodeRequest{Node: n.GetId()})
		if err != nil {
			return false, err
		}
		n = res.GetNode()
		if n.GetAvailability() != "drain" {
			return false, &failure{
				code: exitFailed, text: fmt.Sprintf("node %s is not drained any more: somebody made it %s", n.GetName(), n.GetAvailability()),
				hint: "`setpoint events` shows who did what.",
			}
		}
		left := n.GetDrain().GetLeft()
		began = max(began, left)
		if n.GetDrain().GetState() == "drained" {
			return true, nil
		}
		line := fmt.Sprintf("%s: %s, %d stopped", n.GetName(), drainText(n), began-left)
		if stalls := n.GetStalls(); len(stalls) > 0 {
			line += ", " + stalls[0].GetCode()
		}
		progress.Show(line)
		return false, nil
	})
	progress.End()
	switch {
	case errors.Is(err, errTimeout):
		if err := a.writeLeft(ctx, s, n, limit); err != nil {
			return err
		}
		return errShown(exitStalled)
	case err != nil:
		return err
	}
	if a.json() {
		return a.printJSON(view.OfNodeChange(&apiv1.NodeResponse{Node: n, Changed: true}))
	}
	fmt.Fprintf(a.out, "%s: %s\n", n.GetName(), a.style(a.out).Green(drainText(n)))
	return nil
}

// writeLeft says what is left on a node whose drain is not over in time, and what it waits for.
func (a *app) writeLeft(ctx context.Context, s *server, n *apiv1.Node, limit time.Duration) error {
	if a.json() {
		if err := a.printJSON(view.OfNodeChange(&apiv1.NodeResponse{Node: n, Changed: true})); err != nil {
			return err
		}
	}
	style, now := a.style(a.errOut), time.Now()
	fmt.Fprintf(a.errOut, "%s is not empty after %s: %s\n", n.GetName(), limit, drainText(n))
	left, err := listTasks(ctx, s, &apiv1.ListTasksRequest{Node: n.GetId()})
	if err != nil {
		return err
	}
	a.writeTasks(a.errOut, style, left)
	writeStalls(a.errOut, style, now, n.GetStalls())
	seen := map[string]bool{}
	for _, t := range left {
		if seen[t.GetJob()] {
			continue
		}
		seen[t.GetJob()] = true
		res, err := ask(ctx, s, s.GetJob, &apiv1.GetJobRequest{Job: t.GetJob()})
		if err != nil {
			continue // removed meanwhile; its task is in the list
		}
		writeStalls(a.errOut, style, now, res.GetJob().GetStalls())
	}
	fmt.Fprintf(a.errOut, "The drain goes on; `setpoint node activate %s` ends it.\n", n.GetName())
	return nil
}
