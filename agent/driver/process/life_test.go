package process

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/agent/driver/drivertest"
)

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

func state(t *testing.T, d *Driver, h driver.Handle, want driver.State) driver.Status {
	t.Helper()
	status, err := d.Recover(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	if status.State != want {
		t.Fatalf("status is %+v, want %s", status, want)
	}
	return status
}

// becomes waits for a state. A process that this one starts at the same moment holds a task's lock until it executes its program.
func becomes(t *testing.T, d *Driver, h driver.Handle, want driver.State) {
	t.Helper()
	until(t, string(want), func() bool {
		status, err := d.Recover(t.Context(), h)
		if err != nil {
			t.Fatal(err)
		}
		return status.State == want
	})
}

func readAll(t *testing.T, d *Driver, h driver.Handle, req driver.LogsRequest) []string {
	t.Helper()
	var out []string
	for line, err := range d.Logs(t.Context(), h, req) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(line.Text))
	}
	return out
}

// firstLines follows the task's output until there are n lines.
func firstLines(t *testing.T, d *Driver, h driver.Handle, n int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), drivertest.Deadline)
	defer cancel()
	var out []string
	for line, err := range d.Logs(ctx, h, driver.LogsRequest{Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if out = append(out, string(line.Text)); len(out) == n {
			return out
		}
	}
	t.Fatalf("the task ended after the lines %q", out)
	return nil
}

// until polls for what processes do in their own time.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(drivertest.Deadline); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("still not: %s", what)
		}
		if err := sleep(t.Context(), 5*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

func pid(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func running(pid int) bool {
	stat, err := readStat(pid)
	return err == nil && !stat.dead()
}

// shimOf is the pid of the task's shim, from its own record.
func shimOf(t *testing.T, d *Driver, h driver.Handle) int {
	t.Helper()
	var record shimRecord
	if ok, err := readRecord(d.dir(h.TaskID).shim(), &record); err != nil || !ok {
		t.Fatalf("no record of the shim: %v", err)
	}
	return record.Shim.Pid
}

func TestAgentKilled(t *testing.T) {
	dir := taskRoot(t)
	spec := sh("web/3/42", "echo before; read line < "+dir+"/go; echo $line; echo bad >&2; exit 23")
	if err := unix.Mkfifo(filepath.Join(dir, "go"), 0o600); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	agent := exec.CommandContext(t.Context(), exe, "agent", dir, string(data))
	stdout, err := agent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	agent.Stderr = os.Stderr
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "started\n" {
		t.Fatalf("agent said %q, %v", line, err)
	}
	if err := agent.Process.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := agent.Wait(); err == nil {
		t.Fatal("agent ended by itself")
	}

	d := open(t, dir)
	h := driver.Handle{Driver: Name, TaskID: "web/3/42"} // nothing of the handle was kept
	state(t, d, h, driver.StateRunning)
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte("after\n"), 0); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, d, h); exit.Code != 23 || exit.Err != "" {
		t.Errorf("exit is %+v, want 23", exit)
	}
	out, errs := readAll(t, d, h, driver.LogsRequest{Stream: driver.Stdout}), readAll(t, d, h, driver.LogsRequest{Stream: driver.Stderr})
	if !slices.Equal(out, []string{"before", "after"}) || !slices.Equal(errs, []string{"bad"}) {
		t.Errorf("stdout is %q, stderr %q", out, errs)
	}
}

func TestEndsWhileNoAgentLives(t *testing.T) {
	d := fresh(t)
	h := start(t, d, sh("a/1/1", "echo done; exit 5"))
	until(t, "exit record written", func() bool {
		s, err := d.inspect(d.dir("a/1/1"))
		return err == nil && s.state == driver.StateExited
	})
	if status := state(t, open(t, d.opts.Dir), h, driver.StateExited); status.Exit.Code != 5 {
		t.Errorf("exit is %+v", status.Exit)
	}
}

func TestNothingIsLeft(t *testing.T) {
	tests := map[string]struct {
		script string
		stop   *driver.StopRequest
		code   int
	}{
		"child in the group":              {"sleep 1000 & echo $!; exit 3", nil, 3},
		"child in a session of its own":   {"setsid sleep 1000 & sleep 0.2; echo $!; exit 3", nil, 3},
		"orphaned grandchild":             {"(setsid sh -c 'sleep 1000 & echo $!; wait' &) ; sleep 0.3; exit 3", nil, 3},
		"stopped: session of its own":     {"setsid sleep 1000 & echo $!; wait", &driver.StopRequest{Grace: drivertest.Deadline}, 143},
		"killed: deaf, session and group": {"trap '' TERM; setsid sleep 1000 & echo $!; wait; wait", &driver.StopRequest{Grace: 50 * time.Millisecond}, 137},
		"killed: without marks":           {"env -i setsid sleep 1000 & echo $!; wait", &driver.StopRequest{}, 137},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := fresh(t)
			h := start(t, d, sh("a/1/1", test.script))
			child := pid(t, firstLines(t, d, h, 1)[0])
			shim := shimOf(t, d, h)
			if test.stop != nil {
				if err := d.Stop(t.Context(), h, *test.stop); err != nil {
					t.Fatal(err)
				}
			}
			if exit := wait(t, d, h); exit.Code != test.code || exit.Err != "" {
				t.Errorf("exit is %+v, want code %d", exit, test.code)
			}
			if running(child) || running(shim) {
				t.Errorf("child runs: %v, shim runs: %v", running(child), running(shim))
			}
			if _, err := os.Stat(procPath(shim, "stat")); err == nil {
				t.Errorf("shim %d was not reaped", shim)
			}
		})
	}
}

// An innocent process has the recorded pid, as after pid numbers came round.
// shimVia opens the driver anew, with shims that a shell script starts; $0 is this program and $1 the task's directory.
func TestSignals(t *testing.T) {
	d := fresh(t)
	for i, test := range []struct {
		script string
		want   driver.Exit
	}{
		{"kill -SEGV $$", driver.Exit{Code: 139, Signal: "SEGV"}},
		{"kill -HUP $$", driver.Exit{Code: 129, Signal: "HUP"}}, // not ignored, although a shim survives it
		{"kill -PIPE $$", driver.Exit{Code: 141, Signal: "PIPE"}},
		{"exit 139", driver.Exit{Code: 139}},
	} {
		got := wait(t, d, start(t, d, sh(fmt.Sprintf("a/%d/1", i), test.script)))
		if got.Code != test.want.Code || got.Signal != test.want.Signal {
			t.Errorf("%s: exit is %+v, want %+v", test.script, got, test.want)
		}
	}
}

func TestManyAtOnce(t *testing.T) {
	d := fresh(t)
	const n = 12
	exits := make(chan error, n)
	for i := range n {
		go func() {
			h, err := d.Start(t.Context(), sh(fmt.Sprintf("a/%d/1", i), fmt.Sprintf("echo %d; exit %d", i, i)))
			if err == nil {
				var exit driver.Exit
				if exit, err = d.Wait(t.Context(), h); err == nil && exit.Code != i {
					err = fmt.Errorf("task %d ended with %+v", i, exit)
				}
			}
			exits <- err
		}()
	}
	for range n {
		if err := <-exits; err != nil {
			t.Error(err)
		}
	}
}

func TestNoDescriptorIsLeft(t *testing.T) {
	count := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	d := fresh(t)
	before := 0
	for i := range 4 {
		h := start(t, d, sh(fmt.Sprintf("a/%d/1", i), "echo x; exec sleep 1000"))
		firstLines(t, d, h, 1)
		state(t, d, h, driver.StateRunning)
		if err := d.Stop(t.Context(), h, driver.StopRequest{}); err != nil {
			t.Fatal(err)
		}
		wait(t, d, h)
		if _, err := d.Start(t.Context(), driver.Spec{TaskID: "b/1/1", Command: []string{"/"}}); err == nil {
			t.Error("a directory was executed")
		}
		if i == 0 {
			before = count() // after what the runtime opens for itself once
		}
	}
	if after := count(); after != before {
		t.Errorf("%d descriptors are open, were %d", after, before)
	}
	if len(d.children) != 0 {
		t.Errorf("children are left: %v", d.children)
	}
}

// The program of agent and shims is replaced while a task runs: the task does not notice, the next agent has it, and new ones get the new shim.
func TestUpgrade(t *testing.T) {
	d := fresh(t)
	program := filepath.Join(t.TempDir(), "program")
	install := func() {
		t.Helper()
		data, err := os.ReadFile(d.opts.Shim[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(program+".new", data, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(program+".new", program); err != nil {
			t.Fatal(err)
		}
	}
	agent := func() *Driver {
		t.Helper()
		d, err := New(Options{Dir: d.opts.Dir, Shim: []string{program, "shim"}})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	install()
	old := agent()
	h := start(t, old, sh("a/1/1", "trap 'echo bye; exit 7' TERM; echo $$; while :; do sleep 0.05; done"))
	main := pid(t, firstLines(t, old, h, 1)[0])
	shim := shimOf(t, old, h)
	install()
	next := agent()
	state(t, next, h, driver.StateRunning)
	again := start(t, next, sh("b/1/1", "exit 3"))
	if exit := wait(t, next, again); exit.Code != 3 {
		t.Errorf("exit of the new task is %+v", exit)
	}
	if !running(main) || shimOf(t, next, h) != shim {
		t.Error("the old task or its shim is another")
	}
	if err := next.Stop(t.Context(), h, driver.StopRequest{Grace: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, next, h); exit.Code != 7 {
		t.Errorf("exit of the old task is %+v", exit)
	}
	if lines := readAll(t, next, h, driver.LogsRequest{Stream: driver.Stdout}); len(lines) != 2 || lines[1] != "bye" {
		t.Errorf("output is %q", lines)
	}
}
