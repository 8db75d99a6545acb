package jobfile

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"golang.org/x/text/unicode/norm"

	"github.com/setpointd/setpoint/core/hcltext"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// isNormal reports whether HCL leaves a text as it is: it normalises all that it reads.
func isNormal(s string) bool { return norm.NFC.IsNormalString(s) }

// TestBadFiles reads each file of testdata/bad and compares what is said about it. An archive has the job file, named as it is to be shown, and a file
// "diagnostics".
func TestBadFiles(t *testing.T) {
	paths, err := filepath.Glob("testdata/bad/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			in := archive.Files[0]
			file, diags := Parse(in.Name, in.Data)
			if !diags.HasErrors() {
				t.Error("nothing was found wrong with the file")
			}
			var out strings.Builder
			if err := file.Write(&out, diags, hcltext.Look{}); err != nil {
				t.Fatal(err)
			}
			if *update {
				archive.Files = []txtar.File{in, {Name: "diagnostics", Data: []byte(out.String())}}
				if err := os.WriteFile(path, txtar.Format(archive), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if len(archive.Files) != 2 || archive.Files[1].Name != "diagnostics" {
				t.Fatal("the archive has no file \"diagnostics\"")
			}
			if diff := cmp.Diff(string(archive.Files[1].Data), out.String()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
