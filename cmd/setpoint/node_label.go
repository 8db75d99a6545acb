package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/view"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

func (a *app) nodeLabel() *cobra.Command {
	var try planning
	var yes bool
	cmd := &cobra.Command{
		Use: "label NAME KEY=VALUE… KEY-…", Short: "Set labels of a node, and remove those that are written with a dash behind", Args: takes(2, -1),
		Long: `Sets labels of a node, and removes those that are written with a dash behind.

Running tasks whose job's constraints the node no longer meets move, within their job's budget; the command says which.`,
		Example: "  setpoint node label n2 disk=ssd\n  setpoint node label n2 disk-",
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &apiv1.LabelNodeRequest{Node: args[0], Set: map[string]string{}, DryRun: try.dryRun}
			for _, arg := range args[1:] {
				key, value, set := strings.Cut(arg, "=")
				remove, isRemoval := strings.CutSuffix(arg, "-")
				switch {
				case set:
					req.Set[key] = value
				case isRemoval && remove != "":
					req.Remove = append(req.Remove, remove)
				default:
					return refuse("KEY=VALUE sets a label, KEY- removes it.", "bad label %q", arg)
				}
			}
			s, err := a.connect()
			if err != nil {
				return err
			}
			if !try.dryRun && !yes && a.interactive() {
				if err := a.askMoves(cmd.Context(), s, req); err != nil {
					return err
				}
			}
			res, err := ask(cmd.Context(), s, s.LabelNode, req)
			if err != nil {
				return err
			}
			if try.dryRun {
				try.beside, req.DryRun = res, false
				return a.plan(cmd.Context(), s, try, &apiv1.PlanCommand{Command: &apiv1.PlanCommand_LabelNode{LabelNode: req}})
			}
			return a.print(view.OfNodeChange(res), func(w io.Writer, style console.Style) { writeLabels(w, style, res, false) })
		},
	}
	try.flags(cmd)
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask; without a terminal nothing is asked")
	return cmd
}

// askMoves asks before labels are changed if tasks would leave the node for that.
func (a *app) askMoves(ctx context.Context, s *server, req *apiv1.LabelNodeRequest) error {
	trial := proto.CloneOf(req)
	trial.DryRun = true
	res, err := ask(ctx, s, s.LabelNode, trial)
	if err != nil {
		return err
	}
	n := int64(len(res.GetMoves()))
	if n > 0 && !a.confirm(fmt.Sprintf("setpoint node label %s: %s would move: %s", req.GetNode(), console.Count(n, "running task"), console.Shorten(strings.Join(res.GetMoves(), ", "), 200))) {
		return refuse("--yes answers beforehand, --dry-run shows each step.", "nothing was done")
	}
	return nil
}

func writeLabels(w io.Writer, style console.Style, res *apiv1.NodeResponse, dryRun bool) {
	n, moves := res.GetNode(), res.GetMoves()
	switch {
	case dryRun:
		fmt.Fprintf(w, "%s: still %s; nothing was changed\n", n.GetName(), pairs(n.GetLabels()))
	case !res.GetChanged():
		fmt.Fprintf(w, "%s: nothing to change\n", n.GetName())
	default:
		fmt.Fprintf(w, "%s: %s\n", n.GetName(), pairs(n.GetLabels()))
	}
	if len(moves) > 0 {
		word := "moves"
		if dryRun {
			word = "would move"
		}
		fmt.Fprintln(w, style.Yellow(fmt.Sprintf("%s %s: %s", word, console.Count(int64(len(moves)), "running task"), strings.Join(moves, ", "))))
	}
}
