package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/daemon"
	"github.com/setpointd/setpoint/core/pluginhost"
)

func (a *app) configCommand() *cobra.Command {
	return group("config", "Check a server's configuration", a.configValidate())
}

func (a *app) configValidate() *cobra.Command {
	return &cobra.Command{
		Use: "validate FILE…", Short: "Check configuration files, and ask each plugin about its settings", Args: takes(1, -1),
		Example: "  setpoint config validate /etc/setpoint.hcl",
		Long: `Checks configuration files, and directories of them, as one configuration. Each plugin is started and asked about its settings, as a server would,
so that what is called valid here is what a server takes.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := a.loadConfig(args)
			if err != nil {
				return err
			}
			answers, err := daemon.ValidatePlugins(cmd.Context(), cfg, version)
			if err != nil {
				return fmt.Errorf("ask the plugins: %w", err)
			}
			return a.printValidations(strings.Join(args, ", "), answers)
		},
	}
}

// printValidations prints what each plugin said of its settings; the code is 2 if one refused them.
func (a *app) printValidations(name string, answers []pluginhost.Validation) error {
	type plugin struct {
		Name     string   `json:"name"`
		Version  string   `json:"version"`
		Valid    bool     `json:"valid"`
		Problems []string `json:"problems"`
		lines    []string // parallel to Problems: the line of the file that each is about, "" if none
	}
	all, valid := []plugin{}, true
	for _, v := range answers {
		p := plugin{Name: v.Plugin, Version: v.Version, Valid: v.OK(), Problems: []string{}}
		for _, d := range v.Diagnostics {
			p.Problems, p.lines = append(p.Problems, d.String()), append(p.lines, sourceLine(d.Where))
		}
		if v.Err != nil {
			p.Problems, p.lines = append(p.Problems, v.Err.Error()), append(p.lines, "")
		}
		all, valid = append(all, p), valid && p.Valid
	}
	err := a.print(map[string]any{"valid": valid, "plugins": all}, func(w io.Writer, style console.Style) {
		for _, p := range all {
			if p.Valid && len(p.Problems) == 0 {
				continue
			}
			fmt.Fprintf(w, "%s\n", style.Red("plugin "+p.Name+":"))
			for i, text := range p.Problems {
				fmt.Fprintln(w, console.Indent("  ", text))
				if p.lines[i] != "" {
					fmt.Fprintln(w, console.Indent("    ", p.lines[i]))
				}
			}
		}
		if valid {
			fmt.Fprintf(w, "%s: valid; %s asked\n", name, console.Count(int64(len(all)), "plugin"))
		}
	})
	if err == nil && !valid {
		return refuse("A server would start with it, without the plugins that refuse it.", "%s: a plugin refuses its settings", name)
	}
	return err
}

// sourceLine returns the line of a file that a position such as setpoint.hcl:12,5-10 names, with its number; "" if there is none.
func sourceLine(where string) string {
	colon := strings.LastIndexByte(where, ':')
	if colon < 0 {
		return ""
	}
	text, _, _ := strings.Cut(where[colon+1:], ",")
	number, err := strconv.Atoi(text)
	if err != nil {
		return ""
	}
	src, err := os.ReadFile(where[:colon])
	if err != nil {
		return ""
	}
	lines := strings.Split(string(src), "\n")
	if number < 1 || number > len(lines) {
		return ""
	}
	return fmt.Sprintf("%4d: %s", number, strings.TrimRight(lines[number-1], "\r"))
}
