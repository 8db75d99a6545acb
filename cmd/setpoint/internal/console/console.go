// Package console is how commands write for people: tables, colours where there is a terminal, amounts and ages in short form, and a line of progress.
//
// It imports the standard library and golang.org/x/term only.
package console

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// IsTerminal reports whether w is a terminal.
func IsTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// columns returns how wide a terminal is, or 0.
func columns(w any) int {
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

// Style writes text in colour, or as it is. The zero value uses no colour.
type Style struct{ Color bool }

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

// Table aligns rows in columns. Cells may be coloured.
type Table struct {
	rows [][]string
}

// NewTable begins a table with its headings.
func NewTable(headings ...string) *Table { return &Table{rows: [][]string{headings}} }

// Row adds a row. A cell without text is shown as a dash.
func (t *Table) Row(cells ...string) {
	for i, c := range cells {
		if c == "" {
			cells[i] = "-"
		}
	}
	t.rows = append(t.rows, cells)
}

// Write writes the table; headings are written faint.
func (t *Table) Write(w io.Writer, s Style) {
	var widths []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], Width(c))
		}
	}
	for r, row := range t.rows {
		var line strings.Builder
		for i, c := range row {
			padding := strings.Repeat(" ", widths[i]-Width(c)+2)
			if r == 0 {
				c = s.Faint(c)
			}
			line.WriteString(c)
			if i < len(row)-1 {
				line.WriteString(padding)
			}
		}
		fmt.Fprintln(w, line.String())
	}
}

// Width returns how many columns text takes, colours left aside.
func Width(text string) int {
	n := utf8.RuneCountInString(text)
	for {
		_, after, found := strings.Cut(text, "\x1b[")
		if !found {
			return n
		}
		code, rest, found := strings.Cut(after, "m")
		if !found {
			return n
		}
		n -= len("\x1b[") + len(code) + len("m")
		text = rest
	}
}

// Indent puts a prefix before every line of text.
func Indent(prefix, text string) string {
	return prefix + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+prefix)
}

// Shorten returns the first line of text, cut to so many columns; what was cut is shown as dots.
func Shorten(text string, columns int) string {
	first, _, cut := strings.Cut(text, "\n")
	runes := []rune(first)
	if len(runes) > columns {
		runes, cut = runes[:columns], true
	}
	if cut {
		return string(runes) + "…"
	}
	return first
}
