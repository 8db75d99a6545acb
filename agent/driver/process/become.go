package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// becomeFlag has this program, executed once more by a shim, become the task: what a process must do to itself it can do in no other way.
const becomeFlag = "-become"

// verdictFD is where it says how that went: one verdict before the last step, and another if that failed. The kernel closes it as the task begins.
const verdictFD = 3

// A verdict is one line of JSON. The first has no step: all is done but to execute the program.
type verdict struct {
	Step  string `json:"step,omitempty"`
	Errno int    `json:"errno,omitempty"`
	Err   string `json:"err,omitempty"`
}

// The steps of which it matters what they were.
const (
	stepJoin    = "join the control group"
	stepEnter   = "enter the working directory"
	stepExecute = "execute" // at which the program itself is at fault
)

// becomeMain turns this process into the directory's task. It returns only if that failed, with the exit code.
func becomeMain(dir taskDir, point func(string)) int {
	runtime.LockOSThread() // what is renounced of one thread is renounced by the one that executes
	unix.CloseOnExec(verdictFD)
	var in intent
	step := "read the intent"
	ok, err := readRecord(dir.spec(), &in)
	switch {
	case err == nil && !ok:
		err = syscall.ENOENT
	case err == nil:
		step, err = in.become(point)
	}
	say(verdict{Step: step, Err: err.Error(), Errno: int(errnoOf(err))})
	return 127
}

func errnoOf(err error) syscall.Errno {
	var no syscall.Errno
	_ = errors.As(err, &no) // or it stays 0
	return no
}

// say writes a verdict. Whoever does not read it is gone, and then nobody is told.
func say(v verdict) {
	if line, err := json.Marshal(v); err == nil {
		_, _ = unix.Write(verdictFD, append(line, '\n'))
	}
}

// become takes on all that the task is to be born with, in the order in which one may, and executes its program. It returns the step that failed.
func (in *intent) become(point func(string)) (step string, err error) {
	if err := in.Group.Join(); err != nil {
		return stepJoin, err
	}
	point("task: in its control group")
	for _, l := range in.Settings.Limits {
		if err := l.set(); err != nil {
			return fmt.Sprintf("set %s to %s:%s", l.Name, text(l.Soft), text(l.Hard)), err
		}
	}
	if c := in.Credential; c != nil {
		groups := make([]int, 0, len(c.Groups))
		for _, g := range c.Groups {
			groups = append(groups, int(g))
		}
		if err := syscall.Setgroups(groups); err != nil {
			return "set the groups", err
		}
		if err := syscall.Setresgid(int(c.GID), int(c.GID), int(c.GID)); err != nil {
			return "set the group", err
		}
		if err := syscall.Setresuid(int(c.UID), int(c.UID), int(c.UID)); err != nil {
			return "set the user", err
		}
	}
	if err := os.Chdir(in.Dir); err != nil {
		return stepEnter, err
	}
	if !in.Settings.NewPrivileges {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return "renounce new privileges", err
		}
	}
	unix.Umask(in.Settings.Umask)
	say(verdict{})
	return stepExecute, syscall.Exec(in.Path, in.Spec.Command, in.Env)
}

// A becomeError says at which step a process did not become the task.
type becomeError struct {
	verdict
}

func (e *becomeError) Error() string {
	if no := syscall.Errno(e.Errno); no != 0 {
		return e.Step + ": " + no.Error()
	}
	return e.Step + ": " + e.Err
}

func (e *becomeError) Unwrap() error { return syscall.Errno(e.Errno) }

// spawn starts a process in a session of its own that becomes the task, and returns its number once the task's program is executed.
func (s *shim) spawn(files []uintptr) (pid int, err error) {
	verdicts, verdictsW, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer verdicts.Close()
	pid, err = syscall.ForkExec("/proc/self/exe", append(append([]string(nil), s.self...), becomeFlag, string(s.dir)), &syscall.ProcAttr{
		Dir:   "/",
		Env:   []string{taskMark + "=" + string(s.dir), "GOMAXPROCS=1", "GOGC=off", "GOTRACEBACK=single"},
		Files: append(files, verdictsW.Fd()),
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err = errors.Join(err, verdictsW.Close()); err != nil {
		return 0, fmt.Errorf("start a process: %w", err)
	}
	said := json.NewDecoder(verdicts)
	var first, second verdict
	if err := said.Decode(&first); err != nil {
		first = verdict{Step: "start a process", Err: "it ended before it was the task: " + err.Error()}
	} else if first.Step == "" && said.Decode(&second) == nil {
		first = second
	}
	if first.Step == "" {
		return pid, nil
	}
	_ = unix.Kill(pid, unix.SIGKILL) // it is a child, and not reaped: it is this one
	for {
		if _, err := syscall.Wait4(pid, nil, 0, nil); !errors.Is(err, syscall.EINTR) {
			return 0, &becomeError{first}
		}
	}
}
