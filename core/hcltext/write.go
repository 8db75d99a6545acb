package hcltext

import (
	"fmt"
	"io"
	"slices"

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
	writer := hcl.NewDiagnosticTextWriter(w, files, uint(max(look.Width, 0)), look.Color)
	if err := writer.WriteDiagnostics(sorted); err != nil {
		return fmt.Errorf("write diagnostics: %w", err)
	}
	return nil
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
