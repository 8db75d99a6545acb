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

// becomeCommandFlag has it, executed by an escort, become a command that runs inside a task. What that is it reads from intentFD.
const becomeCommandFlag = "-become-command"

const intentFD = 4

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
		step, err = in.become(point, 0)
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

// becomeCommandMain turns this process into a command inside a task. It returns only if that failed, with the exit code.
func becomeCommandMain(point func(string)) int {
	runtime.LockOSThread()
	unix.CloseOnExec(verdictFD)
	unix.CloseOnExec(intentFD)
	var in execution
	step := "read what to run"
	err := json.NewDecoder(os.NewFile(intentFD, "intent")).Decode(&in)
	if err == nil {
		step, err = in.become(point, in.Escort)
	}
	say(verdict{Step: step, Err: err.Error(), Errno: int(errnoOf(err))})
	return 127
}

// become takes on all that the task is to be born with, in the order in which one may, and executes its program. With an escort's number it ends with that. It returns
// the step that failed.
func (in *intent) become(point func(string), escort int) (step string, err error) {
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
	if escort != 0 { // after the user was set, which ends it
		if err := tie(escort); err != nil {
			return "be tied to the escort", err
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

// tie has the kernel kill this process when its parent is gone.
func tie(parent int) error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	if os.Getppid() != parent {
		return syscall.ESRCH // it was gone before
	}
	return nil
}

// A birth is how a process that becomes another is started.
type birth struct {
	argv  []string
	mark  taskDir
	files []uintptr // its first three descriptors
	more  []uintptr // those after verdictFD
	tty   bool      // the first three are a terminal, of which it is to have control
}

// spawn starts a process in a session of its own that becomes what it is to be, and returns its number once that program is executed.
func spawn(b birth) (pid int, err error) {
	verdicts, verdictsW, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer verdicts.Close()
	pid, err = syscall.ForkExec("/proc/self/exe", b.argv, &syscall.ProcAttr{
		Dir:   "/",
		Env:   []string{taskMark + "=" + string(b.mark), "GOMAXPROCS=1", "GOGC=off", "GOTRACEBACK=single"},
		Files: append(append(b.files, verdictsW.Fd()), b.more...),
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: b.tty},
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
