package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/view"
)

// The forms of output.
const (
	outputTable = "table" // fits the window
	outputWide  = "wide"  // with more columns, however wide that is
	outputJSON  = "json"
	outputYAML  = "yaml"
	outputName  = "name" // names only, one a line, as other commands take them
)

func outputs() []string {
	return []string{outputTable, outputWide, outputJSON, outputYAML, outputName}
}

// naming marks commands that print names with -o name.
const naming = "prints_names"

// named marks a command that lists things, or shows one, which has a name.
func named(cmd *cobra.Command) *cobra.Command {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[naming] = "yes"
	return cmd
}

// checkOutput refuses what is no form of output, and names of what has none. Nothing has been done then.
func (a *app) checkOutput(cmd *cobra.Command) error {
	switch {
	case !slices.Contains(outputs(), a.output):
		return refuse("It is one of "+strings.Join(outputs(), ", ")+".", "unknown output %q", a.output)
	case a.output == outputName && cmd.Annotations[naming] == "":
		return refuse("Lists and `inspect` have -o name.", "%s has no names to print", cmd.CommandPath())
	}
	return nil
}

// structured reports whether the output is for programs.
func (a *app) structured() bool { return a.output == outputJSON || a.output == outputYAML }

// style is the style of text on w: coloured on terminals, unless that is not wanted, and as wide as they are.
func (a *app) style(w io.Writer) console.Style {
	s := console.Style{Color: !a.noColor && a.env("NO_COLOR") == "" && a.env("TERM") != "dumb" && console.IsTerminal(w)}
	if a.output != outputWide {
		s.Columns = console.Columns(w)
	}
	return s
}

// print writes a value for programs, or its names, or by table if neither is wanted.
func (a *app) print(value any, table func(w io.Writer, s console.Style)) error {
	var text bytes.Buffer
	switch {
	case a.structured():
		return a.printValue(value)
	case a.output == outputName:
		for _, name := range view.Names(value) {
			fmt.Fprintln(&text, name)
		}
	default:
		table(&text, a.style(a.out))
	}
	_, err := a.out.Write(text.Bytes()) // what did not arrive must not look like what there is not
	return err
}

// printValue writes a value for programs.
func (a *app) printValue(value any) error {
	if a.output == outputYAML {
		text, err := view.YAML(value)
		if err != nil {
			return err
		}
		_, err = a.out.Write(text)
		return err
	}
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(value)
}

// printNext writes one of several values for programs, for commands that go on: a line of JSON, or a document of YAML.
func (a *app) printNext(value any) error {
	if a.output == outputYAML {
		fmt.Fprintln(a.out, "---")
		return a.printValue(value)
	}
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(value)
}
