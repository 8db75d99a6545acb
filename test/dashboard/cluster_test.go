package dashboard

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/setpointd/setpoint/test/internal/bench"
)

// real is a real cluster, of one server and its agents.
type real struct {
	t   *testing.T
	bin string
	dir string
	url string
}

// start builds and starts one of three nodes, which ends with the test.
func start(t *testing.T) *real {
	t.Helper()
	dir := t.TempDir()
	bin, err := bench.Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := &real{t: t, bin: bin.Setpoint, dir: filepath.Join(dir, "data")}
	cmd := exec.Command(bin.Setpoint, "dev", "--nodes", "3", "--data-dir", c.dir, "--listen", "127.0.0.1:0", "--dashboard", "127.0.0.1:0")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the cluster ended with %v: %s", err, out.String())
		}
	})
	c.run("status", "--wait", "60s")
	c.url, _, _ = strings.Cut(c.link(), "/login#")
	return c
}

// run runs a command and returns what it prints.
func (c *real) run(args ...string) string {
	c.t.Helper()
	cmd := exec.Command(c.bin, append(args, "--data-dir", c.dir)...)
	var out, failed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failed
	deadline := time.Now().Add(10 * time.Second)
	for {
		err := cmd.Run()
		if err == nil {
			return out.String()
		}
		// The server has not written its address yet.
		if _, none := os.Stat(filepath.Join(c.dir, "address")); none == nil || time.Now().After(deadline) {
			c.t.Fatalf("setpoint %s: %v\n%s", strings.Join(args, " "), err, failed.String())
		}
		<-time.After(50 * time.Millisecond)
		cmd = exec.Command(c.bin, append(args, "--data-dir", c.dir)...)
		cmd.Stdout, cmd.Stderr = &out, &failed
	}
}

// link returns one that lets the administrator in.
func (c *real) link() string {
	c.t.Helper()
	return strings.TrimSpace(c.run("dashboard"))
}

// job runs one of simulated tasks.
func (c *real) job(name string, count int, more string) {
	c.t.Helper()
	c.file(name, fmt.Sprintf("job %q {\n  count = %d\n%s\n  task {\n    driver = \"sim\"\n    resources {\n      cpu    = 0.25\n      memory = \"256MiB\"\n    }\n  }\n}\n", name, count, more))
}

// file runs a job file.
func (c *real) file(name, text string) {
	c.t.Helper()
	path := filepath.Join(filepath.Dir(c.dir), name+".hcl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.run("job", "run", path, "--detach")
}
