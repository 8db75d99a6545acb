package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

func (a *app) nodeDrain() *cobra.Command {
	var wait, deadline time.Duration
	cmd := &cobra.Command{
		Use: "drain NAME…", Short: "Empty nodes: their tasks move away, within their jobs' budgets", Args: takes(1, -1),
		Example: "  setpoint node drain n1 --wait 10m\n  setpoint node drain n1 n2 --deadline 30m --yes",
		Long: `Empties nodes: their tasks move away, within their jobs' budgets, and nothing new starts there until they are activated. Nodes that are drained with one
command take nothing from each other.

A drain is over when every stop has been observed. A deadline ends the waiting for budgets, not a task's own time to stop.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.connect()
			if err != nil {
				return err
			}
			req := &apiv1.SetAvailabilityRequest{Nodes: args, Availability: "drain"}
			if deadline > 0 {
				req.DrainDeadline = durationpb.New(deadline)
			}
			res, err := ask(cmd.Context(), s, s.SetAvailability, req)
			if err != nil {
				return err
			}
			if wait > 0 {
				return a.followDrains(cmd.Context(), s, res.GetNodes(), wait)
			}
			return a.printNodes(res.GetNodes())
		},
	}
	waitFlag(cmd, &wait, "the nodes are empty")
	cmd.Flags().DurationVar(&deadline, "deadline", 0, "after so `long` budgets no longer hold the drain up (default: they always do)")
	return cmd
}

// followDrains shows how far drains have come until all are over.
func (a *app) followDrains(ctx context.Context, s *server, nodes []*apiv1.NodeResponse, limit time.Duration) error {
	progress := a.progress()
	began := make([]int64, len(nodes))
	err := a.wait(ctx, limit, func(ctx context.Context) (bool, error) {
		var lines []string
		for i, x := range nodes {
			n, err := a.drainedNode(ctx, s, x.GetNode().GetId())
			if err != nil {
				return false, err
			}
			x.Node, x.Changed = n, true
			began[i] = max(began[i], n.GetDrain().GetLeft())
			if !drained(n) {
				lines = append(lines, drainLine(n, began[i]))
			}
		}
		if len(lines) > 0 {
			progress.Show(strings.Join(lines, "; "))
		}
		return len(lines) == 0, nil
	})
	progress.End()
	switch {
	case errors.Is(err, errTimeout):
		if err := a.writeLeft(ctx, s, nodes, limit); err != nil {
			return err
		}
		return errShown(exitStalled)
	case err != nil:
		return err
	}
	if a.structured() {
		return a.printNodes(nodes)
	}
	for _, x := range nodes {
		fmt.Fprintf(a.out, "%s: %s\n", x.GetNode().GetName(), a.style(a.out).Green(drainText(x.GetNode())))
	}
	return nil
}

func drained(n *apiv1.Node) bool { return n.GetDrain().GetState() == string(cluster.Drained) }

// drainLine is one line about how far a drain has come that began with so many tasks.
func drainLine(n *apiv1.Node, began int64) string {
	line := fmt.Sprintf("%s: %s, %d stopped", n.GetName(), drainText(n), began-n.GetDrain().GetLeft())
	if stalls := n.GetStalls(); len(stalls) > 0 {
		line += ", " + stalls[0].GetCode()
	}
	return line
}

// drainedNode returns a node that is being drained, and an error once it is not any more.
func (a *app) drainedNode(ctx context.Context, s *server, id string) (*apiv1.Node, error) {
	res, err := ask(ctx, s, s.GetNode, &apiv1.GetNodeRequest{Node: id})
	if err != nil {
		return nil, err
	}
	n := res.GetNode()
	if n.GetAvailability() != "drain" {
		return nil, &failure{
			code: exitFailed, text: fmt.Sprintf("node %s is not drained any more: somebody made it %s", n.GetName(), n.GetAvailability()),
			hint: "`setpoint events` shows who did what.",
		}
	}
	return n, nil
}

// writeLeft says what is left on nodes whose drain is not over in time, and what it waits for.
func (a *app) writeLeft(ctx context.Context, s *server, nodes []*apiv1.NodeResponse, limit time.Duration) error {
	if a.structured() {
		if err := a.printNodes(nodes); err != nil {
			return err
		}
	}
	style, now := a.style(a.errOut), time.Now()
	seen := map[string]bool{}
	var going []string
	for _, x := range nodes {
		n := x.GetNode()
		if drained(n) {
			continue
		}
		going = append(going, n.GetName())
		fmt.Fprintf(a.errOut, "%s is not empty after %s: %s\n", n.GetName(), limit, drainText(n))
		left, err := listTasks(ctx, s, &apiv1.ListTasksRequest{Node: n.GetId()})
		if err != nil {
			return err
		}
		sortTasks(left)
		writeTasks(a.errOut, style, left)
		writeStalls(a.errOut, style, now, n.GetStalls())
		for _, t := range left {
			if seen[t.GetJob()] {
				continue
			}
			seen[t.GetJob()] = true
			res, err := ask(ctx, s, s.GetJob, &apiv1.GetJobRequest{Job: t.GetJob()})
			if err != nil {
				continue // removed meanwhile; its task is in the list
			}
			writeStalls(a.errOut, style, now, stallsOf(ctx, s, res.GetJob()))
		}
	}
	fmt.Fprintf(a.errOut, "The drain goes on; `setpoint node activate %s` ends it.\n", strings.Join(going, " "))
	return nil
}
