package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/core/hcltext"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
	"github.com/setpointd/setpoint/sdk/wire"
)

// validation is what is found out about a file.
type validation struct {
	Valid       bool      `json:"valid"`
	Jobs        []string  `json:"jobs"`
	AskedServer bool      `json:"asked_server"`
	Problems    []finding `json:"problems"`
	Losses      []loss    `json:"losses"`
}

// finding is one thing that is wrong with a file.
type finding struct {
	Severity string `json:"severity"` // error, warning
	place
	Summary string `json:"summary"`
	Detail  string `json:"detail,omitempty"`
}

// place is where something stands; without a file, nowhere.
type place struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

// loss is one thing that a Compose file says and the jobs do not.
type loss struct {
	place
	Service  string `json:"service,omitempty"`
	Key      string `json:"key"`
	Why      string `json:"why"`
	Hint     bool   `json:"hint"`
	Accepted bool   `json:"accepted"`
}

func placeOf(at *hcltext.Range) place {
	if at == nil {
		return place{}
	}
	return place{File: at.Filename, Line: at.Start.Line, Column: at.Start.Column}
}

func (a *app) jobValidate() *cobra.Command {
	var f fileFlags
	var offline bool
	cmd := &cobra.Command{
		Use: "validate FILE", Short: "Check a job file; a server that can be reached asks its plugins too", Args: takes(1, 1),
		Example: "  setpoint job validate web.hcl --offline",
		Long: `Checks a job file, or a Compose file, and says all that is wrong with it at once. FILE is - for standard input.

A server that can be reached is asked whether its plugins accept what the file says to them; with --offline none is asked. With --output json every problem has its
file, line and column. Exit code 2 if the file is refused.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.readSource(cmd.Context(), args[0], f)
			if err != nil {
				return err
			}
			asked := false
			if !offline {
				if asked, err = a.validateWithServer(cmd.Context(), s); err != nil {
					return err
				}
			}
			return a.printValidation(s, f, asked)
		},
	}
	f.add(cmd)
	f.addAccept(cmd)
	cmd.Flags().BoolVar(&offline, "offline", false, "ask no server")
	return cmd
}

func (a *app) printValidation(s *source, f fileFlags, asked bool) error {
	out := validation{Valid: !s.diags.HasErrors() && len(s.refused) == 0, Jobs: []string{}, AskedServer: asked, Problems: []finding{}, Losses: []loss{}}
	for _, job := range s.file.Jobs {
		out.Jobs = append(out.Jobs, job.Spec.Name)
	}
	if !a.structured() {
		if err := a.tell(s); err != nil {
			return err
		}
		fmt.Fprintf(a.out, "%s: %s, valid\n", s.path, console.Count(int64(len(out.Jobs)), "job"))
		if !asked {
			fmt.Fprintln(a.out, "No server was asked, so nobody checked whether its plugins accept what the file says to them.")
		}
		return nil
	}
	for _, d := range s.diags {
		severity := "error"
		if hcltext.IsWarning(d) {
			severity = "warning"
		}
		out.Problems = append(out.Problems, finding{Severity: severity, place: placeOf(d.Subject), Summary: d.Summary, Detail: d.Detail})
	}
	for _, l := range s.losses() {
		out.Losses = append(out.Losses, loss{place: placeOf(&l.At), Service: l.Service, Key: l.Key, Why: l.Why, Hint: l.Hint, Accepted: f.accepts(l)})
	}
	if err := a.printValue(out); err != nil {
		return err
	}
	if !out.Valid {
		return errShown(exitRefused)
	}
	return nil
}

// validateWithServer asks a server if there is one, and adds what it finds wrong.
func (a *app) validateWithServer(ctx context.Context, s *source) (asked bool, err error) {
	if s.diags.HasErrors() {
		a.askAboutMistakes(ctx, s)
		return false, nil
	}
	server, err := a.connect()
	if err != nil {
		var none *noServer
		if errors.As(err, &none) {
			return false, nil
		}
		return false, err
	}
	for _, job := range s.file.Jobs {
		_, err := ask(ctx, server, server.RunJob, &apiv1.RunJobRequest{Spec: wire.JobSpecToProto(&job.Spec), HasDefaults: true, DryRun: true})
		detail := client.Detail(err)
		switch {
		case err == nil:
		case unreachable(err) && detail == nil:
			return false, nil
		case detail.GetCode() != "invalid" || len(detail.GetProblems()) == 0:
			return false, err
		}
		var problems []cluster.Problem
		for _, p := range detail.GetProblems() {
			problems = append(problems, cluster.Problem{Path: p.GetPath(), Summary: p.GetSummary(), Detail: p.GetDetail()})
		}
		s.diags = append(s.diags, job.Diagnose(problems)...)
	}
	hcltext.Sort(s.diags)
	return true, nil
}
