package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/view"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

func (a *app) jobInspect() *cobra.Command {
	return &cobra.Command{
		Use: "inspect NAME", Short: "Show all of a job: its slots, tasks, update, versions and what it waits for", Args: takes(1, 1),
		Example: "  setpoint job inspect web\n  setpoint job inspect web -o yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.connect()
			if err != nil {
				return err
			}
			res, err := ask(cmd.Context(), s, s.GetJob, &apiv1.GetJobRequest{Job: args[0]})
			if err != nil {
				return err
			}
			j := res.GetJob()
			j.Stalls = stallsOf(cmd.Context(), s, j)
			return a.print(view.OfJob(j), func(w io.Writer, style console.Style) { writeJob(w, style, time.Now(), j) })
		},
	}
}

func writeJob(w io.Writer, style console.Style, now time.Time, j *apiv1.Job) {
	fields := console.NewTable(style.Bold(j.GetName()), j.GetType()+", version "+fmt.Sprint(j.GetVersion()))
	fields.Row("state", jobState(style, j.GetState()))
	fields.Row("up", upOf(j))
	if u := j.GetUpdate(); u != nil {
		fields.Row("update", updateText(u))
	}
	if r := j.GetRebalance(); r != nil {
		fields.Row("rebalance", rebalanceText(r))
	}
	fields.Row("changed", ago(now, j.GetChanged())+" ago")
	fields.Write(w, console.Style{})
	if len(j.GetSlots()) > 0 {
		fmt.Fprintln(w)
		writeSlots(w, style, now, j)
	}
	if len(j.GetVersions()) > 0 {
		fmt.Fprintln(w)
		table := console.NewTable("VERSION", "MADE", "BY", "WHY")
		for _, v := range j.GetVersions() {
			table.Row(fmt.Sprint(v.GetVersion()), ago(now, v.GetCreated())+" ago", authorOf(v.GetBy()), v.GetReason())
		}
		table.Write(w, style)
	}
	writeStalls(w, style, now, j.GetStalls())
}

// writeSlots writes a table of a job's slots, with the nodes to which they are limited if any is.
func writeSlots(w io.Writer, style console.Style, now time.Time, j *apiv1.Job) {
	headings := []string{"SLOT", "NODES", "VERSION", "STATE", "FOR", "RESTARTS", "TASK"}
	limited := slices.ContainsFunc(j.GetSlots(), func(s *apiv1.Slot) bool { return len(s.GetNodes()) > 0 })
	if !limited {
		headings = slices.Delete(headings, 1, 2)
	}
	table := console.NewTable(headings...)
	for _, s := range j.GetSlots() {
		state, since := slotState(style, s)
		cells := []string{s.GetKey(), strings.Join(s.GetNodes(), " "), slotVersion(j, s), state, console.Since(now, since), restartsOf(s), s.GetTask()}
		if !limited {
			cells = slices.Delete(cells, 1, 2)
		}
		table.Row(cells...)
	}
	table.Write(w, style)
}

// slotVersion says which version a slot is to run, and which one it runs if that has another content.
func slotVersion(j *apiv1.Job, s *apiv1.Slot) string {
	text, content := fmt.Sprint(s.GetVersion()), map[uint64]uint64{}
	for _, v := range j.GetVersions() {
		content[v.GetVersion()] = v.GetSpecVersion()
	}
	if s.GetRuns() != 0 && content[s.GetRuns()] != content[s.GetVersion()] {
		text += fmt.Sprintf(", runs %d", s.GetRuns())
	}
	return text
}

func slotState(style console.Style, s *apiv1.Slot) (string, time.Time) {
	switch {
	case s.GetUnwanted():
		return "unwanted", time.Time{}
	case s.GetHeld() != "":
		return style.Yellow("held: " + s.GetHeld()), timeOf(s.GetNotUpSince())
	case s.GetFailed():
		return style.Red("failed"), timeOf(s.GetNotUpSince())
	case s.GetDone():
		return style.Green("done"), time.Time{}
	case s.GetUp():
		return style.Green("up"), timeOf(s.GetUpSince())
	}
	return style.Yellow("not up: " + s.GetNotUpWhy()), timeOf(s.GetNotUpSince())
}

func updateText(u *apiv1.Update) string {
	state := strings.ReplaceAll(u.GetState(), "_", " ")
	text := fmt.Sprintf("%s, version %d to %d, %d of %d moved", state, u.GetFrom(), u.GetTo(), u.GetMoved(), u.GetTotal())
	if u.GetTotal() == 0 {
		text = fmt.Sprintf("%s, version %d to %d, nothing had to move", state, u.GetFrom(), u.GetTo())
	}
	if u.GetFailures() > 0 {
		text += fmt.Sprintf(", %d failed", u.GetFailures())
	}
	if message := u.GetMessage(); message != "" && message != "completed" {
		text += " (" + u.GetMessage() + ")"
	}
	return text
}

func rebalanceText(r *apiv1.Rebalance) string {
	if r.GetActive() {
		return fmt.Sprintf("under way, %d moved", r.GetMoved())
	}
	how := "ended"
	if r.GetCancelled() {
		how = "cancelled by an operator"
	}
	return fmt.Sprintf("%s, %d moved", how, r.GetMoved())
}

// restartsOf says how often a slot's task was started again: of a limited number within its window, and in a row without staying up, which is counted without a
// limit too.
func restartsOf(s *apiv1.Slot) string {
	var parts []string
	if n := s.GetRestarts(); n > 0 {
		parts = append(parts, fmt.Sprintf("%d spent", n))
	}
	if n := s.GetBackoff(); n > 0 {
		parts = append(parts, fmt.Sprintf("%d in a row", n))
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}
