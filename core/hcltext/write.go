package hcltext

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
)

// Look says how diagnostics are written.
type Look struct {
	Width int // columns at which texts are wrapped; 0: nowhere
	Color bool
}

// Write writes diagnostics in the order of their places, each with the lines of the file that it is about.
func Write(w io.Writer, files map[string]*hcl.File, diags hcl.Diagnostics, look Look) error {
	sorted := slices.Clone(diags)
	Sort(sorted)
	for i, d := range sorted {
		safe := *d
		safe.Summary, safe.Detail = printable(d.Summary), printable(d.Detail)
		sorted[i] = &safe
	}
	var text bytes.Buffer
	writer := hcl.NewDiagnosticTextWriter(&text, printableFiles(files), uint(max(look.Width, 0)), look.Color)
	err := writer.WriteDiagnostics(sorted)
	for line := range strings.Lines(text.String()) {
		if err == nil {
			_, err = io.WriteString(w, cut(line, look.Color))
		}
	}
	if err != nil {
		return fmt.Errorf("write diagnostics: %w", err)
	}
	return nil
}

// maxLine is how much of a line is shown, in bytes: one of a file that a program wrote may have all of it.
const maxLine = 500

func cut(line string, color bool) string {
	if len(line) <= maxLine {
		return line
	}
	end := maxLine
	for end > 0 && !utf8.RuneStart(line[end]) {
		end--
	}
	if color {
		return line[:end] + "…\x1b[0m\n"
	}
	return line[:end] + "…\n"
}

// printable returns a text, as long as it was, without what a terminal would obey or cannot show.
func printable(text string) string {
	out := []byte(text)
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == '\n', r == '\t':
		case r == '\r':
			out[i] = ' '
		case unicode.IsControl(r), r == utf8.RuneError && size == 1:
			copy(out[i:i+size], "??")
		}
		i += size
	}
	return string(out)
}

// printableFiles returns files whose lines can be shown; diagnostics find their places in them.
func printableFiles(files map[string]*hcl.File) map[string]*hcl.File {
	out := make(map[string]*hcl.File, len(files))
	for name, f := range files {
		if f == nil {
			continue
		}
		safe := *f
		safe.Bytes = []byte(printable(string(f.Bytes)))
		out[name] = &safe
	}
	return out
}

// Sort orders diagnostics by their places; those without one come first.
func Sort(diags hcl.Diagnostics) {
	slices.SortStableFunc(diags, func(a, b *hcl.Diagnostic) int {
		return compareRanges(placeOf(a), placeOf(b))
	})
}

func placeOf(d *hcl.Diagnostic) hcl.Range {
	if d.Subject == nil {
		return hcl.Range{}
	}
	return *d.Subject
}

// Diagnostics and Range are HCL's, for who passes them on without speaking of HCL otherwise.
type (
	Diagnostics = hcl.Diagnostics
	Range       = hcl.Range
)

// IsWarning reports whether a diagnostic refuses nothing.
func IsWarning(d *hcl.Diagnostic) bool { return d.Severity == hcl.DiagWarning }
