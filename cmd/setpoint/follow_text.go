package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// jobEnd says how a job is once it is as was asked for.
func jobEnd(style console.Style, j *apiv1.Job) string {
	c := j.GetCounts()
	text := fmt.Sprintf("%s: version %d %s", j.GetName(), j.GetVersion(), jobState(style, j.GetState()))
	switch j.GetState() {
	case "stopped":
	case "complete":
		text += fmt.Sprintf(", %d/%d done", asWanted(c), c.GetWanted())
	default:
		text += fmt.Sprintf(", %d/%d up", asWanted(c), c.GetWanted())
	}
	if c.GetLimited() || j.GetState() == "empty" {
		text += fmt.Sprintf(", %d eligible of %d", c.GetEligible(), c.GetEligibleOf())
	}
	return text + heldText(j)
}

// heldText says how many slots are held, by what is the matter with the nodes to which they are limited.
func heldText(j *apiv1.Job) string {
	words := map[string]string{
		string(cluster.CodeNodePaused): "paused", string(cluster.CodeNodeDraining): "draining", string(cluster.CodeNodeSilent): "silent", string(cluster.CodeNodeDown): "down",
	}
	counts, rest := map[string]int64{}, j.GetCounts().GetHeld()
	for _, s := range j.GetSlots() {
		if word := words[s.GetHeld()]; word != "" && !s.GetUnwanted() {
			counts[word]++
			rest--
		}
	}
	var text strings.Builder
	for _, word := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&text, ", %d %s", counts[word], word)
	}
	if rest > 0 {
		fmt.Fprintf(&text, ", %d held", rest)
	}
	return text.String()
}

// jobLine is one line about how far a job has come.
func jobLine(j *apiv1.Job) string {
	c, u := j.GetCounts(), j.GetUpdate()
	line := fmt.Sprintf("%s: version %d %s, %d/%d up", j.GetName(), j.GetVersion(), j.GetState(), asWanted(c), c.GetWanted())
	if n := c.GetDone() - c.GetFailed(); n > 0 {
		line += fmt.Sprintf(", %d done", n)
	}
	if n := c.GetFailed(); n > 0 {
		line += fmt.Sprintf(", %d failed", n)
	}
	if n := c.GetQueued(); n > 0 {
		line += fmt.Sprintf(", %d queued", n)
	}
	if u.GetState() == string(cluster.Updating) {
		line += fmt.Sprintf(", %d of %d moved", u.GetMoved(), u.GetTotal())
	}
	if c.GetStopping() > 0 {
		line += fmt.Sprintf(", %d stopping", c.GetStopping())
		if n := c.GetStoppingLost(); n > 0 {
			line += fmt.Sprintf(" (%d lost)", n)
		}
	}
	if c.GetStalled() > 0 {
		line += fmt.Sprintf(", %d stalled", c.GetStalled())
	}
	return line
}

// writeOverdue says what a job waits for that did not become what was asked for in time.
func (a *app) writeOverdue(ctx context.Context, s *server, j *apiv1.Job, limit time.Duration) {
	style := a.style(a.errOut)
	fmt.Fprintf(a.errOut, "Not done after %s: %s\n", limit.Round(100*time.Millisecond), jobLine(j))
	writeStalls(a.errOut, style, time.Now(), stallsOf(ctx, s, j))
	hint := "It goes on; `setpoint job inspect %s` shows how it is.\n"
	if len(j.GetStalls()) > 0 {
		hint = "It goes on by itself once the cause is gone; `setpoint job why %s` shows each node with each reason.\n"
	}
	fmt.Fprintf(a.errOut, hint, j.GetName())
}

// writeFailed says why a job failed, with the tasks of a version and of later ones that did not end well.
func (a *app) writeFailed(ctx context.Context, s *server, j *apiv1.Job, version uint64, why string) {
	style := a.style(a.errOut)
	fmt.Fprintln(a.errOut, style.Red("Failed: ")+j.GetName()+": "+why)
	if all, err := listTasks(ctx, s, &apiv1.ListTasksRequest{Job: j.GetName(), All: true}); err == nil {
		if bad := badTasks(all, version); len(bad) > 0 {
			writeTasks(a.errOut, style, bad)
		}
	}
	writeStalls(a.errOut, style, time.Now(), stallsOf(ctx, s, j))
	fmt.Fprintf(a.errOut, "`setpoint task logs ID` shows what a task printed, `setpoint job inspect %s` how the job is.\n", j.GetName())
}

// stallsOf returns what a job waits for with amounts and nodes, or as it stands at the job if that cannot be had.
func stallsOf(ctx context.Context, s *server, j *apiv1.Job) []*apiv1.Stall {
	if stalls, err := listStalls(ctx, s, &apiv1.ListStallsRequest{Job: j.GetName()}); err == nil {
		return stalls
	}
	return j.GetStalls()
}

// badTasks returns the tasks of a version and of later ones that did not end well, newest first, a few of them.
func badTasks(all []*apiv1.Task, version uint64) []*apiv1.Task {
	var bad []*apiv1.Task
	for _, t := range all {
		if s := t.GetObserved().GetState(); t.GetJobVersion() >= version && (s == cluster.Failed.String() || s == cluster.Rejected.String()) {
			bad = append(bad, t)
		}
	}
	slices.SortStableFunc(bad, func(a, b *apiv1.Task) int { return timeOf(b.GetCreated()).Compare(timeOf(a.GetCreated())) })
	return bad[:min(len(bad), 5)]
}
