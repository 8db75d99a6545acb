package audit_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/setpointd/setpoint/core/audit"
)

// A log that cannot be written says so each time, and goes on by itself once something that can is in its place.
func TestALogThatIsFullAndThenIsNot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.Symlink("/dev/full", path); err != nil {
		t.Fatal(err)
	}
	l := open(t, path, audit.Limits{FileSize: 1 << 20, Files: 2})
	for range 2 {
		if err := l.Write(entry(0)); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("written to a full disk: %v", err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if err := l.Write(entry(i + 1)); err != nil {
			t.Errorf("with space: %v", err)
		}
	}
	if got := read(t, l, audit.Filter{}); got != "1 2" {
		t.Errorf("it has %q, want what was written: 1 2", got)
	}
}
