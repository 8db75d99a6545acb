package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// played is a command of a page with what the page shows of it.
type played struct {
	command string
	shown   []string
}

// cmdPlays types the commands of a page's section in a terminal, one after the other, and compares what the terminal shows with what the page does. Names of tasks, ages,
// times and amounts may differ. A line of dots stands for all that follows. Where the page has an answer to a question, or an interruption, that is typed.
//
//	plays FILE SECTION [UNTIL]
//
// It ends before the first command that is UNTIL.
func cmdPlays(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 && len(args) != 3 {
		ts.Fatalf("usage: plays FILE SECTION [UNTIL]")
	}
	text, err := os.ReadFile(filepath.Join("../..", args[0]))
	ts.Check(err)
	commands := transcripts(string(text), args[1])
	if len(commands) == 0 {
		ts.Fatalf("%s has no commands in the section %q", args[0], args[1])
	}
	env := append(environ(ts), "TERM=xterm-256color", "NO_COLOR=1", "SETPOINT_DATA_DIR="+worldOf(ts).dir)
	for _, c := range commands {
		if len(args) == 3 && c.command == args[2] {
			return
		}
		ts.Check(c.play(ts.MkAbs("."), env))
	}
}

// transcripts returns the commands of a section's transcripts.
func transcripts(page, section string) []played {
	_, page, _ = strings.Cut(page, "\n## "+section+"\n")
	page, _, _ = strings.Cut(page, "\n## ")
	var out []played
	inside := false
	for line := range strings.SplitSeq(page, "\n") {
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console"
		case !inside:
		case isCommand:
			out = append(out, played{command: command})
		case len(out) > 0:
			last := &out[len(out)-1]
			last.shown = append(last.shown, line)
		}
	}
	return out
}

// looks are commands that change nothing: they are typed again until they show what the page does.
var looks = regexp.MustCompile(`^setpoint (\S+ ls|stalls|job history)`)

func (c *played) play(dir string, env []string) error {
	const patience = time.Minute
	for deadline := time.Now().Add(patience); ; {
		got, err := c.once(dir, env)
		if err != nil {
			return fmt.Errorf("%s: %w", c.command, err)
		}
		if sameText(c.shown, got) {
			return nil
		}
		if !looks.MatchString(c.command) || time.Now().After(deadline) {
			return fmt.Errorf("$ %s\nshows\n%s\nand the page\n%s", c.command, strings.Join(got, "\n"), strings.Join(c.shown, "\n"))
		}
		pause(200 * time.Millisecond)
	}
}

// once types the command in a terminal and returns the lines that the terminal shows in the end.
func (c *played) once(dir string, env []string) ([]string, error) {
	t, err := openWindow("160x50", env, "/bin/sh", "-c", "cd "+dir+" && "+c.command)
	if err != nil {
		return nil, err
	}
	defer t.close()
	for _, line := range c.shown {
		question, answer, asked := strings.Cut(line, "[y/N] ")
		switch {
		case asked:
			err = t.answer(question, answer+"\r")
		case strings.HasPrefix(line, "Interrupted: "):
			err = t.answer("Ctrl-C ends the waiting", "\x03")
		}
		if err != nil {
			return nil, err
		}
	}
	if _, err := t.exit(); err != nil {
		return nil, fmt.Errorf("%w:\n%s", err, t.text())
	}
	return t.lines(), nil
}

// answer presses keys once the window shows a text.
func (t *window) answer(to, keys string) error {
	if !t.await(func(text string) bool { return strings.Contains(text, to) }, false) {
		return fmt.Errorf("it does not ask %q in 20s; the window shows\n%s", to, t.text())
	}
	_, err := t.near.WriteString(keys)
	return err
}

// lines are what a program leaves behind that writes lines, and writes some of them anew.
func (t *window) lines() []string {
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline) && !t.quiet(); {
		continue
	}
	var out []string
	for line := range strings.SplitSeq(strings.TrimSuffix(strings.ReplaceAll(t.raw(), "\r\n", "\n"), "\n"), "\n") {
		if i := strings.LastIndex(line, "\r\x1b[K"); i >= 0 {
			line = line[i:]
		}
		out = append(out, strings.TrimLeft(escapes.ReplaceAllString(line, ""), "\r"))
	}
	return out
}

// quiet reports whether nothing more comes of a program that has ended.
func (t *window) quiet() bool {
	before := t.raw()
	pause(50 * time.Millisecond)
	return t.raw() == before
}

// vary are the parts of a line that differ from time to time.
var vary = []struct {
	is   *regexp.Regexp
	mark string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`), "TIME"},
	{regexp.MustCompile(`\b(\d+(\.\d+)?(h|ms|m|s))+\b`), "AGE"},
	{regexp.MustCompile(`([a-z0-9-]+/[a-z0-9]+)/\d+`), "$1/REVISION"},
	{regexp.MustCompile(`\bn[1-3]( +(?:running|starting|stopped|lost)\b)`), "NODE$1"},
	{regexp.MustCompile(`\bactive +\d+ +\S+ of \S+ +\S+ of \S+`), "active AMOUNTS"},
	{regexp.MustCompile(` +`), " "},
}

func sameText(page, shown []string) bool {
	page, shown = slices.Clone(page), slices.Clone(shown)
	for _, lines := range [][]string{page, shown} {
		for i := range lines {
			for _, v := range vary {
				lines[i] = v.is.ReplaceAllString(lines[i], v.mark)
			}
		}
	}
	if n := len(page); n > 0 && page[n-1] == "…" {
		page, shown = page[:n-1], shown[:min(n-1, len(shown))]
	}
	for len(page) > 0 && page[len(page)-1] == "" { // a page's transcript does not end with an empty line
		page = page[:len(page)-1]
	}
	if len(page) == 0 {
		return len(shown) == 0 || len(shown) == 1 && shown[0] == ""
	}
	return slices.Equal(page, shown)
}

// TestSameText holds what may differ between a page and what is shown, and what may not.
func TestSameText(t *testing.T) {
	for _, tt := range []struct {
		page, shown string
		same        bool
	}{
		{"web/1/7  n1    running  3s   1", "web/1/12  n3  running  1m2s  1", true},
		{"web/1/7  n1    running  3s   1", "web/2/12  n3  running  1m2s  1", false},
		{"n1    ready  1m6s  active        2      0.2 of 4  64MiB of 8GiB  zone=a", "n1  ready  3s  active  1  0.1 of 4  32MiB of 8GiB  zone=a", true},
		{"n1    ready  1m6s  active", "n1    down  1m6s  active", false},
		{"1  2026-12-01 12:48:05  admin", "1  2027-01-02 02:03:04  admin", true},
		{"one\n…", "one\ntwo\nthree", true},
		{"one", "one\ntwo", false},
		{"", "", true},
	} {
		if got := sameText(strings.Split(tt.page, "\n"), strings.Split(tt.shown, "\n")); got != tt.same {
			t.Errorf("%q and %q: %v", tt.page, tt.shown, got)
		}
	}
}
