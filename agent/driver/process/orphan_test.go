package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/setpointd/setpoint/agent/driver"
)

func TestShimKilled(t *testing.T) {
	finish := map[string]func(*testing.T, *Driver, driver.Handle){
		"stop": func(t *testing.T, d *Driver, h driver.Handle) {
			if err := d.Stop(t.Context(), h, driver.StopRequest{Grace: time.Hour}); err != nil {
				t.Fatal(err)
			}
		},
		"wait": func(t *testing.T, d *Driver, h driver.Handle) { wait(t, d, h) },
	}
	for name, end := range finish {
		t.Run(name, func(t *testing.T) {
			d := fresh(t)
			h := start(t, d, sh("a/1/1", "setsid sleep 1000 & echo $!; echo $$; trap '' TERM PIPE; while :; do wait; done"))
			lines := firstLines(t, d, h, 2)
			child, main := pid(t, lines[0]), pid(t, lines[1])
			waited := make(chan driver.Exit)
			waiter := d
			go func() { // whoever waits when it happens is told too
				exit, err := waiter.Wait(t.Context(), h)
				if err != nil {
					t.Error(err)
				}
				waited <- exit
			}()
			if name == "stop" { // a waiter would end it before Recover looks
				d = open(t, d.opts.Dir)
			}
			if err := unix.Kill(shimOf(t, d, h), unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			end(t, d, h)
			exit := <-waited
			if exit.Code != driver.ExitUnknown || !strings.Contains(exit.Err, "shim is gone") || exit.Started.IsZero() {
				t.Errorf("exit is %+v", exit)
			}
			if running(child) || running(main) {
				t.Errorf("child runs: %v, first process runs: %v", running(child), running(main))
			}
			if status := state(t, d, h, driver.StateExited); *status.Exit != exit && status.Exit.Err != exit.Err {
				t.Errorf("recovered %+v, waiter got %+v", status.Exit, exit)
			}
		})
	}
}

func TestShimKilledIsReported(t *testing.T) {
	d := fresh(t)
	h := start(t, d, sh("a/1/1", "exec sleep 1000"))
	shim := shimOf(t, d, h)
	if err := unix.Kill(shim, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "shim gone", func() bool { return !running(shim) })
	becomes(t, d, h, driver.StateOrphaned)
	if status := state(t, d, h, driver.StateOrphaned); status.Message == "" {
		t.Errorf("status is %+v", status)
	}
	if err := d.Remove(t.Context(), h); !errors.Is(err, driver.ErrRunning) {
		t.Errorf("remove of an orphan that runs returned %v", err)
	}
	again, err := d.Start(t.Context(), sh("a/1/1", "exit 0"))
	if err != nil || string(again.Data) != string(h.Data) {
		t.Errorf("start of an orphan returned %+v, %v", again, err)
	}
	state(t, d, h, driver.StateOrphaned)
}

func TestShimHangs(t *testing.T) {
	d := fresh(t)
	h := start(t, d, sh("a/1/1", "echo $$; exec sleep 1000"))
	main := pid(t, firstLines(t, d, h, 1)[0])
	shim := shimOf(t, d, h)
	if err := unix.Kill(shim, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	until(t, "shim hangs", func() bool {
		stat, err := readStat(shim)
		return err == nil && stat.state == 'T'
	})
	if err := d.Stop(t.Context(), h, driver.StopRequest{Grace: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, d, h); exit.Code != driver.ExitUnknown || exit.Err == "" {
		t.Errorf("exit is %+v", exit)
	}
	if running(main) {
		t.Error("the task still runs")
	}
}

func TestPidReuse(t *testing.T) {
	innocent := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := innocent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := innocent.Process.Kill(); err != nil {
			t.Errorf("the innocent process was killed: %v", err)
		}
		_ = innocent.Wait() // killed
	})
	now, err := identify(innocent.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]identity{
		"earlier start": {Boot: now.Boot, Pid: now.Pid, Start: now.Start - 1},
		"other boot":    {Boot: "00000000-0000-0000-0000-000000000000", Pid: now.Pid, Start: now.Start},
	}
	for name, recorded := range tests {
		t.Run(name, func(t *testing.T) {
			d := fresh(t)
			dir := d.dir("a/1/1")
			in := intent{Spec: sh("a/1/1", "exit 0"), Mark: "old"}
			if err := dir.create(in); err != nil {
				t.Fatal(err)
			}
			record := shimRecord{Mark: "old", Shim: recorded, Task: recorded, Started: time.Unix(1, 0)}
			if err := errors.Join(writeRecord(dir.spec(), in, false), writeRecord(dir.shim(), record, false)); err != nil {
				t.Fatal(err)
			}
			h := newHandle("a/1/1", "old")
			state(t, d, h, driver.StateOrphaned)
			if err := d.Stop(t.Context(), h, driver.StopRequest{}); err != nil {
				t.Fatal(err)
			}
			if exit := wait(t, d, h); exit.Code != driver.ExitUnknown || exit.Err == "" {
				t.Errorf("exit is %+v", exit)
			}
			if !running(now.Pid) {
				t.Error("the innocent process was killed")
			}
		})
	}
}

func TestNeverStarted(t *testing.T) {
	d := fresh(t)
	dir := d.dir("a/1/1")
	in := intent{Spec: sh("a/1/1", "exit 0"), Mark: "old"}
	if err := errors.Join(dir.create(in), writeRecord(dir.spec(), in, false)); err != nil {
		t.Fatal(err)
	}
	h := driver.Handle{Driver: Name, TaskID: "a/1/1"}
	state(t, d, h, driver.StateNotStarted)
	if _, err := d.Wait(t.Context(), h); !errors.Is(err, driver.ErrNotStarted) {
		t.Errorf("wait returned %v", err)
	}
	if err := d.Stop(t.Context(), h, driver.StopRequest{}); err != nil {
		t.Errorf("stop returned %v", err)
	}
	h = start(t, d, sh("a/1/1", "exit 4"))
	if exit := wait(t, d, h); exit.Code != 4 {
		t.Errorf("exit is %+v", exit)
	}
}

func TestDirectoryLost(t *testing.T) {
	d := fresh(t)
	h := start(t, d, sh("a/1/1", "echo $$; exec sleep 1000"))
	main := pid(t, firstLines(t, d, h, 1)[0])
	if err := os.RemoveAll(string(d.dir("a/1/1"))); err != nil {
		t.Fatal(err)
	}
	d = open(t, d.opts.Dir)
	all, err := d.List(t.Context())
	if err != nil || len(all) != 1 || all[0].Handle.TaskID != "a/1/1" || all[0].Status.State != driver.StateOrphaned {
		t.Fatalf("list is %+v, %v", all, err)
	}
	if err := d.Stop(t.Context(), all[0].Handle, driver.StopRequest{}); err != nil {
		t.Fatal(err)
	}
	if running(main) {
		t.Error("the task still runs")
	}
	if all, err := d.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("list is %+v, %v", all, err)
	}
}

func shimVia(t *testing.T, d *Driver, script string) *Driver {
	t.Helper()
	d, err := New(Options{Dir: d.opts.Dir, Shim: append([]string{"/bin/sh", "-c", script}, d.opts.Shim[0])})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestStartGivenUp(t *testing.T) {
	d := fresh(t)
	slow := shimVia(t, d, `while [ ! -e "$1/go" ]; do sleep 0.02; done; exec "$0" shim "$1"`)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	spec := sh("a/1/1", "exit 9")
	if _, err := slow.Start(ctx, spec); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("start returned %v", err)
	}
	if err := os.WriteFile(filepath.Join(string(d.dir("a/1/1")), "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, d, start(t, d, spec)); exit.Code != 9 {
		t.Errorf("exit is %+v, want 9", exit)
	}
}

func TestShimCrashesAtStart(t *testing.T) {
	d := fresh(t)
	_, err := shimVia(t, d, "echo no memory >&2; exit 2").Start(t.Context(), sh("a/1/1", "exit 9"))
	var why *driver.RejectedError
	if err == nil || errors.As(err, &why) || !strings.Contains(err.Error(), "no memory") {
		t.Fatalf("start returned %v", err)
	}
	state(t, d, driver.Handle{Driver: Name, TaskID: "a/1/1"}, driver.StateNotStarted)
	if exit := wait(t, d, start(t, d, sh("a/1/1", "exit 9"))); exit.Code != 9 {
		t.Errorf("exit is %+v, want 9", exit)
	}
}

func TestShimSaysNothing(t *testing.T) {
	d := fresh(t)
	mute := shimVia(t, d, "exec sleep 1000")
	mute.opts.StartTimeout = 100 * time.Millisecond
	if _, err := mute.Start(t.Context(), sh("a/1/1", "exit 9")); err == nil || !strings.Contains(err.Error(), "said nothing for 100ms") {
		t.Fatalf("start returned %v", err)
	}
	h := driver.Handle{Driver: Name, TaskID: "a/1/1"}
	if err := d.Stop(t.Context(), h, driver.StopRequest{Grace: time.Hour}); err != nil {
		t.Fatal(err)
	}
	state(t, d, h, driver.StateNotStarted)
}

func TestShimMainRefusesStrangers(t *testing.T) {
	for _, args := range [][]string{nil, {"relative"}, {"/a", "/b"}} {
		if code := ShimMain(args); code != 2 {
			t.Errorf("%q returned %d, want 2", args, code)
		}
	}
}

func TestMachineStops(t *testing.T) {
	d := fresh(t)
	spec := sh("a/1/1", "trap 'echo bye; exit 6' INT; echo ready; while :; do sleep 0.05; done")
	spec.StopSignal = "INT"
	h := start(t, d, spec)
	firstLines(t, d, h, 1)
	if err := unix.Kill(shimOf(t, d, h), unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, d, h); exit.Code != 6 {
		t.Errorf("exit is %+v, want 6", exit)
	}
}
