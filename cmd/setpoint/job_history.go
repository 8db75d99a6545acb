package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/view"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

func (a *app) jobHistory() *cobra.Command {
	return &cobra.Command{
		Use: "history NAME [VERSION [VERSION]]", Short: "Show a job's versions: who made them, when, why, and what each changed", Args: takes(1, 3),
		Long: `Shows the versions of a job that are kept: who made them, when and why, how many slots are to run them, and what each changed.

With one version it shows what that one changed against the one before it, with two in what the second differs from the first.
` + "`setpoint job rollback NAME --to VERSION` goes back to one of them.",
		Example: "  setpoint job history web\n  setpoint job history web 3\n  setpoint job history web 1 3",
		RunE: func(cmd *cobra.Command, args []string) error {
			var versions []uint64
			for _, arg := range args[1:] {
				n, err := number(arg, "VERSION")
				if err != nil {
					return err
				}
				versions = append(versions, uint64(n))
			}
			s, err := a.connect()
			if err != nil {
				return err
			}
			res, err := ask(cmd.Context(), s, s.GetJob, &apiv1.GetJobRequest{Job: args[0]})
			if err != nil {
				return err
			}
			j := res.GetJob()
			if len(versions) == 0 {
				h := view.OfJobHistory(j)
				return a.print(h, func(w io.Writer, style console.Style) { writeJobHistory(w, style, &h) })
			}
			return a.compareVersions(j, versions)
		},
	}
}

// compareVersions shows in what one version differs from another, or from the one before it.
func (a *app) compareVersions(j *apiv1.Job, versions []uint64) error {
	from, to := versions[0], versions[len(versions)-1]
	if len(versions) == 1 {
		if from = versionBefore(j, to); from == 0 && to != 0 {
			return refuse(keptVersions(j), "no version of job %s before version %d is kept", j.GetName(), to)
		}
	}
	c, kept := view.Compare(j, from, to)
	if !kept {
		missing := from
		if _, kept := view.Compare(j, from, from); kept {
			missing = to
		}
		return refuse(keptVersions(j), "version %d of job %s is not kept, or there never was one", missing, j.GetName())
	}
	return a.print(c, func(w io.Writer, style console.Style) {
		fmt.Fprintf(w, "%s: from version %d to version %d\n", style.Bold(c.Job), c.From, c.To)
		if len(versions) == 1 {
			writeVersion(w, j, to)
		}
		if len(c.Changes) == 0 {
			fmt.Fprintln(w, "  they ask for the same")
		}
		for _, x := range c.Changes {
			fmt.Fprintln(w, "  "+x.Path)
			was, is := valueLines(x.Path, x.From), valueLines(x.Path, x.To)
			for len(was) > 1 && len(is) > 1 && was[0] == is[0] { // of text of several lines only what differs is shown
				was, is = was[1:], is[1:]
			}
			for len(was) > 1 && len(is) > 1 && was[len(was)-1] == is[len(is)-1] {
				was, is = was[:len(was)-1], is[:len(is)-1]
			}
			for _, line := range was {
				fmt.Fprintln(w, style.Red("    - "+line))
			}
			for _, line := range is {
				fmt.Fprintln(w, style.Green("    + "+line))
			}
		}
	})
}

// writeVersion writes who made a version, when and why.
func writeVersion(w io.Writer, j *apiv1.Job, version uint64) {
	for _, v := range j.GetVersions() {
		if v.GetVersion() == version {
			fmt.Fprintf(w, "  made %s by %s: %s\n", timeOf(v.GetCreated()).Local().Format(time.DateTime), authorOf(v.GetBy()), v.GetReason())
		}
	}
}

// versionBefore returns the newest kept version that is older than one; 0 if none is.
func versionBefore(j *apiv1.Job, version uint64) uint64 {
	before := uint64(0)
	for _, v := range j.GetVersions() {
		if v.GetVersion() < version {
			before = max(before, v.GetVersion())
		}
	}
	return before
}

func keptVersions(j *apiv1.Job) string {
	var kept []string
	for _, v := range j.GetVersions() {
		kept = append(kept, fmt.Sprint(v.GetVersion()))
	}
	return "These are kept: " + strings.Join(kept, ", ") + "."
}

func writeJobHistory(w io.Writer, style console.Style, h *view.JobHistory) {
	table := console.NewTable("VERSION", "MADE", "BY", "SLOTS", "WHY", "CHANGED")
	for _, v := range h.Versions {
		made := ""
		if v.Created != nil {
			made = v.Created.Local().Format(time.DateTime)
		}
		lines := changeLines(v)
		table.Row(strconv.FormatUint(v.Version, 10), made, authorOf(v.By), strconv.Itoa(v.Slots), console.Shorten(v.Reason, reasonColumns), lines[0])
		for _, line := range lines[1:] {
			table.Row(" ", " ", " ", " ", " ", line)
		}
	}
	table.Write(w, style)
}

// authorOf names who made a version.
func authorOf(by string) string {
	if by == "" {
		return "the server"
	}
	return by
}

// changeLines says what a version changed, at least in one line.
func changeLines(v view.PastVersion) []string {
	var out []string
	for _, c := range v.Changes {
		from, to := console.Shorten(specValue(c.Path, c.From), valueColumns), console.Shorten(specValue(c.Path, c.To), valueColumns)
		switch {
		case from == "":
			out = append(out, c.Path+" = "+to)
		case to == "":
			out = append(out, c.Path+" is gone, was "+from)
		default:
			out = append(out, c.Path+": "+from+" → "+to)
		}
	}
	switch {
	case v.Against == 0 && v.Version == 1:
		return []string{"the job is new"}
	case v.Against == 0:
		return []string{"the version before is not kept"}
	case len(out) == 0:
		return []string{"nothing of what is asked for"}
	}
	return out
}

// How much of a value and of a reason a table shows.
const (
	valueColumns  = 50
	reasonColumns = 70
)

// valueLines returns a value line by line.
func valueLines(path string, value json.RawMessage) []string {
	var text string
	if json.Unmarshal(value, &text) == nil && strings.Contains(text, "\n") {
		return strings.Split(strings.TrimRight(text, "\n"), "\n")
	}
	if text = specValue(path, value); text != "" {
		return []string{text}
	}
	return nil
}

// specValue returns a value of a specification as people write it; "" if there is none.
func specValue(path string, value json.RawMessage) string {
	var n int64
	switch {
	case slices.Contains([]string{"", "null"}, string(value)):
		return ""
	case path == "task.resources.memory" && json.Unmarshal(value, &n) == nil:
		return console.Bytes(n)
	}
	return string(value)
}
