package process

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/agent/driver/drivertest"
)

// The test binary is also the shim, and an agent that can be killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "shim":
			os.Exit(ShimMain(os.Args[2:]))
		case "agent":
			os.Exit(agentMain(os.Args[2], os.Args[3]))
		case "exec":
			os.Exit(execMain(os.Args[2], os.Args[3], os.Args[4]))
		case "shim-until":
			os.Exit(shimMain(os.Args[4:], dieAt(os.Args[2], os.Args[3])))
		case "agent-until":
			os.Exit(wholeLife(os.Args[4], os.Args[5], dieAt(os.Args[2], os.Args[3])))
		}
	}
	goleak.VerifyTestMain(m)
}

// agentMain starts the task given as JSON, says so, and holds on until it is killed.
func agentMain(dir, spec string) int {
	var s driver.Spec
	if err := json.Unmarshal([]byte(spec), &s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	exe, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	d, err := New(Options{Dir: dir, Shim: []string{exe, "shim"}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	h, err := d.Start(context.Background(), s)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("started")
	_, err = d.Wait(context.Background(), h)
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func open(t *testing.T, dir string) *Driver {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d, err := New(Options{Dir: dir, Shim: []string{exe, "shim"}, Env: map[string]string{"LANG": "C"}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// fresh opens a driver on a new directory, and sweeps it in the end.
func fresh(t *testing.T) *Driver {
	t.Helper()
	d := open(t, taskRoot(t))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), drivertest.Deadline)
		defer cancel()
		drivertest.Sweep(ctx, t, d)
	})
	return d
}

// taskRoot makes a directory that other users may pass through, as an agent's is.
func taskRoot(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; strings.HasPrefix(d, os.TempDir()+"/"); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func sh(id, script string) driver.Spec {
	return driver.Spec{TaskID: id, Command: []string{"sh", "-c", script}}
}

func TestConformance(t *testing.T) {
	drivertest.Run(t, drivertest.Harness{
		New: func(t *testing.T, dir string) driver.Driver { return open(t, dir) },
		Dir: taskRoot,
		Spec: func(spec *driver.Spec, b drivertest.Behaviour) {
			if b.Rejected {
				spec.Command = []string{"/no/such/command"}
				return
			}
			var script strings.Builder
			if b.Deaf {
				script.WriteString("trap '' TERM\n")
			}
			for _, line := range b.Stdout {
				fmt.Fprintf(&script, "echo '%s'\n", line)
			}
			for _, line := range b.Stderr {
				fmt.Fprintf(&script, "echo '%s' >&2\n", line)
			}
			if b.Exit == nil {
				script.WriteString("exec sleep 1000\n")
			} else {
				fmt.Fprintf(&script, "sleep %s\nexit %d\n", strconv.FormatFloat(b.After.Seconds(), 'f', 3, 64), *b.Exit)
			}
			spec.Command = []string{"sh", "-c", script.String()}
		},
		Hog: func(spec *driver.Spec) {
			spec.Command = []string{"sh", "-c", "x=0123456789abcdef; while :; do x=$x$x; done"}
		},
		Exec: func(c drivertest.Command) []string {
			var script strings.Builder
			for _, line := range c.Stdout {
				fmt.Fprintf(&script, "echo '%s'\n", line)
			}
			for _, line := range c.Stderr {
				fmt.Fprintf(&script, "echo '%s' >&2\n", line)
			}
			for _, name := range c.Env {
				fmt.Fprintf(&script, "echo \"%s=$%s\"\n", name, name)
			}
			if c.Size {
				script.WriteString("read line\nstty size\nread line\nstty size\n")
			}
			if c.Cat {
				script.WriteString("cat\n")
			}
			if c.Hang {
				script.WriteString("sleep 1000\n")
			}
			fmt.Fprintf(&script, "exit %d\n", c.Exit)
			return []string{"sh", "-c", script.String()}
		},
	})
}
