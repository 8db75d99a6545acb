package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/agent/driver/drivertest"
)

// execMain runs a command in a task that runs, says how it ended, and serves as an agent that can be killed meanwhile.
func execMain(dir, task, script string) int {
	exe, err := os.Executable()
	if err == nil {
		var d *Driver
		if d, err = New(Options{Dir: dir, Shim: []string{exe, "shim"}}); err == nil {
			_, err = d.Exec(context.Background(), driver.Handle{Driver: Name, TaskID: task}, driver.ExecRequest{
				Command: []string{"sh", "-c", script}, Stdout: os.Stdout, Stderr: os.Stderr,
			})
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func startTask(t *testing.T, d *Driver, spec driver.Spec) driver.Handle {
	t.Helper()
	h, err := d.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// inTask runs a script inside a task and returns what it wrote.
func inTask(t *testing.T, d *Driver, h driver.Handle, req driver.ExecRequest, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), drivertest.Deadline)
	defer cancel()
	var out, errs bytes.Buffer
	req.Command, req.Stdout, req.Stderr = []string{"sh", "-c", script}, &out, &errs
	if code, err := d.Exec(ctx, h, req); code != 0 || err != nil {
		t.Fatalf("code %d, error %v, %s", code, err, errs.String())
	}
	return out.String()
}

// pidIn waits for a number that a process writes into a file.
func pidIn(t *testing.T, file string) int {
	t.Helper()
	var pid int
	until(t, file+" has a number", func() bool {
		text, err := os.ReadFile(file)
		if err != nil || !strings.HasSuffix(string(text), "\n") {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	})
	return pid
}

func wantGone(t *testing.T, pids ...int) {
	t.Helper()
	until(t, fmt.Sprintf("processes %v are gone", pids), func() bool {
		return !slices.ContainsFunc(pids, func(pid int) bool {
			stat, err := readStat(pid)
			return err == nil && !stat.dead()
		})
	})
}

// A command has all that its task has.
func TestExecIsAsTheTaskIs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("tasks of other users take root")
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Skip(err)
	}
	d := fresh(t)
	spec := sh("job/1/1", "sleep 1000")
	spec.User = "nobody"
	spec.Settings = map[string]string{"umask": "027", "nofile": "77", "core": "0"}
	h := startTask(t, d, spec)
	all := `echo "$(id -u) $(id -G) $(umask) $(ulimit -n) $(pwd) $HOME"; grep NoNewPrivs /proc/self/status; cat /proc/self/cgroup`
	got := inTask(t, d, h, driver.ExecRequest{}, all)
	dir := d.dir("job/1/1")
	want := fmt.Sprintf("%s %s 0027 77 %s %s\nNoNewPrivs:\t1\n", nobody.Uid, groupsOf(t, nobody), dir.work(), nobody.HomeDir)
	if !strings.HasPrefix(got, want) {
		t.Errorf("it says %q, want %q", got, want)
	}
	var record shimRecord
	if _, err := readRecord(dir.shim(), &record); err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(procPath(record.Task.Pid, "cgroup"))
	if err != nil || !strings.HasSuffix(got, string(own)) {
		t.Errorf("its control groups are in %q, and the task's are %q, %v", got, own, err)
	}

	got = inTask(t, d, h, driver.ExecRequest{User: "0:0", Dir: "/", Env: map[string]string{"SETPOINT_TASK_DIR": "/elsewhere"}},
		`echo "$(id -u) $(id -G) $(pwd) $HOME $SETPOINT_TASK_DIR $SETPOINT_TASK_ID"`)
	if want := fmt.Sprintf("0 0 / /root %s job/1/1\n", dir); got != want {
		t.Errorf("as root it says %q, want %q", got, want)
	}
	// It has no descriptor but the three.
	if got := inTask(t, d, h, driver.ExecRequest{}, "echo $(ls /proc/self/fd)"); got != "0 1 2 3\n" { // 3 is the directory that ls reads
		t.Errorf("its descriptors are %q", got)
	}
}

func groupsOf(t *testing.T, u *user.User) string {
	t.Helper()
	ids, err := u.GroupIds()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(ids, " ")
}

// What the command leaves behind ends with it, wherever it went.
func TestExecLeavesNothing(t *testing.T) {
	d := fresh(t)
	h := startTask(t, d, sh("job/1/1", "sleep 1000"))
	file := filepath.Join(t.TempDir(), "pid")
	inTask(t, d, h, driver.ExecRequest{}, "setsid sh -c 'echo $$ >"+file+"; exec sleep 1000' >/dev/null 2>&1 & while ! [ -s "+file+" ]; do sleep 0.01; done")
	wantGone(t, pidIn(t, file))
}

// A command that does not end when asked is killed.
func TestExecIsKilled(t *testing.T) {
	d := fresh(t)
	h := startTask(t, d, sh("job/1/1", "sleep 1000"))
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	end := make(chan error, 1)
	go func() {
		_, err := d.Exec(ctx, h, driver.ExecRequest{
			Command: []string{"sh", "-c", "trap '' TERM HUP; echo $$ >" + file + "; while :; do sleep 0.1; done"}, Stdout: io.Discard, Stderr: io.Discard,
		})
		end <- err
	}()
	pid := pidIn(t, file)
	began := time.Now()
	cancel()
	if err := <-end; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	if took := time.Since(began); took < execGrace {
		t.Errorf("it was given %v, want %v", took, execGrace)
	}
	wantGone(t, pid)
}

// The agent's death, and the escort's, end the command; the task runs on.
func TestExecEndsWithTheAgent(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, whom := range []string{"agent", "escort"} {
		t.Run(whom, func(t *testing.T) {
			d := fresh(t)
			h := startTask(t, d, sh("job/1/1", "sleep 1000"))
			file := filepath.Join(t.TempDir(), "pid")
			agent := exec.CommandContext(t.Context(), exe, "exec", d.opts.Dir, "job/1/1", "echo $$ >"+file+"; exec sleep 1000")
			var errs bytes.Buffer
			agent.Stderr = &errs
			if err := agent.Start(); err != nil {
				t.Fatal(err)
			}
			pid := pidIn(t, file)
			stat, err := readStat(pid)
			if err != nil {
				t.Fatal(err)
			}
			victim := map[string]int{"agent": agent.Process.Pid, "escort": stat.parent}[whom]
			if err := unix.Kill(victim, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			_ = agent.Wait() // killed, or with the error that it prints
			wantGone(t, pid, stat.parent)
			if whom == "escort" && !strings.Contains(errs.String(), "its escort was killed") {
				t.Errorf("the agent says %q", errs.String())
			}
			if status, err := d.Recover(t.Context(), h); err != nil || status.State != driver.StateRunning {
				t.Errorf("the task is %+v, %v", status, err)
			}
		})
	}
}

// Ctrl-C is typed, and who sits at the terminal can be told of its end.
func TestExecAtATerminal(t *testing.T) {
	d := fresh(t)
	h := startTask(t, d, sh("job/1/1", "sleep 1000"))
	in, typed := io.Pipe()
	var out bytes.Buffer
	end := make(chan int, 1)
	go func() {
		code, err := d.Exec(t.Context(), h, driver.ExecRequest{
			Command: []string{"sh", "-c", "trap 'echo interrupted; exit 7' INT; tty; echo ready; while :; do sleep 0.05; done"},
			TTY:     &driver.WindowSize{Rows: 10, Columns: 20}, Stdin: in, Stdout: writerFunc(func(p []byte) {
				out.Write(p)
				if strings.Contains(string(p), "ready") {
					go typed.Write([]byte{3})
				}
			}), Stderr: io.Discard,
		})
		if err != nil {
			t.Error(err)
		}
		end <- code
	}()
	if code := <-end; code != 7 || !strings.Contains(out.String(), "/dev/pts/") || !strings.Contains(out.String(), "interrupted") {
		t.Errorf("code %d, the terminal shows %q", code, out.String())
	}
	// The end of the input is what a person types for that.
	out.Reset()
	code, err := d.Exec(t.Context(), h, driver.ExecRequest{
		Command: []string{"sh", "-c", "cat; echo read"}, TTY: &driver.WindowSize{}, Stdin: io.NopCloser(strings.NewReader("line\n")), Stdout: &out, Stderr: io.Discard,
	})
	if code != 0 || err != nil || !strings.Contains(out.String(), "read\r\n") {
		t.Errorf("code %d, error %v, the terminal shows %q", code, err, out.String())
	}
}

type writerFunc func(p []byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}
