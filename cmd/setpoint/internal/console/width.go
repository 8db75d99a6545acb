package console

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Width returns how many columns text takes, colours left aside.
func Width(text string) int {
	n := 0
	for part := range parts(text) {
		n += part.columns
	}
	return n
}

// Cut returns text cut to so many columns; what was cut is shown as dots. Colours are kept and end where they did.
func Cut(text string, columns int) string {
	if Width(text) <= columns {
		return text
	}
	var out strings.Builder
	left, cut := columns-1, false
	for part := range parts(text) {
		switch {
		case part.columns == 0 && (!cut || strings.HasPrefix(part.text, "\x1b")):
			out.WriteString(part.text)
		case cut:
		case part.columns > left:
			out.WriteString("…")
			cut = true
		default:
			out.WriteString(part.text)
			left -= part.columns
		}
	}
	return out.String()
}

// Shorten returns the first line of text, cut to so many characters; what was cut is shown as dots.
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

// Line returns text in one line without what a terminal would obey, but for colours: much of what is shown comes from tasks and plugins.
func Line(text string) string {
	if !strings.ContainsFunc(text, unicode.IsControl) {
		return text
	}
	var out strings.Builder
	for part := range parts(text) {
		r, _ := utf8.DecodeRuneInString(part.text)
		switch {
		case len(part.text) > 1 && r == '\x1b', !unicode.IsControl(r):
			out.WriteString(part.text)
		case unicode.IsSpace(r):
			out.WriteByte(' ')
		}
	}
	return out.String()
}

// part is a character, or what switches a colour.
type part struct {
	text    string
	columns int
}

// parts walks through text.
func parts(text string) func(yield func(part) bool) {
	return func(yield func(part) bool) {
		for text != "" {
			p := part{text: text[:colour(text)]}
			if p.text == "" {
				r, size := utf8.DecodeRuneInString(text)
				p = part{text[:size], runeColumns(r)}
			}
			if !yield(p) {
				return
			}
			text = text[len(p.text):]
		}
	}
}

// colour returns how long what switches a colour is at the beginning of text; 0: it begins otherwise.
func colour(text string) int {
	rest, ok := strings.CutPrefix(text, "\x1b[")
	if !ok {
		return 0
	}
	end := strings.TrimLeft(rest, "0123456789;")
	if !strings.HasPrefix(end, "m") {
		return 0
	}
	return len(text) - len(end) + 1
}

// runeColumns returns how many columns a character takes.
func runeColumns(r rune) int {
	if r < 0x300 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Wrap breaks a line where it does not fit so many columns, at spaces where there are any. What follows is indented as the line is.
func Wrap(line string, columns int) []string {
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	if len(indent) > columns/2 {
		indent = ""
	}
	var out []string
	for Width(line) > columns && columns > 0 {
		at, space, n := 0, -1, 0
		for p := range parts(line) {
			if n += p.columns; n > columns {
				break
			}
			if p.text == " " && at >= len(indent) {
				space = at
			}
			at += len(p.text)
		}
		if space > len(indent) {
			out, line = append(out, line[:space]), indent+strings.TrimLeft(line[space:], " ")
			continue
		}
		if at <= len(indent) {
			break // not even one character fits
		}
		out, line = append(out, line[:at]), indent+line[at:]
	}
	return append(out, line)
}
