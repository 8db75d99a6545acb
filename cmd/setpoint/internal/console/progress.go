package console

import (
	"fmt"
	"io"
)

// Progress shows how far something has come: on a terminal as one line that is written anew, elsewhere as a line for each change.
type Progress struct {
	w        io.Writer
	terminal bool
	columns  int // of the terminal; 0: unknown
	shown    string
}

// NewProgress returns a progress display on w.
func NewProgress(w io.Writer) *Progress {
	return &Progress{w: w, terminal: IsTerminal(w), columns: Columns(w)}
}

// Show replaces the line, if it changed.
func (p *Progress) Show(line string) {
	if p.columns > 1 {
		line = Shorten(line, p.columns-2) // a line that wraps could not be written anew
	}
	switch {
	case line == p.shown:
	case p.terminal:
		fmt.Fprintf(p.w, "\r\x1b[K%s", line)
	default:
		fmt.Fprintln(p.w, line)
	}
	p.shown = line
}

// Keep writes a line that stays, above the one that changes.
func (p *Progress) Keep(line string) {
	if p.terminal && p.shown != "" {
		fmt.Fprintf(p.w, "\r\x1b[K%s\n%s", line, p.shown)
		return
	}
	fmt.Fprintln(p.w, line)
}

// End leaves the display: what is written next begins a line of its own.
func (p *Progress) End() {
	if p.terminal && p.shown != "" {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
	p.shown = ""
}
