package compose

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/setpointd/setpoint/core/hcltext"
	"github.com/setpointd/setpoint/core/jobfile"
)

// corpus holds public Compose files beside the project; nothing of it is part of the project.
const corpus = "../../../shared/data/compose"

// TestPublicFiles reads files that others wrote. Each becomes jobs that are valid and come back from our own language as they were, or has its mistakes named with
// their lines; every loss has a line.
func TestPublicFiles(t *testing.T) {
	paths, err := filepath.Glob(corpus + "/*.y*ml")
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Skipf("there are no public Compose files in %s", corpus)
	}
	converted := 0
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			src, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			file, diags := Read(context.Background(), filepath.Base(path), src, Options{Stack: "demo", Dir: t.TempDir()})
			for _, l := range file.Losses {
				t.Log(l)
				if l.At.Start.Line == 0 || l.Why == "" {
					t.Errorf("a loss without a line: %+v", l)
				}
			}
			if diags.HasErrors() {
				var out strings.Builder
				if err := file.Write(&out, diags, hcltext.Look{}); err != nil || !strings.Contains(out.String(), " line ") {
					t.Errorf("mistakes without a line: %v\n%s", err, out.String())
				}
				t.Log(out.String())
				return
			}
			converted++
			for _, job := range file.Jobs {
				checkRoundTrip(t, file, job)
			}
		})
	}
	if converted < len(paths)/2 {
		t.Errorf("only %d of %d files were converted", converted, len(paths))
	}
}

// checkRoundTrip writes a job in our own language and reads it back.
func checkRoundTrip(t *testing.T, file *File, job *jobfile.Job) {
	t.Helper()
	text, err := file.Format(job)
	if err != nil {
		t.Fatal(err)
	}
	back, diags := jobfile.Parse("job.hcl", text)
	if diags.HasErrors() {
		t.Fatalf("%v\n%s", diags, text)
	}
	if diff := cmp.Diff(job.Spec, back.Jobs[0].Spec, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("-want +got:\n%s\n%s", diff, text)
	}
	if n := strings.Count(string(text), "# Not kept: ") + strings.Count(string(text), "# Note: "); n != len(file.of(job)) {
		t.Errorf("%d losses are written of %d\n%s", n, len(file.of(job)), text)
	}
	if testing.Verbose() {
		t.Logf("%s", text)
	}
}
