package bench

import (
	"path/filepath"
	"syscall"
	"time"
)

// BuildVersion builds setpoint with a version of its own, beside what Build built into a directory, and returns its path.
func BuildVersion(dir, version string) (string, error) {
	path := filepath.Join(dir, "setpoint-"+version)
	return path, buildInto(path, "./cmd/setpoint", "-ldflags", "-X main.version="+version)
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
