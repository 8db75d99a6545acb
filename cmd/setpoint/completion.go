package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// completionPatience is how long a server may take to answer somebody who pressed the tabulator.
const completionPatience = time.Second

func (a *app) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "completion SHELL", Short: "Print what has bash, zsh or fish complete commands, flags and names", Args: takes(1, 1),
		ValidArgs: []string{"bash", "fish", "zsh"},
		Long: `Prints a script for a shell. With it the tabulator completes commands, flags, and the names of jobs, tasks, nodes, plugins, secrets, tokens and versions that the server
has at that moment. A server that does not answer within a second completes nothing, without a word.`,
		Example: `  source <(setpoint completion bash)                                      # in ~/.bashrc, with the package bash-completion
  setpoint completion bash >/etc/bash_completion.d/setpoint
  setpoint completion zsh >"${fpath[1]}/_setpoint"                        # compinit has to run after that
  setpoint completion fish >~/.config/fish/completions/setpoint.fish`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch root := cmd.Root(); args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.out, true)
			case "zsh":
				return root.GenZshCompletion(a.out)
			case "fish":
				return root.GenFishCompletion(a.out, true)
			}
			return refuse("It is bash, zsh or fish.", "no completion for %q", args[0])
		},
	}
}

// names asks a server for what somebody may mean who began to type a word.
type names func(ctx context.Context, s *server, args []string, word string) ([]string, error)

// argumentNames says what the arguments of commands name; the last says it of those that follow, if a command takes any number.
func argumentNames() map[string][]names {
	return map[string][]names{
		"job inspect": {jobNames}, "job why": {jobNames}, "job stop": {jobNames}, "job kill": {jobNames}, "job start": {jobNames}, "job restart": {jobNames},
		"job scale": {jobNames}, "job rollback": {jobNames}, "job rebalance": {jobNames}, "job pause": {jobNames}, "job resume": {jobNames}, "job cancel": {jobNames},
		"job rm": {jobNames}, "job history": {jobNames, jobVersions, jobVersions},
		"task inspect": {taskNames}, "task why": {taskNames}, "task history": {taskNames}, "task logs": {taskNames}, "task exec": {taskNames}, "task stop": {taskNames},
		"node inspect": {nodeNames}, "node label": {nodeNames, labelNames}, "node drain": {nodeNames}, "node activate": {nodeNames}, "node pause": {nodeNames},
		"node decommission": {nodeNames}, "node confirm-down": {nodeNames}, "node rm": {nodeNames},
		"plugin inspect": {pluginNames}, "plugin logs": {pluginNames}, "plugin reload": {pluginNames}, "plugin shadow": {pluginNames}, "plugin confirm": {pluginNames},
		"secret inspect": {secretNames}, "secret rotate": {secretNames}, "secret rm": {secretNames}, "notify test": {sinkNames}, "token rm": {tokenNames}, "cert revoke": {certNames},
	}
}

// complete gives each command and each flag that takes a name the names that there are.
func (a *app) complete(root *cobra.Command) {
	args := argumentNames()
	flags := map[string]names{
		"job": jobNames, "node": nodeNames, "task": taskNames, "to": jobVersions, "code": codeNames,
	}
	words := map[string][]string{"output": outputs(), "role": {"node", "reader", "operator", "admin"}, "stream": {"stdout", "stderr"}}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			// What is refused is the second function for a flag; each has one, or none.
			if list := flags[f.Name]; list != nil {
				_ = cmd.RegisterFlagCompletionFunc(f.Name, a.completed(list))
			}
			if list := words[f.Name]; list != nil {
				_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp))
			}
		})
		if len(cmd.ValidArgs) == 0 && !takesFile.MatchString(cmd.Use) {
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
		if lists := args[strings.TrimPrefix(cmd.CommandPath(), root.Name()+" ")]; lists != nil {
			many := strings.Contains(cmd.Use, "…")
			cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
				i := len(args)
				if many {
					i = min(i, len(lists)-1)
				}
				if i >= len(lists) {
					return nil, cobra.ShellCompDirectiveNoFileComp
				}
				return a.completed(lists[i])(cmd, args, word)
			}
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

// takesFile finds commands whose arguments are files, which shells complete by themselves.
var takesFile = regexp.MustCompile(`FILE|DIR|PATH|COMMAND|EXECUTABLE|RECORDING`)

// completed asks the server, and is silent if it cannot be asked.
func (a *app) completed(list names) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
		defer cancel()
		quiet := *a
		quiet.errOut = io.Discard
		s, err := quiet.connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found, err := list(ctx, s, args, word)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		directive := cobra.ShellCompDirectiveNoFileComp
		var out []string
		for _, name := range found {
			given, _, _ := strings.Cut(name, "\t")
			if strings.HasPrefix(given, word) && !slices.Contains(args, given) {
				out = append(out, name)
				if strings.HasSuffix(given, "/") || strings.HasSuffix(given, "=") {
					directive |= cobra.ShellCompDirectiveNoSpace
				}
			}
		}
		return out, directive
	}
}

func jobNames(ctx context.Context, s *server, _ []string, _ string) ([]string, error) {
	jobs, err := listJobs(ctx, s)
	var out []string
	for _, j := range jobs {
		out = append(out, j.GetName()+"\t"+j.GetType()+", "+j.GetState())
	}
	return out, err
}

func jobVersions(ctx context.Context, s *server, args []string, _ string) ([]string, error) {
	if len(args) == 0 {
		return nil, nil // the flag stands before the job
	}
	res, err := ask(ctx, s, s.GetJob, &apiv1.GetJobRequest{Job: args[0]})
	var out []string
	for _, v := range res.GetJob().GetVersions() {
		out = append(out, fmt.Sprintf("%d\t%s", v.GetVersion(), v.GetReason()))
	}
	return out, err
}

// taskNames completes jobs first, and tasks once there is a slash: there may be very many.
func taskNames(ctx context.Context, s *server, args []string, word string) ([]string, error) {
	job, _, slash := strings.Cut(word, "/")
	if !slash {
		jobs, err := jobNames(ctx, s, args, word)
		for i, j := range jobs {
			name, what, _ := strings.Cut(j, "\t")
			jobs[i] = name + "/\t" + what
		}
		return jobs, err
	}
	tasks, err := listTasks(ctx, s, &apiv1.ListTasksRequest{Job: job, All: true}) // of dead ones there are logs, and a history
	sortTasks(tasks)
	var out []string
	last := ""
	for _, t := range tasks {
		name := t.GetJob() + "/" + t.GetSlot()
		if strings.Count(word, "/") > 1 {
			name = t.GetId()
		}
		if name == last { // a slot's name is that of its newest task
			out = out[:len(out)-1]
		}
		last = name
		out = append(out, name+"\t"+t.GetPhase())
	}
	return out, err
}

func nodeNames(ctx context.Context, s *server, _ []string, _ string) ([]string, error) {
	nodes, err := listNodes(ctx, s)
	var out []string
	for _, n := range nodes {
		out = append(out, n.GetName()+"\t"+n.GetState()+", "+n.GetAvailability())
	}
	return out, err
}

// labelNames completes the labels that a node has, to be set anew.
func labelNames(ctx context.Context, s *server, args []string, _ string) ([]string, error) {
	res, err := ask(ctx, s, s.GetNode, &apiv1.GetNodeRequest{Node: args[0]})
	var out []string
	for key, value := range res.GetNode().GetLabels() {
		out = append(out, key+"=\tis "+value)
	}
	slices.Sort(out)
	return out, err
}

func pluginNames(ctx context.Context, s *server, _ []string, _ string) ([]string, error) {
	plugins, err := listPlugins(ctx, s)
	var out []string
	for _, p := range plugins {
		out = append(out, p.GetName()+"\t"+p.GetState())
	}
	return out, err
}

func secretNames(ctx context.Context, s *server, _ []string, _ string) ([]string, error) {
	secrets, err := listSecrets(ctx, s)
	var out []string
	for _, x := range secrets {
		out = append(out, x.GetName())
	}
	return out, err
}

func sinkNames(ctx context.Context, s *server, _ []string, _ string) ([]string, error) {
	res, err := ask(ctx, s, s.ListSinks, &apiv1.ListSinksRequest{})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, x := range res.GetSinks() {
		out = append(out, x.GetName()+"\t"+x.GetKind())
	}
	return out, nil
}

func tokenNames(ctx context.Context, s *server, _ []string, _ string) ([]string, error) {
	tokens, err := listTokens(ctx, s)
	var out []string
	for _, t := range tokens {
		out = append(out, t.GetId()+"\t"+t.GetRole())
	}
	return out, err
}

func certNames(ctx context.Context, s *server, _ []string, _ string) ([]string, error) {
	res, err := ask(ctx, s, s.ListCertificates, &apiv1.ListCertificatesRequest{})
	var out []string
	for _, c := range res.GetCertificates() {
		out = append(out, c.GetSerial()+"\t"+c.GetName()+", "+c.GetRole())
	}
	return out, err
}

// codeNames are those of what waits now.
func codeNames(ctx context.Context, s *server, _ []string, _ string) ([]string, error) {
	stalls, err := listStalls(ctx, s, &apiv1.ListStallsRequest{})
	var out []string
	for _, x := range stalls {
		out = append(out, x.GetCode())
	}
	slices.Sort(out)
	return slices.Compact(out), err
}
