package installed

import (
	"os"
	"path/filepath"
	"testing"
)

// A small program is taken if it lies beside the executable, and can be executed.
func TestBeside(t *testing.T) {
	dir := t.TempDir()
	exe, small := filepath.Join(dir, "setpoint"), filepath.Join(dir, Shim)
	want := func(program string) {
		t.Helper()
		if got := Beside(exe, Shim); got != program {
			t.Errorf("the program is %q, want %q", got, program)
		}
	}
	want("")
	if err := os.WriteFile(small, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want("")
	if err := os.Chmod(small, 0o700); err != nil {
		t.Fatal(err)
	}
	want(small)
}
