package jobfile

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/setpointd/setpoint/core/hcltext"
)

// FormatSource returns a file in HCL with its usual spacing; what it says, and its comments, stay. A file that cannot be parsed is not formatted, which the
// diagnostics say; the file is there to write them.
func FormatSource(filename string, src []byte) ([]byte, *File, hcl.Diagnostics) {
	parsed, diags := hcltext.Parse(filename, src)
	file := &File{files: map[string]*hcl.File{filename: parsed}}
	if diags.HasErrors() {
		return nil, file, diags
	}
	if !isNative(parsed.Body) {
		start := hcl.Range{Filename: filename, Start: hcl.InitialPos, End: hcl.InitialPos}
		return nil, file, hcl.Diagnostics{hcltext.Error(start, "Not HCL", "The file is JSON, which is left as it is; `setpoint job convert` writes it as HCL.")}
	}
	return hclwrite.Format(src), file, nil
}
