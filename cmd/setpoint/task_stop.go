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

func (a *app) taskStop() *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "stop ID", Aliases: []string{"restart"}, Short: "Stop one task; its slot gets another, so that this restarts it", Args: takes(1, 1),
		Long: `Stops one task, at once and whatever the job's budget says. Its slot is wanted as before and gets another task as soon as this one was seen to stop, of the
version that the slot runs and placed as any other: perhaps on another node. That spends none of the job's restarts and waits for no delay. So to stop a task is to
restart it; to have fewer, scale the job, and to keep a node empty, drain it. JOB/SLOT is the slot's newest task.`,
		Example: "  setpoint task stop web/1 --wait 1m\n  setpoint task stop web/1/7 --kill",
		RunE: func(cmd *cobra.Command, args []string) error {
			req, err := stopTaskRequest(cmd, args[0])
			if err != nil {
				return err
			}
			return a.stopTask(cmd.Context(), req, wait)
		},
	}
	waitFlag(cmd, &wait, "its slot is up again")
	cmd.Flags().Duration("grace", 0, "how `long` it may take before it is killed (default: as its job says)")
	cmd.Flags().Bool("kill", false, "kill it")
	return cmd
}

// stopTaskRequest reads how a task is to be stopped.
func stopTaskRequest(cmd *cobra.Command, task string) (*apiv1.StopTaskRequest, error) {
	req, given := &apiv1.StopTaskRequest{Task: task}, cmd.Flags().Changed("grace")
	grace, err := cmd.Flags().GetDuration("grace")
	if err != nil {
		return nil, err
	}
	kill, err := cmd.Flags().GetBool("kill")
	switch {
	case err != nil:
		return nil, err
	case kill && given:
		return nil, refuse("--kill is a grace of nothing.", "--kill and --grace are both given")
	case grace < 0:
		return nil, refuse("Say 0 or more, such as 10s.", "a grace of %s makes no sense", grace)
	case kill || given:
		req.Grace = durationpb.New(grace)
	}
	return req, nil
}

func (a *app) stopTask(ctx context.Context, req *apiv1.StopTaskRequest, wait time.Duration) error {
	s, err := a.connect()
	if err != nil {
		return err
	}
	res, err := ask(ctx, s, s.StopTask, req)
	if err != nil {
		return err
	}
	t := res.GetTask()
	if wait > 0 {
		return a.followSlot(ctx, s, t, wait)
	}
	return a.print(view.OfTaskChange(res), func(w io.Writer, style console.Style) {
		note := ""
		if !res.GetChanged() {
			note = ", as it was told before"
		}
		fmt.Fprintf(w, "%s: %s%s\n", t.GetId(), phaseText(style, t.GetPhase()), note)
	})
}

// followSlot waits until the slot of a task that was told to stop has another one that is up.
func (a *app) followSlot(ctx context.Context, s *server, old *apiv1.Task, limit time.Duration) error {
	slot := old.GetJob() + "/" + old.GetSlot()
	newest := old
	err := a.wait(ctx, limit, func(ctx context.Context) (bool, error) {
		res, err := ask(ctx, s, s.GetTask, &apiv1.GetTaskRequest{Task: slot})
		if err != nil {
			return false, err
		}
		newest = res.GetTask()
		return newest.GetId() != old.GetId() && newest.GetPhase() == "running", nil
	})
	switch {
	case errors.Is(err, errTimeout):
		return &failure{
			code: exitStalled, text: fmt.Sprintf("slot %s is not up again after %s: its newest task %s is %s", slot, limit, newest.GetId(), newest.GetPhase()),
			hint: fmt.Sprintf("`setpoint task why %s` says what it waits for.", slot),
		}
	case err != nil:
		return err
	}
	return a.print(view.OfTask(newest), func(w io.Writer, style console.Style) {
		fmt.Fprintf(w, "%s: %s on %s, after %s\n", newest.GetId(), phaseText(style, newest.GetPhase()), newest.GetNode(), old.GetId())
	})
}
