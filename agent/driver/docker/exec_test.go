package docker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/agent/driver/drivertest"
)

// inTask runs a command in a task and returns what it wrote.
func inTask(t *testing.T, d *Driver, h driver.Handle, req driver.ExecRequest, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), drivertest.Deadline)
	defer cancel()
	var out, errs bytes.Buffer
	req.Command, req.Stdout, req.Stderr = append([]string{program}, args...), &out, &errs
	if code, err := d.Exec(ctx, h, req); code != 0 || err != nil {
		t.Fatalf("code %d, error %v, %s", code, err, errs.String())
	}
	return out.String()
}

// running waits until as many processes carry the driver's mark.
func (d *Driver) waitMarked(t *testing.T, want int) {
	t.Helper()
	ours := func(mark string) bool { return strings.HasPrefix(mark, d.owner+".") }
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	late := time.After(drivertest.Deadline)
	for len(marked(ours)) != want {
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("%d processes of commands run, want %d", len(marked(ours)), want)
		}
	}
}

func TestExecIsAsTheTaskIs(t *testing.T) {
	d := fresh(t)
	spec := task("job/1/1", "out", "up")
	spec.User = "web"
	h := start(t, d, spec)
	if got := inTask(t, d, h, driver.ExecRequest{}, "who", "status", "NoNewPrivs", "exit", "0"); !strings.HasPrefix(got, "uid 1001 gid 1002 dir / ") || !strings.Contains(got, "NoNewPrivs: 1\n") {
		t.Errorf("it says %q", got)
	}
	if got := inTask(t, d, h, driver.ExecRequest{User: "7:8", Dir: "/etc"}, "who", "exit", "0"); !strings.HasPrefix(got, "uid 7 gid 8 dir /etc ") {
		t.Errorf("as somebody else it says %q", got)
	}
	var refused *driver.ExecRefusedError
	if _, err := d.Exec(t.Context(), h, driver.ExecRequest{Command: []string{"/plain"}, Stdout: io.Discard, Stderr: io.Discard}); !errors.As(err, &refused) || refused.Code != driver.RejectNotExecutable {
		t.Errorf("what is no program: %v", err)
	}
}

// What a command leaves behind ends with it, and so does all of it when it is cut.
func TestExecLeavesNothing(t *testing.T) {
	d := fresh(t)
	h := start(t, d, task("job/1/1", "out", "up"))
	inTask(t, d, h, driver.ExecRequest{}, "spawn", "left", "exit", "0")
	d.waitMarked(t, 0)

	ctx, cancel := context.WithCancel(t.Context())
	end := make(chan error, 1)
	go func() {
		_, err := d.Exec(ctx, h, driver.ExecRequest{Command: []string{program, "deaf", "spawn", "left"}, Stdout: io.Discard, Stderr: io.Discard})
		end <- err
	}()
	d.waitMarked(t, 2)
	cancel()
	if err := <-end; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	d.waitMarked(t, 0)
}

// What the agent's death leaves is ended when the next one looks around.
func TestExecOfADeadAgent(t *testing.T) {
	d := fresh(t)
	h := start(t, d, task("job/1/1", "out", "up"))
	go func() {
		_, _ = d.Exec(context.WithoutCancel(t.Context()), h, driver.ExecRequest{Command: []string{program, "out", "x"}, Stdout: io.Discard, Stderr: io.Discard})
	}()
	d.waitMarked(t, 1)
	if _, err := d.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.waitMarked(t, 1) // it is looked after
	next := open(t, d.opts.Host, d.opts.Dir)
	if _, err := next.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.waitMarked(t, 0)
}
