package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/view"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

func (a *app) jobCommand() *cobra.Command {
	return group("job", "Run jobs, change them, and see how they are",
		a.jobRun(), a.jobPlan(), a.jobValidate(), a.jobConvert(), a.jobFmt(), a.jobInit(), a.jobSchema(), a.jobList(), named(a.jobInspect()), a.jobWhy(), named(a.jobHistory()),
		a.orTry(a.asks(a.jobStop(), tryStop(nil)), tryStop(nil)), a.orTry(a.asks(a.jobKill(), tryStop(durationpb.New(0))), tryStop(durationpb.New(0))),
		a.orTry(a.jobStart(), tryStart),
		a.orTry(a.jobRestart(), tryRestart), a.orTry(a.asks(a.jobScale(), tryScale), tryScale), a.orTry(a.jobRollback(), tryRollback),
		a.orTry(a.jobRebalance(), tryRebalance), a.orTry(a.jobUpdate("pause", "Pause a job's update: no further slot moves"), tryUpdate("pause")),
		a.orTry(a.jobUpdate("resume", "Go on with an update that is paused or was cancelled"), tryUpdate("resume")),
		a.orTry(a.jobUpdate("cancel", "End a job's update or rebalance: slots keep the version that they have, tasks stay where they are"), tryUpdate("cancel")),
		a.orTry(a.asks(a.jobRemove(), tryRemove), tryRemove))
}

func (a *app) jobList() *cobra.Command {
	return list(a, &cobra.Command{
		Use: "ls", Short: "List jobs",
		Example: "  setpoint job ls --watch\n  setpoint job ls -l team=web -o name | xargs -n1 setpoint job restart",
	}, &listing[*apiv1.Job]{
		fetch: listJobs, view: viewed(view.OfJobs), labels: func(j *apiv1.Job) map[string]string { return j.GetSpec().GetLabels() },
		columns: []column[*apiv1.Job]{
			{"NAME", func(_ pen, j *apiv1.Job) string { return j.GetName() }, always},
			{"TYPE", func(_ pen, j *apiv1.Job) string { return j.GetType() }, always},
			{"STATE", func(p pen, j *apiv1.Job) string { return jobState(p.style, j.GetState()) }, always},
			{"UP", func(_ pen, j *apiv1.Job) string { return upOf(j) }, always},
			{"VERSION", func(_ pen, j *apiv1.Job) string { return versionOf(j) }, always},
			{"STALLS", func(p pen, j *apiv1.Job) string {
				if n := len(j.GetStalls()); n > 0 {
					return p.style.Red(fmt.Sprint(n))
				}
				return ""
			}, always},
			{"CHANGED", func(p pen, j *apiv1.Job) string { return ago(p.now, j.GetChanged()) }, ages},
			{"UPDATE", func(_ pen, j *apiv1.Job) string {
				if u := j.GetUpdate(); u != nil {
					return updateText(u)
				}
				return ""
			}, wide},
			{"LABELS", func(_ pen, j *apiv1.Job) string { return pairs(j.GetSpec().GetLabels()) }, wide},
		},
	})
}

// listJobs returns all jobs by their names.
func listJobs(ctx context.Context, s *server) ([]*apiv1.Job, error) {
	return pages(func(token string) (*apiv1.ListJobsResponse, error) {
		return ask(ctx, s, s.ListJobs, &apiv1.ListJobsRequest{PageToken: token})
	}, func(r *apiv1.ListJobsResponse) ([]*apiv1.Job, string) { return r.GetJobs(), r.GetNextPageToken() })
}

// versionOf is a job's newest version, and how many slots do not have it although no update moves them.
func versionOf(j *apiv1.Job) string {
	text := fmt.Sprint(j.GetVersion())
	if n := j.GetCounts().GetStale(); n > 0 && j.GetState() != "updating" {
		text += fmt.Sprintf(" (%d not updated)", n)
	}
	return text
}

// asWanted returns how many slots are up, or ended well.
func asWanted(c *apiv1.JobCounts) int64 { return c.GetUp() + c.GetDone() - c.GetFailed() }

// upOf says how many of a job's wanted slots are as they should be.
func upOf(j *apiv1.Job) string {
	c := j.GetCounts()
	text := fmt.Sprintf("%d/%d", asWanted(c), c.GetWanted())
	if c.GetLimited() && c.GetEligible() < c.GetEligibleOf() {
		text += fmt.Sprintf(" (%d eligible of %d)", c.GetEligible(), c.GetEligibleOf())
	}
	return text
}

func jobState(style console.Style, state string) string {
	switch state {
	case "running", "complete":
		return style.Green(state)
	case "stalled", "failed", "paused":
		return style.Red(state)
	case "starting", "updating", "rebalancing", "stopping":
		return style.Yellow(state)
	}
	return state
}

// change runs a command about a job and, if wait is not 0, waits until the job is as was asked for.
func (a *app) change(ctx context.Context, wait time.Duration, call func(*server) (*apiv1.JobResponse, error), done judgement) error {
	s, err := a.connect()
	if err != nil {
		return err
	}
	res, err := call(s)
	if err != nil {
		return err
	}
	if wait > 0 {
		return a.followAll(ctx, s, []*apiv1.JobResponse{res}, wait, done)
	}
	return a.print(view.OfJobChange(res), func(w io.Writer, style console.Style) {
		j := res.GetJob()
		if !res.GetChanged() {
			fmt.Fprintf(w, "%s: nothing to change (%s)\n", j.GetName(), jobState(style, j.GetState()))
			return
		}
		fmt.Fprintf(w, "%s: version %d, %s\n", j.GetName(), j.GetVersion(), jobState(style, j.GetState()))
	})
}

func (a *app) jobStop() *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "stop NAME", Short: "Stop a job's tasks and keep the job; `job start` takes it back", Args: takes(1, 1),
		Example: "  setpoint job stop web --dry-run\n  setpoint job stop web --wait 1m",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.change(cmd.Context(), wait, func(s *server) (*apiv1.JobResponse, error) {
				return ask(cmd.Context(), s, s.StopJob, &apiv1.StopJobRequest{Job: args[0], IfVersion: a.ifVersion})
			}, stopped)
		},
	}
	waitFlag(cmd, &wait, "every task was seen to stop")
	a.forVersion(cmd)
	return cmd
}

func (a *app) jobKill() *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "kill NAME", Short: "Stop a job's tasks without giving them time, and keep the job", Args: takes(1, 1),
		Example: "  setpoint job kill web --yes --wait 30s",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.change(cmd.Context(), wait, func(s *server) (*apiv1.JobResponse, error) {
				return ask(cmd.Context(), s, s.StopJob, &apiv1.StopJobRequest{Job: args[0], IfVersion: a.ifVersion, Grace: durationpb.New(0)})
			}, stopped)
		},
	}
	waitFlag(cmd, &wait, "every task was seen to stop")
	a.forVersion(cmd)
	return cmd
}

func (a *app) jobStart() *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "start NAME", Short: "Start a job that was stopped", Args: takes(1, 1),
		Example: "  setpoint job start web --wait 1m",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.change(cmd.Context(), wait, func(s *server) (*apiv1.JobResponse, error) {
				return ask(cmd.Context(), s, s.StartJob, &apiv1.StartJobRequest{Job: args[0], IfVersion: a.ifVersion})
			}, running)
		},
	}
	waitFlag(cmd, &wait, "it runs")
	a.forVersion(cmd)
	return cmd
}

func (a *app) jobRestart() *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "restart NAME", Short: "Replace every task, at the pace of the job's update section", Args: takes(1, 1),
		Example: "  setpoint job restart web --wait 5m",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.change(cmd.Context(), wait, func(s *server) (*apiv1.JobResponse, error) {
				return ask(cmd.Context(), s, s.RestartJob, &apiv1.RestartJobRequest{Job: args[0], IfVersion: a.ifVersion})
			}, running)
		},
	}
	waitFlag(cmd, &wait, "every task was replaced")
	a.forVersion(cmd)
	return cmd
}

func (a *app) jobScale() *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "scale NAME COUNT", Short: "Change how many slots a job has", Args: takes(2, 2),
		Example: "  setpoint job scale web 5 --wait 1m",
		RunE: func(cmd *cobra.Command, args []string) error {
			count, err := number(args[1], "COUNT")
			if err != nil {
				return err
			}
			return a.change(cmd.Context(), wait, func(s *server) (*apiv1.JobResponse, error) {
				return ask(cmd.Context(), s, s.ScaleJob, &apiv1.ScaleJobRequest{Job: args[0], IfVersion: a.ifVersion, Count: count})
			}, scaled)
		},
	}
	waitFlag(cmd, &wait, "new tasks run and surplus ones were seen to stop")
	a.forVersion(cmd)
	return cmd
}

func (a *app) jobRollback() *cobra.Command {
	var wait time.Duration
	var to uint64
	cmd := &cobra.Command{
		Use: "rollback NAME", Short: "Go back to an earlier version of a job", Args: takes(1, 1),
		Example: "  setpoint job rollback web --wait 5m\n  setpoint job rollback web --to 3",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.change(cmd.Context(), wait, func(s *server) (*apiv1.JobResponse, error) {
				return ask(cmd.Context(), s, s.RollbackJob, &apiv1.RollbackJobRequest{Job: args[0], IfVersion: a.ifVersion, To: to})
			}, running)
		},
	}
	cmd.Flags().Uint64Var(&to, "to", 0, "the `version`; `setpoint job inspect` shows them (default: the one before the current)")
	waitFlag(cmd, &wait, "it runs")
	a.forVersion(cmd)
	return cmd
}

func (a *app) jobRebalance() *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "rebalance NAME", Short: "Move tasks to where they would be placed now", Args: takes(1, 1),
		Example: "  setpoint job rebalance web --dry-run\n  setpoint job rebalance web --wait 5m",
		Long: `Moves tasks to where they would be placed now: off nodes that have more of the job's tasks than others, such as after a node came back.

It keeps to the job's max_unavailable and order, moves only what fits elsewhere now, and ends by itself; ` + "`setpoint job cancel` ends it early." + ` Nothing is ever
rebalanced unasked.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.change(cmd.Context(), wait, func(s *server) (*apiv1.JobResponse, error) {
				return ask(cmd.Context(), s, s.RebalanceJob, &apiv1.RebalanceJobRequest{Job: args[0], IfVersion: a.ifVersion})
			}, rebalanced)
		},
	}
	waitFlag(cmd, &wait, "no task would be placed elsewhere, and all run")
	a.forVersion(cmd)
	return cmd
}

func (a *app) jobUpdate(action, short string) *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use: action + " NAME", Short: short, Args: takes(1, 1), Example: "  setpoint job " + action + " web",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.change(cmd.Context(), wait, func(s *server) (*apiv1.JobResponse, error) {
				return ask(cmd.Context(), s, s.ControlUpdate, &apiv1.ControlUpdateRequest{Job: args[0], IfVersion: a.ifVersion, Action: action})
			}, running)
		},
	}
	if action == "resume" {
		waitFlag(cmd, &wait, "the update is complete")
	}
	a.forVersion(cmd)
	return cmd
}

func (a *app) jobRemove() *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "rm NAME", Aliases: []string{"remove"}, Short: "Stop a job's tasks and forget the job", Args: takes(1, 1),
		Example: "  setpoint job rm web --dry-run\n  setpoint job rm web --wait 1m",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.connect()
			if err != nil {
				return err
			}
			if _, err := ask(cmd.Context(), s, s.RemoveJob, &apiv1.RemoveJobRequest{Job: args[0], IfVersion: a.ifVersion}); err != nil {
				return err
			}
			if wait > 0 {
				if err := a.awaitGone(cmd.Context(), s, args[0], wait); err != nil {
					return err
				}
			}
			return a.print(map[string]any{"name": args[0], "removed": true}, func(w io.Writer, _ console.Style) {
				fmt.Fprintf(w, "%s: removed\n", args[0])
			})
		},
	}
	waitFlag(cmd, &wait, "its tasks were seen to stop")
	a.forVersion(cmd)
	return cmd
}

// awaitGone waits until nothing of a removed job runs.
func (a *app) awaitGone(ctx context.Context, s *server, job string, limit time.Duration) error {
	progress := a.progress()
	var left []*apiv1.Task
	err := a.wait(ctx, limit, func(ctx context.Context) (bool, error) {
		tasks, err := listTasks(ctx, s, &apiv1.ListTasksRequest{Job: job})
		if err != nil {
			return false, err
		}
		if left = tasks; len(left) > 0 {
			progress.Show(fmt.Sprintf("%s: %s stopping", job, console.Count(int64(len(left)), "task")))
		}
		return len(left) == 0, nil
	})
	progress.End()
	if errors.Is(err, errTimeout) {
		w, style := a.errOut, a.style(a.errOut)
		fmt.Fprintf(w, "%s: removed; after %s these have not been seen to stop:\n", job, limit)
		writeTasks(w, style, left)
		return errShown(exitStalled)
	}
	return err
}

// forVersion adds the flag that makes a command one for a certain version of its job.
func (a *app) forVersion(cmd *cobra.Command) {
	cmd.Flags().Uint64Var(&a.ifVersion, "if-version", 0, "do nothing unless this is the job's `version` (default: whatever it is)")
}
