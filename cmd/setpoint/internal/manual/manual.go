// Package manual writes the manual pages of commands, from what their help says.
//
// It imports cobra, pflag and the standard library only.
package manual

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Write writes a page for each command below root into a directory, which is made if it is not there, and returns how many there are.
func Write(dir string, root *cobra.Command, version string) (int, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, fmt.Errorf("write manual pages: %w", err)
	}
	n := 0
	for _, cmd := range all(root) {
		path := filepath.Join(dir, name(cmd)+".1")
		if err := os.WriteFile(path, []byte(Page(cmd, version)), 0o644); err != nil {
			return n, fmt.Errorf("write manual pages: %w", err)
		}
		n++
	}
	return n, nil
}

// all returns a command and those below it, without what is hidden.
func all(cmd *cobra.Command) []*cobra.Command {
	out := []*cobra.Command{cmd}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			out = append(out, all(sub)...)
		}
	}
	return out
}

// Page returns a command's page in the language of man(7).
func Page(cmd *cobra.Command, version string) string {
	p := &page{}
	p.macro(".TH", strings.ToUpper(name(cmd)), "1", "", "Setpoint "+version, "Setpoint")
	p.section("NAME")
	p.text(name(cmd) + " - " + cmd.Short)
	p.section("SYNOPSIS")
	p.macro(".B", cmd.UseLine())
	p.section("DESCRIPTION")
	if cmd.Long != "" {
		p.text(cmd.Long)
	} else {
		p.text(cmd.Short + ".")
	}
	p.commands(cmd)
	p.flags("OPTIONS", cmd.NonInheritedFlags())
	p.flags("GLOBAL OPTIONS", cmd.InheritedFlags())
	if cmd.Example != "" {
		p.section("EXAMPLES")
		p.line(".nf")
		for line := range strings.SplitSeq(cmd.Example, "\n") {
			p.line(escape(strings.TrimPrefix(line, "  ")))
		}
		p.line(".fi")
	}
	p.section("EXIT STATUS")
	p.text("0 done, 1 error, 2 refused input, 3 stalled or timed out, 4 failed or rolled back.")
	p.related(cmd)
	return p.out.String()
}

// name is that of a command's page.
func name(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

type page struct{ out strings.Builder }

func (p *page) line(text string) { p.out.WriteString(text + "\n") }

func (p *page) macro(macro string, args ...string) {
	for _, a := range args {
		macro += ` "` + strings.ReplaceAll(escape(a), `"`, `\(dq`) + `"`
	}
	p.line(macro)
}

func (p *page) section(title string) { p.line(".SH " + title) }

// text writes paragraphs, which an empty line divides. A line that is indented begins one of its own.
func (p *page) text(text string) {
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			p.line(".PP")
		}
		for line := range strings.SplitSeq(paragraph, "\n") {
			if strings.HasPrefix(line, " ") {
				p.line(".br")
			}
			p.line(escape(strings.TrimSpace(line)))
		}
	}
}

func (p *page) commands(cmd *cobra.Command) {
	if !cmd.HasAvailableSubCommands() {
		return
	}
	p.section("COMMANDS")
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			p.line(".TP")
			p.macro(".B", sub.Name())
			p.text(sub.Short)
		}
	}
}

func (p *page) flags(title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	p.section(title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		text := "--" + f.Name
		if f.Shorthand != "" {
			text = "-" + f.Shorthand + ", " + text
		}
		if value != "" {
			text += " " + value
		}
		p.line(".TP")
		p.macro(".B", text)
		p.text(usage)
	})
}

// related names the pages of the command above and of those below.
func (p *page) related(cmd *cobra.Command) {
	var pages []string
	if cmd.HasParent() {
		pages = append(pages, name(cmd.Parent())+"(1)")
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			pages = append(pages, name(sub)+"(1)")
		}
	}
	if len(pages) > 0 {
		p.section("SEE ALSO")
		p.text(strings.Join(pages, ", "))
	}
}

// escape has text mean itself: a dash is one that can be typed, and a line that begins with a dot or an apostrophe is no macro.
func escape(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		return `\&` + text
	}
	return text
}
