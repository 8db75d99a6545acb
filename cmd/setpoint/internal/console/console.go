// Package console is how commands write for people: tables that fit the window, colours where there is a terminal, amounts and ages in short form, and a line of
// progress.
//
// It imports the standard library, golang.org/x/term and golang.org/x/text only.
package console

import (
	"os"
	"strings"

	"golang.org/x/term"
)

// IsTerminal reports whether w is a terminal.
func IsTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Columns returns how wide a terminal is, or 0.
func Columns(w any) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// Style writes text in colour, or as it is. The zero value uses no colour and leaves tables as wide as they are.
type Style struct {
	Color   bool
	Columns int // of the window that tables are to fit; 0: there is none
}

// Red is for what waits or went wrong.
func (s Style) Red(text string) string { return s.paint("31", text) }

// Green is for what is as it should be.
func (s Style) Green(text string) string { return s.paint("32", text) }

// Yellow is for what is under way.
func (s Style) Yellow(text string) string { return s.paint("33", text) }

// Bold is for headings.
func (s Style) Bold(text string) string { return s.paint("1", text) }

// Faint is for what matters less.
func (s Style) Faint(text string) string { return s.paint("2", text) }

func (s Style) paint(code, text string) string {
	if !s.Color || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Indent puts a prefix before every line of text.
func Indent(prefix, text string) string {
	return prefix + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+prefix)
}
