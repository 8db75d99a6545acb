package compose

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/setpointd/setpoint/core/hcltext"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// expected are the names of an archive's files that are made of the others.
var expected = []string{"jobs", "losses", "diagnostics"}

// TestFiles reads the compose.yml of each archive of testdata and compares its jobs as job files, its losses and what is wrong with it.
func TestFiles(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			given, want := split(archive)
			got := render(t, given)
			if *update {
				archive.Files = given
				for _, name := range expected {
					if got[name] != "" {
						archive.Files = append(archive.Files, txtar.File{Name: name, Data: []byte(got[name])})
					}
				}
				if err := os.WriteFile(path, txtar.Format(archive), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func split(archive *txtar.Archive) (given []txtar.File, want map[string]string) {
	want = make(map[string]string)
	for _, name := range expected {
		want[name] = ""
	}
	for _, f := range archive.Files {
		if _, made := want[f.Name]; made {
			want[f.Name] = string(f.Data)
			continue
		}
		given = append(given, f)
	}
	return given, want
}

// render reads the files as they would lie in a directory.
func render(t *testing.T, files []txtar.File) map[string]string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file, diags := Read(context.Background(), "compose.yml", files[0].Data, Options{Dir: dir, Env: map[string]string{"FROM_CALLER": "yes"}})
	var jobs, losses, wrong strings.Builder
	for _, l := range file.Losses {
		word := "lost: "
		if l.Hint {
			word = "hint: "
		}
		losses.WriteString(word + l.String() + "\n")
	}
	if err := file.Write(&wrong, diags, hcltext.Look{}); err != nil {
		t.Fatal(err)
	}
	if !diags.HasErrors() {
		for i, job := range file.Jobs {
			checkRoundTrip(t, file, job)
			text, err := file.Format(job)
			if err != nil {
				t.Fatal(err)
			}
			if i > 0 {
				jobs.WriteString("\n")
			}
			jobs.Write(text)
		}
	}
	made := map[string]string{"jobs": jobs.String(), "losses": losses.String(), "diagnostics": wrong.String()}
	for name, text := range made {
		made[name] = strings.ReplaceAll(text, dir, "DIR")
	}
	return made
}
