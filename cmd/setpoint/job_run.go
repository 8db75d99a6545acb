package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/view"
	"github.com/setpointd/setpoint/core/jobfile"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
	"github.com/setpointd/setpoint/sdk/wire"
)

// patience is how long `job run` waits on a terminal if nothing is said.
const patience = time.Minute

func (a *app) jobRun() *cobra.Command {
	var wait time.Duration
	var detach bool
	var reason string
	var f fileFlags
	cmd := &cobra.Command{
		Use: "run FILE", Short: "Create the jobs of a file, or change them to what it says", Args: takes(1, 1),
		Example: "  setpoint job run web.hcl --wait 2m\n  setpoint job run web.hcl --var image_tag=1.4 --reason \"release 1.4\"\n  setpoint job run compose.yml",
		Long: `Creates the jobs of a file, or changes them to what it says. FILE is - for standard input.

It is a job file (HCL or JSON), or a Compose file (.yml, .yaml), each of whose services becomes a job. What such a file says and jobs do not is listed with its
lines; where what runs would behave otherwise without it, nothing is done unless that is accepted.

On a terminal the command shows how far the job has come, and what it waits for if that lasts, and ends when it has run for a second; elsewhere it waits only with --wait.
A job that was seen to run and fell back must run for as long as an update of it is watched (monitor).
Exit codes: 3 if the job did not come to run in time, which is followed by what it waits for; 4 if it failed, used up its restarts or was rolled back.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !detach && !cmd.Flags().Changed("wait") && !a.structured() && console.IsTerminal(a.out) {
				wait = patience
			}
			if detach {
				wait = 0
			}
			return a.runFile(cmd.Context(), args[0], f, reason, wait)
		},
	}
	waitFlag(cmd, &wait, "the job runs, or is complete if its tasks end by themselves")
	cmd.Flags().BoolVar(&detach, "detach", false, "do not wait, on a terminal either")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the job's history")
	a.forVersion(cmd)
	f.add(cmd)
	f.addAccept(cmd)
	return cmd
}

func (a *app) runFile(ctx context.Context, path string, f fileFlags, reason string, wait time.Duration) error {
	file, err := a.readJobs(ctx, path, f)
	if err != nil {
		return err
	}
	if a.ifVersion != 0 && len(file.Jobs) != 1 {
		return refuse("Run them from files of their own, or leave --if-version out.", "--if-version is about one job, and %s has %d", path, len(file.Jobs))
	}
	s, err := a.connect()
	if err != nil {
		return err
	}
	// All are checked before any is run.
	if err := a.checkJobs(ctx, s, file); err != nil {
		return err
	}
	var changes []*apiv1.JobResponse
	for _, job := range file.Jobs {
		res, err := ask(ctx, s, s.RunJob, &apiv1.RunJobRequest{Spec: wire.JobSpecToProto(&job.Spec), HasDefaults: true, Reason: reason, IfVersion: a.ifVersion})
		if err != nil {
			return a.pointAt(file, job, err)
		}
		changes = append(changes, res)
	}
	if wait > 0 {
		return a.followAll(ctx, s, changes, wait, running)
	}
	return a.printChanges(changes)
}

// printChanges prints what came of running jobs: with JSON one object for one job, and a list for several.
func (a *app) printChanges(changes []*apiv1.JobResponse) error {
	if a.structured() {
		if len(changes) == 1 {
			return a.printValue(view.OfJobChange(changes[0]))
		}
		all := []view.JobChange{}
		for _, res := range changes {
			all = append(all, view.OfJobChange(res))
		}
		return a.printValue(all)
	}
	for _, res := range changes {
		j := res.GetJob()
		word := "is as the file says"
		if res.GetChanged() {
			word = "accepted"
		}
		if u := j.GetUpdate(); !res.GetChanged() && u.GetState() == "cancelled" && j.GetCounts().GetStale() > 0 {
			fmt.Fprintf(a.out, "%s: version %d %s; its update was cancelled, and `setpoint job resume %s` goes on with it\n", j.GetName(), j.GetVersion(), word, j.GetName())
			continue
		}
		if text := finished(res); text != "" {
			fmt.Fprintf(a.out, "%s: version %d %s; %s\n", j.GetName(), j.GetVersion(), word, text)
			continue
		}
		fmt.Fprintf(a.out, "%s: version %d %s; `setpoint job inspect %s` shows how it is\n", j.GetName(), j.GetVersion(), word, j.GetName())
	}
	return nil
}

// finished says how to run a job again that has ended and was to be run as it is; "" of any other.
func finished(res *apiv1.JobResponse) string {
	j := res.GetJob()
	if res.GetChanged() || j.GetState() != "complete" && j.GetState() != "failed" {
		return ""
	}
	return fmt.Sprintf("it has ended already (%s); `setpoint job restart %s` runs it again", j.GetState(), j.GetName())
}

// askBriefly is how long a server may take to say what else is wrong with a file that is refused anyhow.
const askBriefly = 3 * time.Second

// pluginMistakes returns, for each job of a file, what a server and its plugins find wrong with what it says to plugins, and with its type; nothing if no server
// answers.
func (a *app) pluginMistakes(ctx context.Context, file *parsedFile) [][]cluster.Problem {
	s, err := a.connect()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askBriefly)
	defer cancel()
	out := make([][]cluster.Problem, len(file.Jobs))
	for i, job := range file.Jobs {
		_, err := ask(ctx, s, s.RunJob, &apiv1.RunJobRequest{Spec: wire.JobSpecToProto(&job.Spec), HasDefaults: true, DryRun: true})
		for _, p := range client.Detail(err).GetProblems() {
			if p.GetPath() == "type" || strings.HasPrefix(p.GetPath(), "plugin[") {
				out[i] = append(out[i], cluster.Problem{Path: p.GetPath(), Summary: p.GetSummary(), Detail: p.GetDetail()})
			}
		}
	}
	return out
}

// checkJobs asks the server, and through it the plugins, what is wrong with each job of a file. All mistakes are written.
func (a *app) checkJobs(ctx context.Context, s *server, file *parsedFile) error {
	var found error
	for _, job := range file.Jobs {
		_, err := ask(ctx, s, s.RunJob, &apiv1.RunJobRequest{Spec: wire.JobSpecToProto(&job.Spec), HasDefaults: true, DryRun: true})
		if err == nil {
			continue
		}
		var shown errShown
		if err = a.pointAt(file, job, err); !errors.As(err, &shown) {
			return err
		}
		found = err
	}
	return found
}

// pointAt writes what the server found wrong with a job, with the lines of the file that it is about. Other errors are returned as they are.
func (a *app) pointAt(file *parsedFile, job *jobfile.Job, err error) error {
	detail := client.Detail(err)
	if detail.GetCode() != "invalid" || len(detail.GetProblems()) == 0 {
		return err
	}
	var problems []cluster.Problem
	for _, p := range detail.GetProblems() {
		problems = append(problems, cluster.Problem{Path: p.GetPath(), Summary: p.GetSummary(), Detail: p.GetDetail()})
	}
	if err := file.Write(a.errOut, job.Diagnose(problems), a.look()); err != nil {
		return err
	}
	fmt.Fprintf(a.errOut, "Error: job %s was refused; nothing was changed.\n", job.Spec.Name)
	return errShown(exitRefused)
}
