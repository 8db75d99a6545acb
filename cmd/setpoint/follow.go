package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// verdict is what a look at a job says to somebody who waits for it.
type verdict uint8

const (
	pending verdict = iota
	done
	failed
	replaced // there is a newer version, by somebody else: what becomes of that is not for this command to say
)

// judgement tells whether a job is as was asked for with its given version; for failed and replaced also why.
type judgement func(j *apiv1.Job, version uint64) (v verdict, why string)

// pausedByOperator begins what the update of a job says that somebody paused; it is then not a failure.
const pausedByOperator = "paused by an operator"

// running wants every slot to run the version, and the update to it to be over.
func running(j *apiv1.Job, version uint64) (verdict, string) {
	u := j.GetUpdate()
	if j.GetVersion() > version {
		return superseded(j, version)
	}
	if u.GetTo() == version {
		switch u.GetState() {
		case string(cluster.Updating):
			return pending, ""
		case string(cluster.UpdatePaused):
			if !strings.HasPrefix(u.GetMessage(), pausedByOperator) {
				return pausedUpdate(u)
			}
			return pending, ""
		case string(cluster.UpdateCompleted), string(cluster.UpdateRolledBack):
			if n := u.GetNotUpdated(); n > 0 {
				return failed, fmt.Sprintf("the update to version %d ended without %s", version, console.Count(n, "slot"))
			}
		case string(cluster.UpdateCancelled):
			return failed, fmt.Sprintf("the update to version %d was cancelled", version)
		}
	}
	switch j.GetState() {
	case "running":
		return ended(j), ""
	case "complete", "empty":
		return done, ""
	case "failed":
		return failed, fmt.Sprintf("it ended, and %s did not end well", console.Count(j.GetCounts().GetFailed(), "slot"))
	case "stopping", "stopped":
		return failed, "it was stopped meanwhile"
	}
	if n := usedUp(j); n > 0 {
		return failed, fmt.Sprintf("%s used up the restarts that the job allows", console.Count(n, "slot"))
	}
	return onlyHeld(j), ""
}

// usedUp counts the slots that start nothing more because their tasks ended too often.
func usedUp(j *apiv1.Job) (n int64) {
	for _, s := range j.GetStalls() {
		if s.GetCode() == string(cluster.CodeRestartBudgetUsed) {
			n++
		}
	}
	return n
}

// ended is done unless a slot whose task ends by itself still has one that runs.
func ended(j *apiv1.Job) verdict {
	for _, s := range j.GetSlots() {
		if s.GetEnds() && !s.GetUnwanted() && !s.GetDone() {
			return pending
		}
	}
	return done
}

// pausedUpdate tells an update that failed from one that failed and is about to be rolled back.
func pausedUpdate(u *apiv1.Update) (verdict, string) {
	if strings.HasPrefix(u.GetMessage(), "rolling back: ") {
		return pending, ""
	}
	return failed, fmt.Sprintf("the update to version %d is paused: %s", u.GetTo(), u.GetMessage())
}

// superseded says what became of a version that is no longer the newest.
func superseded(j *apiv1.Job, version uint64) (verdict, string) {
	for _, v := range j.GetVersions() {
		if v.GetVersion() != version+1 {
			continue
		}
		if !strings.HasPrefix(v.GetReason(), cluster.AutoRollback) {
			break
		}
		if u := j.GetUpdate(); u.GetState() == string(cluster.Updating) && u.GetRollback() {
			return pending, ""
		}
		return failed, fmt.Sprintf("version %d failed and was rolled back: %s", version, strings.TrimPrefix(v.GetReason(), cluster.AutoRollback))
	}
	return replaced, fmt.Sprintf("version %d was replaced by version %d meanwhile", version, j.GetVersion())
}

// onlyHeld is done if all that is missing are slots that are held because their nodes cannot be used now; these come back by themselves.
func onlyHeld(j *apiv1.Job) verdict {
	if len(j.GetSlots()) == 0 {
		return pending
	}
	for _, s := range j.GetSlots() {
		if !s.GetUnwanted() && !s.GetUp() && !s.GetDone() && s.GetHeld() == "" {
			return pending
		}
	}
	for _, s := range j.GetStalls() {
		if !strings.HasPrefix(s.GetCode(), "node_") {
			return pending
		}
	}
	return done
}

// scaled wants surplus tasks to have been seen to stop, besides; of those that are lost nobody can see it.
func scaled(j *apiv1.Job, version uint64) (verdict, string) {
	v, why := running(j, version)
	if c := j.GetCounts(); v == done && c.GetStopping() > c.GetStoppingLost() {
		return pending, ""
	}
	return v, why
}

// rebalanced wants the rebalance to have come to its end, besides.
func rebalanced(j *apiv1.Job, version uint64) (verdict, string) {
	switch r := j.GetRebalance(); {
	case r.GetActive():
		return pending, ""
	case r.GetCancelled():
		return failed, "the rebalance was cancelled"
	}
	return scaled(j, version)
}

// stopped wants every task to have been seen to stop.
func stopped(j *apiv1.Job, _ uint64) (verdict, string) {
	switch j.GetState() {
	case "stopped":
		return done, ""
	case "stopping":
		return pending, ""
	}
	return failed, "it was started again meanwhile"
}

// settle is for how long a job must run before that is believed: a task that ends right after its start does not run.
const settle = time.Second

// steadiness is for how long a job has been as was asked for.
type steadiness struct {
	since time.Time // it was seen so; zero: it is not
	fell  bool      // it was so before, and did not stay so
}

// enough reports whether an outcome can be believed. A job that runs must have done so for a moment, and if it was seen to run and fell back, for as long as an
// update of it is watched.
func (s *steadiness) enough(j *apiv1.Job, outcome verdict, now time.Time) bool {
	if outcome != done || j.GetState() != "running" {
		s.fell = s.fell || !s.since.IsZero()
		s.since = time.Time{}
		return true
	}
	if s.since.IsZero() {
		s.since = now
		if newest := lastUp(j); !s.fell && !newest.IsZero() && newest.Before(now) {
			s.since = newest
		}
	}
	need := settle
	if s.fell {
		need = max(need, time.Duration(j.GetSpec().GetUpdate().GetMonitorNs()))
	}
	return now.Sub(s.since) >= need
}

// lastUp returns when the last of a job's slots came up, or zero if that is not known.
func lastUp(j *apiv1.Job) time.Time {
	var last time.Time
	for _, s := range j.GetSlots() {
		if at := s.GetUpSince(); s.GetUp() && at != nil && at.AsTime().After(last) {
			last = at.AsTime()
		}
	}
	return last
}

// follow shows how far a job has come until it is as was asked for, and returns it as it is then. What went wrong is written.
func (a *app) follow(ctx context.Context, s *server, j *apiv1.Job, allowed term, judge judgement) (*apiv1.Job, error) {
	version, outcome, why := j.GetVersion(), pending, ""
	runs := false
	progress := a.progress()
	empty := 0
	var steady steadiness
	notice := stallNotice{app: a, server: s}
	err := a.wait(ctx, allowed.left(), func(ctx context.Context) (bool, error) {
		got, err := ask(ctx, s, s.GetJob, &apiv1.GetJobRequest{Job: j.GetName()})
		if err != nil {
			if client.IsNotFound(err) {
				return false, &failure{code: exitFailed, text: fmt.Sprintf("job %s was removed meanwhile", j.GetName()), hint: "`setpoint events` shows who did what."}
			}
			return false, err
		}
		j = got.GetJob()
		outcome, why = judge(j, version)
		// That no slot is wanted is believed once the plugins had time to say otherwise.
		if outcome == done && j.GetState() == "empty" {
			empty++
			return empty > 5, nil
		}
		if runs = outcome == done; !steady.enough(j, outcome, time.Now()) {
			outcome = pending
		}
		if outcome == pending && !runs {
			notice.look(ctx, progress, j, time.Now())
			progress.Show(jobLine(j))
		}
		return outcome != pending, nil
	})
	progress.End()
	switch {
	case errors.Is(err, errTimeout) && runs && !steady.fell: // it came to run in time, if only just
	case errors.Is(err, errTimeout):
		a.writeOverdue(ctx, s, j, allowed.limit)
		return j, errShown(exitStalled)
	case err != nil:
		return j, err
	case outcome == failed:
		a.writeFailed(ctx, s, j, version, why)
		return j, errShown(exitFailed)
	case outcome == replaced:
		fmt.Fprintf(a.errOut, "%s: %s; nothing failed, and `setpoint job inspect %s` shows how the newer one is.\n", j.GetName(), why, j.GetName())
		return j, errShown(exitError)
	}
	if !a.structured() {
		fmt.Fprintln(a.out, jobEnd(a.style(a.out), j))
	}
	return j, nil
}

// term is how long is waited for several jobs together.
type term struct {
	limit time.Duration
	end   time.Time
}

// left is what is left of it, at least enough for a look.
func (t term) left() time.Duration { return max(time.Until(t.end), interval) }

// followAll follows several jobs one after another within one limit, and prints them with JSON. The exit code is the highest.
func (a *app) followAll(ctx context.Context, s *server, changes []*apiv1.JobResponse, limit time.Duration, judge judgement) error {
	allowed := term{limit: limit, end: time.Now().Add(limit)}
	var worst errShown
	for _, res := range changes {
		j, err := a.follow(ctx, s, res.GetJob(), allowed, judge)
		var shown errShown
		switch {
		case errors.As(err, &shown):
			worst = max(worst, shown)
		case err != nil:
			return err
		}
		res.Job = j
		if text := finished(res); text != "" && !a.structured() {
			fmt.Fprintf(a.out, "%s: nothing was run: %s\n", j.GetName(), text)
		}
	}
	if a.structured() {
		if err := a.printChanges(changes); err != nil {
			return err
		}
	}
	if worst != exitDone {
		return worst
	}
	return nil
}
