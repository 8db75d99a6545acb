package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/view"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

func (a *app) jobWhy() *cobra.Command {
	return &cobra.Command{
		Use: "why NAME", Short: "Show everything that a job waits for, with each node and each reason", Args: takes(1, 1),
		Example: "  setpoint job why web",
		Long: `Shows everything that a job waits for: the job itself, its update, its slots, also those that have no task, and its tasks with each node and each reason;
and what is behind that elsewhere: plugins that do not answer, nodes of its tasks that cannot be emptied, and what holds the whole cluster up.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.connect()
			if err != nil {
				return err
			}
			res, err := ask(cmd.Context(), s, s.GetJob, &apiv1.GetJobRequest{Job: args[0]})
			if err != nil {
				return err
			}
			whys, err := whysOf(cmd.Context(), s, args[0])
			if err != nil {
				return err
			}
			j := res.GetJob()
			j.Stalls = stallsOf(cmd.Context(), s, j)
			behind, err := stallsBehind(cmd.Context(), s, j)
			if err != nil {
				return err
			}
			out := view.JobWhy{
				Job: j.GetName(), State: j.GetState(), Stalls: view.OfStalls(j.GetStalls()), Tasks: []view.Why{}, Behind: view.OfStalls(behind), Note: jobNote(j),
			}
			for _, why := range whys {
				out.Tasks = append(out.Tasks, view.OfWhy(why))
			}
			return a.print(out, func(w io.Writer, style console.Style) {
				fmt.Fprintf(w, "%s: %s, %s up\n", j.GetName(), jobState(style, j.GetState()), upOf(j))
				if out.Note != "" {
					fmt.Fprintln(w, out.Note)
				}
				if len(j.GetStalls()) == 0 {
					fmt.Fprintln(w, "It waits for nothing.")
				}
				writeStalls(w, style, time.Now(), j.GetStalls())
				for _, why := range whys {
					fmt.Fprintln(w)
					writeWhy(w, style, why)
				}
				if len(behind) > 0 {
					fmt.Fprintln(w, "\nElsewhere:")
					writeStalls(w, style, time.Now(), behind)
				}
			})
		},
	}
}

// jobNote says why a job has no tasks where nothing waits; "" otherwise.
func jobNote(j *apiv1.Job) string {
	c := j.GetCounts()
	switch {
	case j.GetStopped():
		return fmt.Sprintf("It was stopped; `setpoint job start %s` runs it again.", j.GetName())
	case j.GetState() == "failed":
		return fmt.Sprintf("It has ended, and %s used up the restarts that the job allows without ending well (%s); `setpoint job restart %s` runs it again.",
			console.Count(c.GetFailed(), "slot"), strings.Join(failedTasks(j), ", "), j.GetName())
	case c.GetWanted() > 0:
		return ""
	case c.GetLimited():
		return fmt.Sprintf("No slot is wanted: of %d nodes %d are eligible; constraints refuse the others.", c.GetEligibleOf(), c.GetEligible())
	case j.GetType() == "replicated" || j.GetType() == "batch":
		return fmt.Sprintf("No slot is wanted: its count is 0; `setpoint job scale %s N` changes that.", j.GetName())
	case len(j.GetStalls()) == 0:
		return "No slot is wanted: its type names none for the nodes that there are."
	}
	return ""
}

// failedTasks returns the last tasks of slots that did not end well, a few of them.
func failedTasks(j *apiv1.Job) []string {
	const few = 5
	var out []string
	for _, s := range j.GetSlots() {
		switch {
		case !s.GetFailed():
		case len(out) == few:
			return append(out, "…")
		default:
			out = append(out, s.GetTask())
		}
	}
	return out
}

// stallsBehind returns what stalls elsewhere and is, or may be, in the job's way: the plugins that its own stalls name, the nodes of its tasks, and the cluster.
func stallsBehind(ctx context.Context, s *server, j *apiv1.Job) ([]*apiv1.Stall, error) {
	all, err := listStalls(ctx, s, &apiv1.ListStallsRequest{})
	if err != nil {
		return nil, err
	}
	tasks, err := listTasks(ctx, s, &apiv1.ListTasksRequest{Job: j.GetName()})
	if err != nil {
		return nil, err
	}
	named, nodes := map[string]bool{}, map[string]bool{}
	for _, stall := range j.GetStalls() {
		named[stall.GetSource()] = true
		for _, x := range stall.GetFacts().GetExcluded() {
			named[x.GetSource()] = true
		}
	}
	for _, t := range tasks {
		nodes[t.GetNodeId()] = true
	}
	return slices.DeleteFunc(all, func(x *apiv1.Stall) bool {
		switch x.GetSubject().GetKind() {
		case "cluster":
			return false
		case "plugin":
			return !named[x.GetSubject().GetId()]
		case "node":
			return !nodes[x.GetNodeId()]
		}
		return true
	}), nil
}

// whysOf asks for each task of a job that waits for a node; of those that wait for the same only the first is kept.
func whysOf(ctx context.Context, s *server, job string) ([]*apiv1.WhyTaskResponse, error) {
	tasks, err := listTasks(ctx, s, &apiv1.ListTasksRequest{Job: job})
	if err != nil {
		return nil, err
	}
	var out []*apiv1.WhyTaskResponse
	seen := map[string]bool{}
	for _, t := range tasks {
		key := fmt.Sprint(t.GetJobVersion())
		for _, stall := range t.GetStalls() {
			key += "|" + stall.GetSource() + stall.GetCode() + stall.GetMessage()
		}
		if t.GetNodeId() != "" || len(t.GetStalls()) == 0 || seen[key] {
			continue
		}
		seen[key] = true
		why, err := ask(ctx, s, s.WhyTask, &apiv1.WhyTaskRequest{Task: t.GetId()})
		switch {
		case client.IsNotFound(err):
			continue // it has ended since
		case err != nil:
			return nil, err
		}
		out = append(out, why)
	}
	return out, nil
}
