package machine

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// script writes a shell script.
func script(t *testing.T, dir, name, body string, mode os.FileMode) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// says runs the scripts and compares what they say, and what of them failed.
func says(t *testing.T, s *Scripts, want map[string]string, complaints ...string) {
	t.Helper()
	got, err := s.Run(t.Context())
	if !maps.Equal(got, want) {
		t.Errorf("the scripts say %v, want %v", got, want)
	}
	if err == nil && len(complaints) > 0 {
		t.Errorf("nothing failed, want %q", complaints)
	}
	for _, c := range complaints {
		if err != nil && !strings.Contains(err.Error(), c) {
			t.Errorf("the error is %q, want it to say %q", err, c)
		}
	}
	if err != nil && len(complaints) == 0 {
		t.Error(err)
	}
}

func TestScripts(t *testing.T) {
	dir := t.TempDir()
	s := NewScripts(dir)
	says(t, s, map[string]string{})
	script(t, dir, "10-rack", "echo '# where it stands'; echo rack=r12; echo; echo row=7", 0o755)
	script(t, dir, "20-more", "echo row=8", 0o700)
	script(t, dir, "notes", "echo rack=none", 0o644)
	script(t, dir, ".hidden", "echo rack=none", 0o755)
	says(t, s, map[string]string{"rack": "r12", "row": "8"})

	// What a script said stays while it fails, and goes with it.
	script(t, dir, "20-more", "echo no disk >&2; exit 3", 0o700)
	says(t, s, map[string]string{"rack": "r12", "row": "8"}, "20-more: exit status 3: no disk")
	script(t, dir, "10-rack", "echo rack", 0o755)
	says(t, s, map[string]string{"rack": "r12", "row": "8"}, `"rack", not NAME=VALUE`, "20-more")
	script(t, dir, "10-rack", "echo 'bad key=1'", 0o755)
	says(t, s, map[string]string{"rack": "r12", "row": "8"}, `"bad key=1"`)
	if err := os.Remove(filepath.Join(dir, "20-more")); err != nil {
		t.Fatal(err)
	}
	script(t, dir, "10-rack", "echo rack=r13", 0o755)
	says(t, s, map[string]string{"rack": "r13"})
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	says(t, s, map[string]string{})
}

func TestScriptsThatAreNotRun(t *testing.T) {
	dir := t.TempDir()
	s := NewScripts(dir)
	script(t, dir, "open", "echo open=1", 0o777)
	says(t, s, map[string]string{}, "chmod go-w")
	script(t, dir, "open", "head -c 20000 /dev/zero | tr '\\0' x", 0o755)
	says(t, s, map[string]string{}, "more than 16384 bytes")
	script(t, dir, "open", "sleep 60 & sleep 60", 0o755)
	says(t, s, map[string]string{}, "not done within 2s")
}

// Scripts get no secrets from the agent's environment.
func TestScriptsHaveACleanEnvironment(t *testing.T) {
	t.Setenv("SECRET", "x")
	dir := t.TempDir()
	script(t, dir, "env", "echo secret=$SECRET; echo home=$HOME", 0o755)
	says(t, NewScripts(dir), map[string]string{"secret": "", "home": ""})
}

func TestNoScripts(t *testing.T) {
	says(t, NewScripts(""), map[string]string{})
	says(t, nil, map[string]string{})
}
