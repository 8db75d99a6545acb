package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func worldOf(ts *testscript.TestScript) *world { return ts.Value(worldKey{}).(*world) }

func environ(ts *testscript.TestScript) []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR"} {
		env = append(env, name+"="+ts.Getenv(name))
	}
	return env
}

// cmdDev starts a cluster and waits until it is ready.
//
//	dev NODES [ARG…]
func cmdDev(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 1 {
		ts.Fatalf("usage: dev NODES [ARG…]")
	}
	w := worldOf(ts)
	given := []string{"dev", "--nodes", args[0], "--data-dir", w.dir, "--listen", "127.0.0.1:0"}
	if !slices.Contains(args, "--dashboard") {
		given = append(given, "--dashboard", "off")
	}
	c, err := w.launch("dev", environ(ts), append(given, args[1:]...)...)
	ts.Check(err)
	if err := ts.Exec("setpoint", "status", "--wait", "30s"); err != nil {
		out, _ := os.ReadFile(c.out)
		ts.Fatalf("the cluster is not ready: %v\n%s", err, out)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		out, err := os.ReadFile(c.out)
		ts.Check(err)
		if strings.Contains(string(out), "\n") {
			if want := 1 + strings.Count(string(out), "\ndashboard: "); !strings.HasPrefix(string(out), "ready: https://") || strings.Count(string(out), "\n") != want {
				ts.Fatalf("dev printed %q, want one line, and one for the dashboard", out)
			}
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("dev printed nothing")
		}
		pause(20 * time.Millisecond)
	}
}

// cmdExits runs a command and compares its exit code.
//
//	exits CODE COMMAND [ARG…]
func cmdExits(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG…]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	var exit *exec.ExitError
	switch err := ts.Exec(args[1], args[2:]...); {
	case errors.As(err, &exit):
		code = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}

// cmdEventually runs a command again and again until its output matches, or with ! until it does not.
//
//	[!] eventually LIMIT [-count=N] REGEXP COMMAND [ARG…]
func cmdEventually(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: eventually LIMIT [-count=N] REGEXP COMMAND [ARG…]")
	}
	limit, err := time.ParseDuration(args[0])
	ts.Check(err)
	args = args[1:]
	want := -1
	if n, ok := strings.CutPrefix(args[0], "-count="); ok {
		want, err = strconv.Atoi(n)
		ts.Check(err)
		args = args[1:]
	}
	re, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for deadline := time.Now().Add(limit); ; pause(50 * time.Millisecond) {
		err := ts.Exec(args[1], args[2:]...)
		out := ts.ReadFile("stdout")
		found := len(re.FindAllString(out, -1))
		if err == nil && (want < 0 && (found > 0) == !neg || want >= 0 && found == want) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("not within %s: %s matches %d times, last error %v, in\n%s", limit, args[0], found, err, out)
		}
	}
}

// cmdSignal signals a process and, for KILL, waits until it is gone.
//
//	signal SIGNAL server | agent NAME | plugin NAME
func cmdSignal(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: signal SIGNAL server | agent NAME | plugin NAME")
	}
	signal := map[string]syscall.Signal{"KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT}[args[0]]
	w := worldOf(ts)
	pid, err := w.pid(args[1], strings.Join(args[2:], ""))
	ts.Check(err)
	ts.Check(syscall.Kill(pid, signal))
	if args[0] == "STOP" || args[0] == "CONT" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for !gone(pid) {
		if ctx.Err() != nil {
			ts.Fatalf("process %d still runs", pid)
		}
		pause(10 * time.Millisecond)
	}
	for _, c := range w.procs {
		if c.cmd.Process.Pid == pid {
			ts.Check(c.wait(ctx))
		}
	}
}

// gone reports whether a process has ended, also if nobody has waited for it yet.
func gone(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return strings.HasPrefix(rest, "Z") || strings.HasPrefix(rest, "X")
}

// cmdAgent starts an agent: one that joins, or again the one of a directory.
//
//	agent NAME [ARG…]
func cmdAgent(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 1 {
		ts.Fatalf("usage: agent NAME [ARG…]")
	}
	w := worldOf(ts)
	_, err := w.launch("agent-"+args[0], environ(ts), append([]string{"agent", "--data-dir", filepath.Join(w.dir, "agents", args[0])}, args[1:]...)...)
	ts.Check(err)
}

// cmdBackground starts a command that goes on. What it prints is in $WORK/d/NAME.out.
//
//	background NAME COMMAND [ARG…]
func cmdBackground(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: background NAME COMMAND [ARG…]")
	}
	w := worldOf(ts)
	c, err := w.launch(args[0], append(environ(ts), "SETPOINT_DATA_DIR="+w.dir), args[1:]...)
	ts.Check(err)
	ts.Check(os.Symlink(c.out, filepath.Join(w.dir, args[0]+".out")))
}

// cmdOrdered checks that in each slot of a job a task was made only after the one before was seen to have ended.
//
//	ordered JOB
func cmdOrdered(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: ordered JOB")
	}
	var tasks []struct {
		ID       string
		Slot     string
		Dead     bool
		Created  time.Time
		Observed struct{ At time.Time }
	}
	ts.Check(worldOf(ts).ask(&tasks, "task", "ls", "--all", "--job", args[0]))
	moves := 0
	for i := 1; i < len(tasks); i++ {
		before, after := tasks[i-1], tasks[i]
		if before.Slot != after.Slot {
			continue
		}
		moves++
		if !before.Dead || after.Created.Before(before.Observed.At) {
			ts.Fatalf("%s was made at %s, and %s was seen to end at %s (dead: %v)", after.ID, after.Created, before.ID, before.Observed.At, before.Dead)
		}
	}
	if moves == 0 {
		ts.Fatalf("no slot of %s has had two tasks", args[0])
	}
}

// cmdTasks compares how many process tasks run on this machine, whatever the server believes, and that no slot has two.
//
//	tasks NUMBER
func cmdTasks(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: tasks NUMBER")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	w := worldOf(ts)
	for deadline := time.Now().Add(15 * time.Second); ; pause(50 * time.Millisecond) {
		shims := w.shims()
		if len(shims) == want {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%d tasks run, want %d: %v", len(shims), want, shims)
		}
	}
}

// cmdSave runs a command and keeps the first match of a group of a regular expression in a variable.
//
//	save VARIABLE REGEXP COMMAND [ARG…]
func cmdSave(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: save VARIABLE REGEXP COMMAND [ARG…]")
	}
	re, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	ts.Check(ts.Exec(args[2], args[3:]...))
	m := re.FindStringSubmatch(ts.ReadFile("stdout"))
	if m == nil {
		ts.Fatalf("%s matches nothing in\n%s", args[1], ts.ReadFile("stdout"))
	}
	ts.Setenv(args[0], m[len(m)-1])
}
