package compose

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/setpointd/setpoint/core/hcltext"
	"github.com/setpointd/setpoint/core/jobfile"
)

// FuzzRead reads files. Whatever they are, nothing panics, each loss and mistake can be written, and a job that comes out is valid and can be read back.
func FuzzRead(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(archive.Files[0].Data), "stack")
	}
	f.Add("services: {a: &a {image: b, command: *a}}", "")
	f.Add("services:\n  a: &a\n    image: x\n    <<: *a\n", "")
	f.Add("services: {a: {image: b, ports: [{}], volumes: [{}], deploy: {placement: {preferences: [{}]}}}}", "x")
	f.Add("a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c]\n"+
		"e: &e [*d, *d, *d, *d, *d, *d, *d, *d]\nf: [*e, *e, *e, *e, *e, *e, *e, *e]\nservices: {a: {image: b}}", "")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, src, stack string) {
		file, diags := Read(context.Background(), "compose.yml", []byte(src), Options{Stack: stack, Dir: dir, Profiles: []string{"*"}})
		if err := file.Write(&strings.Builder{}, diags, hcltext.Look{}); err != nil {
			t.Fatal(err)
		}
		for _, l := range file.Losses {
			if l.At.Filename == "" || l.Key == "" || l.Why == "" {
				t.Fatalf("a loss that says too little: %+v", l)
			}
		}
		if diags.HasErrors() {
			return
		}
		for _, job := range file.Jobs {
			text, err := file.Format(job)
			if err != nil {
				t.Fatal(err)
			}
			if _, diags := jobfile.Parse("job.hcl", text); diags.HasErrors() {
				t.Fatalf("%v\n%s", diags, text)
			}
		}
	})
}
