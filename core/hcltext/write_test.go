package hcltext

import (
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
)

// What a file has in it does not reach a terminal as it is, and the line that a mistake is in is shown as far as it can be read.
func TestWriteIsPrintable(t *testing.T) {
	src := "name = \"\x1b]0;title\a\xff\u009b日本\"\r\nmany = [" + strings.Repeat("[", 100_000) + "\n"
	files := map[string]*hcl.File{"job.hcl": {Bytes: []byte(src), Body: hcl.EmptyBody()}}
	at := func(line, from, to int) hcl.Range {
		return hcl.Range{Filename: "job.hcl", Start: hcl.Pos{Line: line, Column: 1, Byte: from}, End: hcl.Pos{Line: line, Column: 5, Byte: to}}
	}
	second := strings.Index(src, "many")
	for _, color := range []bool{false, true} {
		var out strings.Builder
		if err := Write(&out, files, hcl.Diagnostics{Error(at(1, 0, 4), "Bad name", "It says \x1b[31mred."), Error(at(2, second, second+4), "Too deep", "No.")}, Look{Color: color}); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		if strings.ContainsAny(text, "\a\r\u009b") || strings.Contains(text, "\x1b]") || strings.Contains(text, "[31mred") && strings.Contains(text, "\x1b[31mred") || !strings.Contains(text, "日本") {
			t.Errorf("color %v: %q", color, text[:min(len(text), 600)])
		}
		if !strings.Contains(text, "many") || len(text) > 2000 {
			t.Errorf("color %v: %d bytes", color, len(text))
		}
	}
}
