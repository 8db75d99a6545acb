package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/view"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

func (a *app) taskHistory() *cobra.Command {
	return &cobra.Command{
		Use: "history ID", Short: "Show what became of a task: who asked, on what facts, and what it waited for; JOB/SLOT is the slot's newest", Args: takes(1, 1),
		Example: "  setpoint task history web/1",
		Long: `Shows what became of a task from its beginning on: why it was made and by whose command, among how many nodes its own was chosen, who wanted it to stop,
what its agent observed, and what it waited for and how long. It is read from the server's log, also of tasks that there are no more, as far back as
that reaches; what is missing is said.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.connect()
			if err != nil {
				return err
			}
			res, err := ask(cmd.Context(), s, s.TaskHistory, &apiv1.TaskHistoryRequest{Task: args[0]})
			if err != nil {
				return err
			}
			return a.print(view.OfTaskHistory(res), func(w io.Writer, style console.Style) { writeTaskHistory(w, style, res) })
		},
	}
}

func writeTaskHistory(w io.Writer, style console.Style, h *apiv1.TaskHistoryResponse) {
	how := "its record is gone"
	if t := h.GetNow(); t != nil {
		how = phaseText(style, t.GetPhase())
	}
	fmt.Fprintf(w, "%s: %s\n", style.Bold(h.GetTask()), how)
	if h.GetCut() != "" {
		fmt.Fprintln(w, style.Yellow("  "+h.GetCut()))
	}
	table := console.NewTable("TIME", "REVISION", "WHAT", "BY")
	for _, e := range h.GetEntries() {
		revision := ""
		if r := e.GetRevision(); r > 0 {
			revision = fmt.Sprint(r)
		}
		by := e.GetBy()
		if by == "" && e.GetAuthor() == "operator" {
			by = "an operator"
		}
		table.Row(timeOf(e.GetTime()).Local().Format(time.DateTime), revision, e.GetText(), by)
		for _, fact := range e.GetFacts() {
			table.Row(" ", " ", "  "+fact, " ")
		}
	}
	fmt.Fprintln(w)
	table.Write(w, style)
	if len(h.GetStalls()) == 0 {
		fmt.Fprintln(w, "\nIt waited for nothing.")
		return
	}
	fmt.Fprintln(w, "\nIt waited:")
	for _, p := range h.GetStalls() {
		writePastStall(w, style, p)
	}
}

func writePastStall(w io.Writer, style console.Style, p *apiv1.PastStall) {
	s := p.GetStall()
	since := timeOf(s.GetSince())
	text := fmt.Sprintf("since %s", since.Local().Format(time.DateTime))
	if p.GetUntil() != nil {
		until := timeOf(p.GetUntil())
		text = fmt.Sprintf("for %s, %s to %s", console.Since(until, since), since.Local().Format(time.TimeOnly), until.Local().Format(time.TimeOnly))
	}
	if p.GetFromRevision() > 0 {
		text += fmt.Sprintf(", from revision %d", p.GetFromRevision())
	}
	fmt.Fprintf(w, "  %s %s %s: %s\n", text, style.Red(s.GetCode()), style.Faint("("+s.GetSource()+")"), s.GetMessage())
}
