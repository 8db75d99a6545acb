package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/core/near"
)

// app is what every command works with: its streams, the environment, and the global flags.
type app struct {
	in     io.Reader
	out    io.Writer
	errOut io.Writer
	env    func(string) string
	// environ is the whole environment, for files that speak of it; nil: nothing.
	environ func() []string

	// isTerminal tells terminals from other streams; nil: by asking the system.
	isTerminal func(stream any) bool

	dataDir string
	addr    string
	output  string
	noColor bool

	ifVersion uint64 // of the job that a command is about; 0: any
}

// terminal reports whether a stream is a terminal.
func (a *app) terminal(stream any) bool {
	if a.isTerminal != nil {
		return a.isTerminal(stream)
	}
	return console.IsTerminal(stream)
}

// run executes one command line and returns its exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		a.complete(root) // not for others: a server would keep it
	}
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.errOut)
	ctx = client.WithTrace(ctx, a.env("TRACEPARENT"), a.env("TRACESTATE")) // as programs are told of which trace they are part
	return report(a.errOut, root.ExecuteContext(ctx))
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "setpoint",
		Short: "Keep what runs on a set of machines equal to what was asked for, and say why whenever that cannot be",
		Long: `Setpoint keeps what runs on a set of machines equal to what was asked for, and says why whenever it cannot.

Exit codes: 0 done, 1 error, 2 refused input, 3 stalled or timed out, 4 failed or rolled back.`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              subcommandOnly,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.checkOutput(cmd) },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return refuse(flagHint(cmd, err), "%v", err)
	})
	flags := root.PersistentFlags()
	flags.StringVar(&a.dataDir, "data-dir", "", "the server's data `directory`, with address and credentials (SETPOINT_DATA_DIR; default ~/.setpoint)")
	flags.StringVar(&a.addr, "addr", "", "the server's `address`, https://HOST:PORT or HOST:PORT (SETPOINT_ADDR; default: what the data directory says)")
	flags.StringVarP(&a.output, "output", "o", outputTable, "the `form`: table, wide (more columns, however long), json, yaml, or name (of lists and inspect)")
	flags.BoolVar(&a.noColor, "no-color", false, "no colours (NO_COLOR)")
	root.AddGroup(&cobra.Group{ID: "ask", Title: "Commands:"}, &cobra.Group{ID: "run", Title: "Daemons:"})
	for _, cmd := range []*cobra.Command{
		a.jobCommand(), a.taskCommand(), a.nodeCommand(), a.pluginCommand(), a.stallsCommand(), a.eventsCommand(), a.statusCommand(), a.topCommand(), a.secretCommand(), a.notifyCommand(), a.auditCommand(), a.tokenCommand(), a.caCommand(), a.certCommand(),
		a.loginCommand(), a.dashboardCommand(), a.configCommand(), a.stateCommand(), a.replayCommand(), a.versionCommand(), a.completionCommand(), a.manCommand(),
	} {
		cmd.GroupID = "ask"
		root.AddCommand(cmd)
	}
	for _, cmd := range []*cobra.Command{a.devCommand(), a.serverCommand(), a.agentCommand()} {
		cmd.GroupID = "run"
		root.AddCommand(cmd)
	}
	root.SetHelpCommandGroupID("ask")
	return root
}

// group returns a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: subcommandOnly,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(commands...)
	return cmd
}

// subcommandOnly refuses words that are no command.
func subcommandOnly(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "`" + cmd.CommandPath() + " --help` shows what there is."
	var there []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			there = append(append(there, sub.Name()), sub.Aliases...)
		}
	}
	if meant := near.To(args[0], slices.Values(there)); len(meant) > 0 {
		hint = "Is `" + cmd.CommandPath() + " " + meant[0] + "` meant?"
	}
	return refuse(hint, "unknown command %q for %q", args[0], cmd.CommandPath())
}

// flagHint says which flag may have been meant.
func flagHint(cmd *cobra.Command, err error) string {
	var none *pflag.NotExistError
	if errors.As(err, &none) && len(none.GetSpecifiedName()) > 1 {
		var there []string
		add := func(f *pflag.Flag) { there = append(there, f.Name) }
		cmd.Flags().VisitAll(add)
		cmd.InheritedFlags().VisitAll(add)
		if meant := near.To(none.GetSpecifiedName(), slices.Values(there)); len(meant) > 0 {
			return "Is --" + meant[0] + " meant?"
		}
	}
	return "`" + cmd.CommandPath() + " --help` shows what there is."
}

// takes is cobra.ExactArgs and the like with an error that says what is missing.
func takes(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		usage := "Usage: " + cmd.UseLine()
		switch {
		case len(args) < least:
			return refuse(usage, "%s: an argument is missing", cmd.CommandPath())
		case most >= 0 && len(args) > most:
			return refuse(usage, "%s: too many arguments: %q", cmd.CommandPath(), args[most])
		}
		return nil
	}
}

// progress returns the display of what is waited for; with JSON it goes beside the output.
func (a *app) progress() *console.Progress {
	if a.structured() {
		return console.NewProgress(a.errOut)
	}
	return console.NewProgress(a.out)
}

// waitFlag adds --wait. Zero: do not wait.
func waitFlag(cmd *cobra.Command, limit *time.Duration, what string) {
	cmd.Flags().DurationVar(limit, "wait", 0, "wait so `long` at most until "+what+" (exit code 3 if it takes longer)")
}

// interval is how often something that is waited for is looked at.
const interval = 200 * time.Millisecond

// errTimeout is returned by wait when its time is over.
var errTimeout = errors.New("the time to wait is over")

// wait calls look until it is done, fails, or the limit is over, which is errTimeout. A server that cannot be reached is waited for as well.
func (a *app) wait(ctx context.Context, limit time.Duration, look func(context.Context) (done bool, err error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTimeout)
	defer cancel()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		done, err := look(ctx)
		switch {
		case ctx.Err() != nil && !done:
			return context.Cause(ctx)
		case err != nil && !unreachable(err):
			return err
		case done:
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
