package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// confirmPatience is how long the server may take to find out what a command would stop, before somebody is asked without that.
const confirmPatience = 5 * time.Second

// planner says what a command asks for, so that it can be tried.
type planner func(cmd *cobra.Command, args []string) (*apiv1.PlanCommand, error)

// asks has a command that stops tasks ask first, with their number; it is not asked where none would stop. Where nobody is there to answer, it goes on: a script means
// what it says. --yes answers beforehand.
func (a *app) asks(cmd *cobra.Command, tried planner) *cobra.Command {
	return a.asking(cmd, func(cmd *cobra.Command, args []string) (string, error) {
		what, err := tried(cmd, args)
		if err != nil {
			return "", err
		}
		s, err := a.connect()
		if err != nil {
			return "", err
		}
		return a.wouldStop(cmd.Context(), s, what)
	})
}

// asking has a command ask what question returns; nothing, if that is "".
func (a *app) asking(cmd *cobra.Command, question func(cmd *cobra.Command, args []string) (string, error)) *cobra.Command {
	var yes bool
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask; without a terminal nothing is asked")
	do := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if yes || !a.interactive() {
			return do(cmd, args)
		}
		text, err := question(cmd, args)
		if err != nil {
			return err
		}
		if text != "" && !a.confirm(cmd.CommandPath()+" "+strings.Join(args, " ")+": "+text) {
			return refuse("--yes answers beforehand, --dry-run shows each step.", "nothing was done")
		}
		return do(cmd, args)
	}
	return cmd
}

// interactive reports whether somebody is there who can be asked.
func (a *app) interactive() bool {
	return a.terminal(a.in) && a.terminal(a.errOut)
}

// confirm asks a person. Anything but a yes is a no, the end of the input too.
func (a *app) confirm(text string) bool {
	fmt.Fprint(a.errOut, a.style(a.errOut).Yellow(text)+"\nGo on? [y/N] ")
	line, err := bufio.NewReader(a.in).ReadString('\n')
	if err != nil {
		fmt.Fprintln(a.errOut)
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes"
}

// wouldStop says how many tasks a command would stop, by the server's plan; "" if none. What the server refuses to plan, it refuses to do.
func (a *app) wouldStop(ctx context.Context, s *server, what *apiv1.PlanCommand) (string, error) {
	limited, cancel := context.WithTimeout(ctx, confirmPatience)
	defer cancel()
	plan, err := ask(limited, s, s.Plan, &apiv1.PlanRequest{Commands: []*apiv1.PlanCommand{what}})
	switch {
	case err != nil && ctx.Err() == nil && errors.Is(limited.Err(), context.DeadlineExceeded):
		return fmt.Sprintf("how many tasks that stops could not be found out within %s", confirmPatience), nil
	case err != nil:
		return "", err
	}
	return stopText(plan), nil
}

// stopText says how many tasks a plan stops, what becomes of them, and what would wait then; "" if it stops none.
func stopText(plan *apiv1.PlanResponse) string {
	var stops, waiting, again int64
	jobs := map[string]bool{}
	for _, slot := range plan.GetSlots() {
		if slot.GetTask() == "" || slot.GetChange() == "create" {
			continue
		}
		stops++
		jobs[slot.GetJob()] = true
		switch {
		case slot.GetWaiting():
			waiting++
		case slot.GetChange() != "stop":
			again++
		}
	}
	if stops == 0 {
		return ""
	}
	text := console.Count(stops, "task") + " would stop"
	if len(jobs) > 1 {
		text += fmt.Sprintf(", of %d jobs", len(jobs))
	}
	switch {
	case again == stops:
		text += ", and be replaced"
	case again > 0:
		text += fmt.Sprintf("; %d of them would be replaced", again)
	}
	if waiting > 0 {
		text += fmt.Sprintf("; for %d no node would be found", waiting)
	}
	if !plan.GetSettled() {
		text += "; more may follow"
	}
	return text + "."
}
