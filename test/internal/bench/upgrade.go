package bench

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// BuildVersion builds setpoint with a version of its own, beside what Build built into a directory, and returns its path.
func BuildVersion(dir, version string) (string, error) {
	root, err := run("", "go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	path := filepath.Join(dir, "setpoint-"+version)
	if _, err := run(strings.TrimSpace(root), "go", "build", "-ldflags", "-X main.version="+version, "-o", path, "./cmd/setpoint"); err != nil {
		return "", fmt.Errorf("build version %s: %w", version, err)
	}
	return path, nil
}

// Upgrade ends the agent as a service manager does, and starts another program in its place. What runs on the node runs on.
func (a *Agent) Upgrade(program string) {
	a.c.t.Helper()
	a.beginCut()
	a.signal(syscall.SIGTERM)
	if !a.process.ended(10 * time.Second) {
		a.c.t.Fatalf("the agent of %s has not ended 10 s after SIGTERM", a.Node.Name)
	}
	a.program = program
	a.Restart()
}
