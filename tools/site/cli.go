package main

import (
	"fmt"
	"html"
	"os/exec"
	"regexp"
	"strings"
)

// A command in the list that its parent's help has.
var listed = regexp.MustCompile(`(?m)^  ([a-z][a-z-]*) {2,}\S`)

// cliReference asks the binary for the help of every command.
func cliReference(bin string) (string, error) {
	var b strings.Builder
	b.WriteString("<h1>Commands</h1>\n<p>What <code>--help</code> says of each command of the binary that this site was made with.</p>\n")
	err := writeHelp(&b, bin, nil)
	return b.String(), err
}

func writeHelp(b *strings.Builder, bin string, path []string) error {
	out, err := exec.Command(bin, append(append([]string{}, path...), "--help")...).Output()
	if err != nil {
		return fmt.Errorf("ask %s %s for its help: %w", bin, strings.Join(path, " "), err)
	}
	help := string(out)
	name := strings.Join(append([]string{"setpoint"}, path...), " ")
	level := min(len(path)+2, 3)
	fmt.Fprintf(b, "<h%d id=%q>%s</h%d>\n<pre tabindex=\"0\"><code>%s</code></pre>\n", level, strings.ReplaceAll(name, " ", "-"), html.EscapeString(name), level, html.EscapeString(strings.TrimSpace(help)))
	_, rest, ok := strings.Cut(help, "ommands:")
	if !ok {
		return nil
	}
	if i := strings.Index(rest, "\nFlags:"); i >= 0 {
		rest = rest[:i]
	}
	for _, m := range listed.FindAllStringSubmatch(rest, -1) {
		if m[1] == "help" || m[1] == "completion" {
			continue
		}
		if err := writeHelp(b, bin, append(append([]string{}, path...), m[1])); err != nil {
			return err
		}
	}
	return nil
}
