package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/view"
	"github.com/setpointd/setpoint/core/hcltext"
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
	cmd := &cobra.Command{
		Use: "run FILE", Short: "Create the jobs of a file, or change them to what it says", Args: takes(1, 1),
		Long: `Creates the jobs of a file, or changes them to what it says. FILE is - for standard input.

On a terminal the command shows how far the job has come and ends when it has run for a second; elsewhere it does so only with --wait.
A job that was seen to run and fell back must run for as long as an update of it is watched (monitor).
Exit codes: 3 if the job did not come to run in time, which is followed by what it waits for; 4 if it failed, used up its restarts or was rolled back.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !detach && !cmd.Flags().Changed("wait") && !a.json() && console.IsTerminal(a.out) {
				wait = patience
			}
			if detach {
				wait = 0
			}
			return a.runFile(cmd.Context(), args[0], reason, wait)
		},
	}
	waitFlag(cmd, &wait, "the job runs, or is complete if its tasks end by themselves")
	cmd.Flags().BoolVar(&detach, "detach", false, "do not wait, on a terminal either")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the job's history")
	return cmd
}

func (a *app) runFile(ctx context.Context, path, reason string, wait time.Duration) error {
	file, err := a.readJobs(ctx, path)
	if err != nil {
		return err
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
		res, err := ask(ctx, s, s.RunJob, &apiv1.RunJobRequest{Spec: wire.JobSpecToProto(&job.Spec), HasDefaults: true, Reason: reason})
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
	if a.json() {
		if len(changes) == 1 {
			return a.printJSON(view.OfJobChange(changes[0]))
		}
		all := []view.JobChange{}
		for _, res := range changes {
			all = append(all, view.OfJobChange(res))
		}
		return a.printJSON(all)
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

// readJobs reads a job file. Mistakes are written with their lines, all at once: where there are some, a server that can be reached is asked for those that only
// its plugins see.
func (a *app) readJobs(ctx context.Context, path string) (*parsedFile, error) {
	src, name, err := a.readFile(path)
	if err != nil {
		return nil, err
	}
	file, diags := jobfile.Parse(name, src)
	if diags.HasErrors() {
		for i, problems := range a.pluginMistakes(ctx, file) {
			diags = append(diags, file.Jobs[i].Diagnose(problems)...)
		}
		hcltext.Sort(diags)
	}
	if len(diags) > 0 {
		if err := file.Write(a.errOut, diags, a.look()); err != nil {
			return nil, err
		}
	}
	if diags.HasErrors() {
		fmt.Fprintf(a.errOut, "Error: %s has mistakes; nothing was done. `setpoint job validate %s` checks it again.\n", name, path)
		return nil, errShown(exitRefused)
	}
	return file, nil
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

// parsedFile is a job file that was read.
type parsedFile = jobfile.File

func (a *app) look() hcltext.Look { return hcltext.Look{Color: a.style(a.errOut).Color} }

func (a *app) readFile(path string) (src []byte, name string, err error) {
	if path == "-" {
		src, err = io.ReadAll(a.in)
		return src, "stdin", err
	}
	src, err = os.ReadFile(path)
	if err != nil {
		return nil, "", refuse("Give the path of a file that can be read, or - for standard input.", "%v", err)
	}
	return src, path, nil
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

func (a *app) jobValidate() *cobra.Command {
	return &cobra.Command{
		Use: "validate FILE", Short: "Check a job file; a server that can be reached asks its plugins too", Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := a.readJobs(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			asked, err := a.validateWithServer(cmd.Context(), file)
			if err != nil {
				return err
			}
			var names []string
			for _, job := range file.Jobs {
				names = append(names, job.Spec.Name)
			}
			return a.print(map[string]any{"valid": true, "jobs": names, "asked_server": asked}, func(w io.Writer, _ console.Style) {
				fmt.Fprintf(w, "%s: %s, valid\n", args[0], console.Count(int64(len(names)), "job"))
				if !asked {
					fmt.Fprintln(w, "No server was asked, so nobody checked whether its plugins accept what the file says to them.")
				}
			})
		},
	}
}

// validateWithServer asks a server if there is one.
func (a *app) validateWithServer(ctx context.Context, file *parsedFile) (asked bool, err error) {
	s, err := a.connect()
	if err != nil {
		var none *noServer
		if errors.As(err, &none) {
			return false, nil
		}
		return false, err
	}
	err = a.checkJobs(ctx, s, file)
	if err != nil && unreachable(err) && client.Detail(err) == nil {
		return false, nil
	}
	return err == nil, err
}
