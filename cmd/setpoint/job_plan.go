package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/view"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/wire"
)

// planning is how something is tried instead of done.
type planning struct {
	dryRun  bool
	horizon time.Duration
	all     bool
	beside  *apiv1.NodeResponse // what is shown before the plan, of a node whose labels would change
}

// flags adds --dry-run and what goes with it.
func (p *planning) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&p.dryRun, "dry-run", false, "only show what would follow, step by step (exit code 3 if something would stall)")
	p.details(cmd)
}

func (p *planning) details(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&p.horizon, "horizon", 0, "look so `far` ahead at most (default 1h)")
	cmd.Flags().BoolVar(&p.all, "all", false, "show also what only waits for a while")
}

func (a *app) jobPlan() *cobra.Command {
	var p planning
	var f fileFlags
	cmd := &cobra.Command{
		Use: "plan FILE", Short: "Show what running a file would create, stop, move and stall, without doing it", Args: takes(1, 1),
		Example: "  setpoint job plan web.hcl",
		Long: `Shows what running the jobs of a file would create, stop, move and stall, step by step, without doing it. FILE is - for standard input.

The server tries it on a copy of its state, in made-up time, by the same rules by which it decides in earnest; plugins are asked about that copy. What the
result rests on is listed below it. With --output json all of it is printed, also what waits for a while only.
Exit codes: 0 if everything would come to be as asked, 3 if something would stall or was still moving at the end.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := a.readJobs(cmd.Context(), args[0], f)
			if err != nil {
				return err
			}
			s, err := a.connect()
			if err != nil {
				return err
			}
			if err := a.checkJobs(cmd.Context(), s, file); err != nil {
				return err
			}
			var commands []*apiv1.PlanCommand
			for _, job := range file.Jobs {
				run := &apiv1.RunJobRequest{Spec: wire.JobSpecToProto(&job.Spec), HasDefaults: true}
				commands = append(commands, &apiv1.PlanCommand{Command: &apiv1.PlanCommand_RunJob{RunJob: run}})
			}
			return a.plan(cmd.Context(), s, p, commands...)
		},
	}
	p.details(cmd)
	f.add(cmd)
	f.addAccept(cmd)
	return cmd
}

// orTry gives a command --dry-run, with which what it asks for is only tried.
func (a *app) orTry(cmd *cobra.Command, command planner) *cobra.Command {
	var p planning
	p.flags(cmd)
	do := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !p.dryRun {
			return do(cmd, args)
		}
		tried, err := command(cmd, args)
		if err != nil {
			return err
		}
		a.tryAtVersion(tried)
		s, err := a.connect()
		if err != nil {
			return err
		}
		return a.plan(cmd.Context(), s, p, tried)
	}
	return cmd
}

// tryAtVersion makes a command that is only tried one for the version of its job that was named.
func (a *app) tryAtVersion(tried *apiv1.PlanCommand) {
	m := tried.ProtoReflect()
	which := m.WhichOneof(m.Descriptor().Oneofs().ByName("command"))
	if a.ifVersion == 0 || which == nil {
		return
	}
	if field := which.Message().Fields().ByName("if_version"); field != nil {
		m.Mutable(which).Message().Set(field, protoreflect.ValueOfUint64(a.ifVersion))
	}
}

// What follows is what commands ask for when they are only tried.

func tryStop(grace *durationpb.Duration) planner {
	return func(_ *cobra.Command, args []string) (*apiv1.PlanCommand, error) {
		return &apiv1.PlanCommand{Command: &apiv1.PlanCommand_StopJob{StopJob: &apiv1.StopJobRequest{Job: args[0], Grace: grace}}}, nil
	}
}

func tryStart(_ *cobra.Command, args []string) (*apiv1.PlanCommand, error) {
	return &apiv1.PlanCommand{Command: &apiv1.PlanCommand_StartJob{StartJob: &apiv1.StartJobRequest{Job: args[0]}}}, nil
}

func tryRestart(_ *cobra.Command, args []string) (*apiv1.PlanCommand, error) {
	return &apiv1.PlanCommand{Command: &apiv1.PlanCommand_RestartJob{RestartJob: &apiv1.RestartJobRequest{Job: args[0]}}}, nil
}

func tryRebalance(_ *cobra.Command, args []string) (*apiv1.PlanCommand, error) {
	return &apiv1.PlanCommand{Command: &apiv1.PlanCommand_RebalanceJob{RebalanceJob: &apiv1.RebalanceJobRequest{Job: args[0]}}}, nil
}

func tryRemove(_ *cobra.Command, args []string) (*apiv1.PlanCommand, error) {
	return &apiv1.PlanCommand{Command: &apiv1.PlanCommand_RemoveJob{RemoveJob: &apiv1.RemoveJobRequest{Job: args[0]}}}, nil
}

func tryScale(_ *cobra.Command, args []string) (*apiv1.PlanCommand, error) {
	count, err := number(args[1], "COUNT")
	return &apiv1.PlanCommand{Command: &apiv1.PlanCommand_ScaleJob{ScaleJob: &apiv1.ScaleJobRequest{Job: args[0], Count: count}}}, err
}

func tryRollback(cmd *cobra.Command, args []string) (*apiv1.PlanCommand, error) {
	to, err := cmd.Flags().GetUint64("to")
	return &apiv1.PlanCommand{Command: &apiv1.PlanCommand_RollbackJob{RollbackJob: &apiv1.RollbackJobRequest{Job: args[0], To: to}}}, err
}

func tryAvailability(to string) planner {
	return func(cmd *cobra.Command, args []string) (*apiv1.PlanCommand, error) {
		req := &apiv1.SetAvailabilityRequest{Nodes: args, Availability: to}
		if f := cmd.Flags().Lookup("deadline"); f != nil {
			deadline, err := cmd.Flags().GetDuration("deadline")
			if err != nil {
				return nil, err
			}
			if deadline > 0 {
				req.DrainDeadline = durationpb.New(deadline)
			}
		}
		return &apiv1.PlanCommand{Command: &apiv1.PlanCommand_SetAvailability{SetAvailability: req}}, nil
	}
}

func tryDecommission(cmd *cobra.Command, args []string) (*apiv1.PlanCommand, error) {
	force, err := cmd.Flags().GetBool("force")
	return &apiv1.PlanCommand{Command: &apiv1.PlanCommand_DecommissionNode{DecommissionNode: &apiv1.DecommissionNodeRequest{Node: args[0], Force: force}}}, err
}

func tryUpdate(action string) planner {
	return func(_ *cobra.Command, args []string) (*apiv1.PlanCommand, error) {
		return &apiv1.PlanCommand{Command: &apiv1.PlanCommand_ControlUpdate{ControlUpdate: &apiv1.ControlUpdateRequest{Job: args[0], Action: action}}}, nil
	}
}

func tryStopTask(cmd *cobra.Command, args []string) (*apiv1.PlanCommand, error) {
	req, err := stopTaskRequest(cmd, args[0])
	return &apiv1.PlanCommand{Command: &apiv1.PlanCommand_StopTask{StopTask: req}}, err
}

// plan shows what commands would do.
func (a *app) plan(ctx context.Context, s *server, p planning, commands ...*apiv1.PlanCommand) error {
	req := &apiv1.PlanRequest{Commands: commands}
	if p.horizon > 0 {
		req.Horizon = durationpb.New(p.horizon)
	}
	res, err := ask(ctx, s, s.Plan, req)
	if err != nil {
		return err
	}
	var out any = view.OfPlan(res)
	if p.beside != nil {
		out = view.NodeTrial{NodeChange: view.OfNodeChange(p.beside), Plan: view.OfPlan(res)}
	}
	if err := a.print(out, func(w io.Writer, style console.Style) {
		if p.beside != nil {
			writeLabels(w, style, p.beside, true)
			fmt.Fprintln(w)
		}
		writePlan(w, style, res, p.all)
	}); err != nil {
		return err
	}
	if res.GetCounts().GetStall() > 0 || !res.GetSettled() {
		return errShown(exitStalled)
	}
	return nil
}

func writePlan(w io.Writer, style console.Style, plan *apiv1.PlanResponse, all bool) {
	fmt.Fprintln(w, style.Bold("Nothing is done; this would follow:"))
	table := console.NewTable("AFTER", "WHAT", "WHERE", "WHY")
	rows := 0
	for _, e := range withWaits(plan, all) {
		table.Row(after(e.GetAt()), planWhat(style, e), e.GetNode(), planWhy(e))
		rows++
	}
	if rows == 0 {
		fmt.Fprintln(w, "  nothing: no task would be created, stopped or moved")
	} else {
		table.Write(w, style)
	}
	if n := plan.GetEventsLeftOut(); n > 0 {
		fmt.Fprintf(w, "… and %d more\n", n)
	}
	c := plan.GetCounts()
	stalls := fmt.Sprintf("stall %d", c.GetStall())
	if c.GetStall() > 0 {
		stalls = style.Red(stalls)
	}
	fmt.Fprintf(w, "\nIn all: create %d, stop %d, move %d, replace %d, %s, within %s\n", c.GetCreate(), c.GetStop(), c.GetMove(), c.GetReplace(), stalls, after(plan.GetTook())[1:])
	for _, x := range plan.GetStalls() {
		clears := x.GetStall().GetClears()
		if x.GetEnds() == nil && !x.GetBefore() && !x.GetHeld() && clears != "" && !strings.Contains(x.GetStall().GetMessage(), clears) {
			fmt.Fprintf(w, "  %s clears when: %s\n", stallSubject(x.GetStall()), clears)
		}
	}
	if n := oldStalls(plan); n > 0 {
		fmt.Fprintf(w, "  %s that there %s already would stay\n", console.Count(int64(n), "stall"), map[bool]string{true: "is", false: "are"}[n == 1])
	}
	fmt.Fprintf(w, "\nAssumed, from revision %d:\n", plan.GetRevision())
	for _, text := range plan.GetAssumptions() {
		fmt.Fprintln(w, "  "+text)
	}
}

// withWaits returns a plan's events; with all also what waits for a while, where it begins and where it ends.
func withWaits(plan *apiv1.PlanResponse, all bool) []*apiv1.PlanEvent {
	if !all {
		return plan.GetEvents()
	}
	out := slices.Clone(plan.GetEvents())
	for _, x := range plan.GetStalls() {
		if x.GetEnds() == nil || x.GetBefore() {
			continue
		}
		s := x.GetStall()
		text := fmt.Sprintf("%s: %s, until %s", s.GetCode(), s.GetMessage(), after(x.GetEnds()))
		out = append(out, &apiv1.PlanEvent{At: x.GetBegins(), Kind: "wait", Job: s.GetJob(), Slot: s.GetSlot(), Text: text, By: s.GetSource()})
	}
	slices.SortStableFunc(out, func(a, b *apiv1.PlanEvent) int { return cmp.Compare(a.GetAt().AsDuration(), b.GetAt().AsDuration()) })
	return out
}

func oldStalls(plan *apiv1.PlanResponse) int {
	n := 0
	for _, x := range plan.GetStalls() {
		if x.GetBefore() && x.GetEnds() == nil && !x.GetHeld() {
			n++
		}
	}
	return n
}

// after writes a made-up moment.
func after(d *durationpb.Duration) string {
	return "+" + d.AsDuration().Round(100*time.Millisecond).String()
}

func planWhat(style console.Style, e *apiv1.PlanEvent) string {
	what := e.GetJob()
	if e.GetSlot() != "" {
		what += "/" + e.GetSlot()
	}
	if e.GetTask() != "" {
		what = e.GetTask()
	}
	text := strings.TrimSpace(e.GetKind() + " " + what)
	switch e.GetKind() {
	case "create":
		return style.Green(text)
	case "stop", "wait":
		return style.Yellow(text)
	case "stall":
		return style.Red(text)
	}
	return text
}

func planWhy(e *apiv1.PlanEvent) string {
	if by := e.GetBy(); by != "" && by != "core" && by != "placement" {
		return cmp.Or(e.GetText(), "—") + " (" + by + ")"
	}
	return e.GetText()
}
