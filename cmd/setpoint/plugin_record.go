package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/sdktest"
)

func (a *app) pluginRecord() *cobra.Command {
	var env []string
	cmd := &cobra.Command{
		Use: "record NAME FILE -- PATH [ARGS...]", Short: "Record what the server and a plugin say to each other", Args: takes(3, -1),
		Example: "  setpoint plugin record gpu session.rec -- ./bin/gpu",
		Long: `Runs a plugin's program, has the server whose data directory is named use it in the place of its own process of the plugin NAME, and writes what the
two say to each other to FILE, until it is interrupted. ` + "`plugin replay`" + ` says the same to a program again, without a cluster.

The file shows the cluster's nodes, and what jobs say to the plugin, except settings that the plugin's schema calls sensitive.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			args = withoutDashes(args)
			if len(args) < 3 {
				return refuse("Usage: "+cmd.UseLine(), "%s: an argument is missing", cmd.CommandPath())
			}
			return a.record(cmd.Context(), args[0], args[1], args[2], args[3:], env)
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().StringArrayVar(&env, "env", nil, "a `KEY=value` for its environment, which is otherwise almost empty; may be repeated")
	return cmd
}

// withoutDashes drops the -- that divides a program's command line from what comes before it.
func withoutDashes(args []string) []string {
	i := slices.Index(args, "--")
	if i < 0 {
		return args
	}
	return slices.Delete(slices.Clone(args), i, i+1)
}

func (a *app) record(ctx context.Context, name, file, path string, args, env []string) (err error) {
	program, err := openProgram(path, args, env, a.pluginLog(hclog.Info))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, program.Close()) }()
	run, err := program.start(ctx)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return refuse("", "write the recording: %v", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	recorder := sdktest.NewRecorder(out, run.client)
	front, err := sdk.ListenDebug("")
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- front.Serve(serving, recorder) }() // ends before the recording is closed
	defer func() {
		stop()
		err = errors.Join(err, <-served, recorder.Err())
	}()
	at := front.Attachment()
	at.PID = run.process.PID()
	held, err := a.attach(ctx, name, at)
	if err != nil {
		return err
	}
	select {
	case <-run.process.Done():
		fmt.Fprintf(a.out, "%s %s\n", path, run.process.Exit())
	case <-ctx.Done():
	}
	return held.release(a.out)
}

func (a *app) pluginReplay() *cobra.Command {
	var config string
	var env []string
	var patience time.Duration
	cmd := &cobra.Command{
		Use: "replay FILE -- PATH [ARGS...]", Short: "Say to a plugin what was recorded, and compare its answers", Args: takes(2, -1),
		Example: "  setpoint plugin replay session.rec -- ./bin/gpu",
		Long: `Starts a plugin's program, without a cluster, says to it what ` + "`plugin record`" + ` wrote, and lists each answer that is another than the recorded one.

Exit codes: 0 all answers are the same, 1 some are not, 2 refused input.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			args = withoutDashes(args)
			if len(args) < 2 {
				return refuse("Usage: "+cmd.UseLine(), "%s: an argument is missing", cmd.CommandPath())
			}
			opts := sdktest.ReplayOptions{Patience: patience}
			if config != "" {
				text, err := os.ReadFile(config)
				if err != nil || !json.Valid(text) {
					return refuse("It is one JSON object with the attributes of the plugin's config block.", "read the configuration %s: %v", config, err)
				}
				opts.Config = string(text)
			}
			return a.replay(cmd.Context(), args[0], args[1], args[2:], env, opts)
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().StringVar(&config, "config", "", "a `file` with the plugin's configuration, as one JSON object, instead of what was recorded")
	cmd.Flags().StringArrayVar(&env, "env", nil, "a `KEY=value` for its environment, which is otherwise almost empty; may be repeated")
	cmd.Flags().DurationVar(&patience, "patience", 0, "how `long` an answer is waited for (default 20s)")
	return cmd
}

func (a *app) replay(ctx context.Context, file, path string, args, env []string, opts sdktest.ReplayOptions) (err error) {
	recording, err := os.Open(file)
	if err != nil {
		return refuse("", "read the recording: %v", err)
	}
	defer recording.Close()
	program, err := openProgram(path, args, env, a.pluginLog(hclog.Warn))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, program.Close()) }()
	out, err := sdktest.Replay(ctx, program, recording, opts)
	if err != nil {
		return err
	}
	if err := a.print(out, func(w io.Writer, s console.Style) { writeReplayed(w, s, out) }); err != nil {
		return err
	}
	if len(out.Differences) > 0 {
		return errShown(exitError)
	}
	return nil
}

func writeReplayed(w io.Writer, s console.Style, out *sdktest.Replayed) {
	for _, d := range out.Differences {
		fmt.Fprintln(w, d)
	}
	for _, note := range out.Notes {
		fmt.Fprintln(w, s.Yellow("note: ")+note)
	}
	verdict := s.Green("all answers are the same")
	if n := len(out.Differences); n > 0 {
		verdict = s.Red(console.Count(int64(n), "answer") + " differ")
	}
	fmt.Fprintf(w, "%s: %s (%s, %s, %d compared, %s)\n", out.Plugin, verdict, console.Count(int64(out.Sessions), "session"),
		console.Count(int64(out.Messages), "message"), out.Compared, out.Took.Round(time.Millisecond))
}
