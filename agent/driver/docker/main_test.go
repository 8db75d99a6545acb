package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/moby/moby/client"
	"go.uber.org/goleak"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/agent/driver/drivertest"
)

// What .ci/docker says of the engine that it starts.
const (
	envHost  = "SETPOINT_TEST_DOCKER"       // its address
	envNetNS = "SETPOINT_TEST_DOCKER_NETNS" // the file of its network namespace
	envDir   = "SETPOINT_TEST_DOCKER_DIR"   // where its pid file is, and start.sh, which starts it again
)

const (
	testImage = "setpoint-test:1"
	program   = "/task" // in the image
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(closing{m}) }

// opened are the engines' clients of all tests. Owner: open, and closing once the tests have ended.
var opened struct {
	mu      sync.Mutex
	clients []*client.Client
}

// closing runs the tests and then closes connections that are kept for the next request.
type closing struct{ *testing.M }

func (c closing) Run() int {
	defer func() {
		for _, engine := range opened.clients {
			engine.Close()
		}
	}()
	return c.M.Run()
}

// engineHost returns the address of the engine that tests may use as they like; without one the test is skipped.
func engineHost(t *testing.T) string {
	t.Helper()
	host := os.Getenv(envHost)
	if host == "" {
		t.Skipf("no Docker engine: %s is not set; .ci/docker starts one and sets it", envHost)
	}
	if err := makeImage(host); err != nil {
		t.Fatal(err)
	}
	return host
}

// makeImage gives the engine the tests' image, once: a file system with one program.
var makeImage = func() func(host string) error {
	var once sync.Once
	var err error
	return func(host string) error {
		once.Do(func() { err = importImage(host) })
		return err
	}
}()

func importImage(host string) error {
	dir, err := os.MkdirTemp("", "setpoint-docker-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "task"), "./testdata/task")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the tests' program: %w\n%s", err, out)
	}
	binary, err := os.ReadFile(filepath.Join(dir, "task"))
	if err != nil {
		return err
	}
	var image bytes.Buffer
	w := tar.NewWriter(&image)
	for _, f := range []struct {
		name string
		mode int64
		data []byte
	}{{"task", 0o755, binary}, {"plain", 0o644, []byte("no program\n")}, {"etc/passwd", 0o644, []byte("web:x:1001:1002::/:/\n")}} {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data))}); err != nil {
			return err
		}
		if _, err := w.Write(f.data); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	engine, err := client.New(client.WithHost(host))
	if err != nil {
		return err
	}
	defer engine.Close()
	answer, err := engine.ImageImport(context.Background(), client.ImageImportSource{Source: &image, SourceName: "-"}, testImage, client.ImageImportOptions{})
	if err != nil {
		return err
	}
	defer answer.Close()
	var said bytes.Buffer
	_, err = said.ReadFrom(answer)
	return err
}

func open(t *testing.T, host, dir string) *Driver {
	t.Helper()
	d, err := New(Options{Dir: dir, Host: host})
	if err != nil {
		t.Fatal(err)
	}
	opened.mu.Lock()
	defer opened.mu.Unlock()
	opened.clients = append(opened.clients, d.engine)
	return d
}

// fresh opens a driver on a new directory, and sweeps it in the end. Tests that use it run beside each other.
func fresh(t *testing.T) *Driver {
	t.Helper()
	t.Parallel()
	return alone(t)
}

// alone is fresh for a test with which no other one runs.
func alone(t *testing.T) *Driver {
	t.Helper()
	d := open(t, engineHost(t), t.TempDir())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), drivertest.Deadline)
		defer cancel()
		drivertest.Sweep(ctx, t, d)
	})
	return d
}

// task returns the specification of a task that does what the program's arguments say. It has no network, for that takes longer than all else.
func task(id string, args ...string) driver.Spec {
	return driver.Spec{
		TaskID: id, Command: append([]string{program}, args...), Settings: map[string]string{"image": testImage, "pull": "never", "network": "none"},
	}
}

func start(t *testing.T, d *Driver, spec driver.Spec) driver.Handle {
	t.Helper()
	h, err := d.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func wait(t *testing.T, d *Driver, h driver.Handle) driver.Exit {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), drivertest.Deadline)
	defer cancel()
	exit, err := d.Wait(ctx, h)
	if err != nil {
		t.Fatal(err)
	}
	return exit
}

// output returns the lines that the task wrote.
func output(t *testing.T, d *Driver, h driver.Handle) []string {
	t.Helper()
	var out []string
	for line, err := range d.Logs(t.Context(), h, driver.LogsRequest{}) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(line.Text))
	}
	return out
}

func TestConformance(t *testing.T) {
	host := engineHost(t)
	t.Parallel()
	drivertest.Run(t, drivertest.Harness{
		Parallel: true,
		New:      func(t *testing.T, dir string) driver.Driver { return open(t, host, dir) },
		Spec: func(spec *driver.Spec, b drivertest.Behaviour) {
			var args []string
			if b.Deaf {
				args = append(args, "deaf")
			}
			for _, line := range b.Stdout {
				args = append(args, "out", line)
			}
			for _, line := range b.Stderr {
				args = append(args, "err", line)
			}
			if b.Exit != nil {
				args = append(args, "sleep", b.After.String(), "exit", strconv.Itoa(*b.Exit))
			}
			made := task(spec.TaskID, args...)
			if b.Rejected {
				made.Command = []string{"/no/such/command"}
			}
			*spec = made
		},
		Exec: func(c drivertest.Command) []string {
			args := []string{program}
			for _, line := range c.Stdout {
				args = append(args, "out", line)
			}
			for _, line := range c.Stderr {
				args = append(args, "err", line)
			}
			for _, name := range c.Env {
				args = append(args, "env", name)
			}
			if c.Size {
				args = append(args, "size")
			}
			if c.Cat {
				args = append(args, "cat")
			}
			if !c.Hang {
				args = append(args, "exit", strconv.Itoa(c.Exit))
			}
			return args
		},
		Hog: func(spec *driver.Spec) {
			made := task(spec.TaskID, "hog")
			spec.Command, spec.Settings = made.Command, made.Settings
		},
	})
}
