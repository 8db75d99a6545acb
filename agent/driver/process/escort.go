package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/setpointd/setpoint/agent/driver"
)

// escortFlag has the shim's program stand beside a command that runs inside a task: it starts it, and ends it with all that it started when the agent hangs up,
// which it does in dying, too.
const escortFlag = "-escort"

// Descriptors that an escort is born with, besides the first three: where it speaks with the agent, and the command's streams.
const (
	controlFD  = 3
	commandIn  = 4
	commandErr = 6
)

// escortPause is the time between two looks at what of a command is left.
const escortPause = 20 * time.Millisecond

// escortMessage is what an escort says: once when the command runs or could not, and once when nothing of it is left.
type escortMessage struct {
	// Code and Reason are those of a driver.ExecRefusedError.
	Code   string `json:"code,omitempty"`
	Reason string `json:"reason,omitempty"`
	Err    string `json:"err,omitempty"`
	Exit   *int   `json:"exit,omitempty"`
}

// escortOrder asks for the command's end.
type escortOrder struct {
	Grace time.Duration `json:"grace_ns"`
}

// escortMain is the life of an escort. Nothing of the command is left when it returns.
func escortMain(dir taskDir, self []string) int {
	// The command dies with the thread that started it, should this process be killed.
	runtime.LockOSThread()
	for fd := controlFD; fd <= commandErr; fd++ {
		unix.CloseOnExec(fd)
	}
	if err := closeInherited(); err != nil {
		fmt.Fprintln(os.Stderr, "escort: close inherited descriptors:", err)
		return 1
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGCHLD, unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGPIPE)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, "escort: become the reaper of descendants:", err)
		return 1
	}
	file := os.NewFile(controlFD, "control")
	conn, err := net.FileConn(file)
	_ = file.Close()
	if err != nil {
		fmt.Fprintln(os.Stderr, "escort:", err)
		return 1
	}
	defer conn.Close()
	boot, err := bootID()
	if err != nil {
		fmt.Fprintln(os.Stderr, "escort:", err)
		return 1
	}
	e := &attendant{dir: dir, self: self, boot: boot, says: json.NewEncoder(conn), hears: json.NewDecoder(io.LimitReader(conn, maxRecordBytes))}
	if err := e.run(signals); err != nil {
		fmt.Fprintf(os.Stderr, "%s escort in %s: %v\n", time.Now().UTC().Format(time.RFC3339), dir, err)
		return 1
	}
	return 0
}

// An attendant is the escort's own side; main is the command's first process. One goroutine starts and reaps.
type attendant struct {
	reaper
	dir   taskDir
	self  []string
	boot  string
	says  *json.Encoder
	hears *json.Decoder
}

func (e *attendant) run(signals <-chan os.Signal) error {
	var in execution
	if err := e.hears.Decode(&in); err != nil {
		return fmt.Errorf("read what to run: %w", err)
	}
	if in.Version > intentVersion {
		return e.says.Encode(escortMessage{Err: fmt.Sprintf("the shim's program (%s) is older than the agent: install the one that came with it", os.Args[0])})
	}
	err := e.start(&in)
	for fd := commandIn; fd <= commandErr; fd++ {
		_ = unix.Close(fd) // whoever holds them keeps the other side from seeing their end
	}
	if err != nil {
		return e.says.Encode(execRefusal(&in, err))
	}
	_ = e.says.Encode(escortMessage{}) // if nobody hears it, nobody waits for it either, and the next read says so
	m := escortMessage{}
	if left := e.watch(signals, e.orders()); left > 0 {
		m.Err = fmt.Sprintf("%d processes of it could not be killed within %v", left, killTimeout)
	}
	code := e.code()
	m.Exit = &code
	_ = e.says.Encode(m)
	return nil
}

// start starts the command in a session of its own, with the terminal in its hands if it has one.
func (e *attendant) start(in *execution) error {
	in.Escort = os.Getpid()
	data, err := json.Marshal(in)
	if err != nil {
		return err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	fed := make(chan struct{})
	go func() { // ends when all was read, or with the other end
		defer close(fed)
		_, _ = write.Write(data)
		_ = write.Close()
	}()
	e.main, err = spawn(birth{
		argv: append(append([]string(nil), e.self...), becomeCommandFlag), mark: e.dir, tty: in.TTY,
		files: []uintptr{commandIn, commandIn + 1, commandErr}, more: []uintptr{read.Fd()},
	})
	_ = read.Close()
	<-fed
	return err
}

// orders hears when the command is to end. The agent's silence for ever is none; its end is one.
func (e *attendant) orders() <-chan time.Duration {
	out := make(chan time.Duration, 1)
	go func() { // ends with the process, or the agent's side
		order := escortOrder{Grace: execGrace}
		if err := e.hears.Decode(&order); err != nil {
			order.Grace = execGrace
		}
		out <- order.Grace
	}()
	return out
}

// watch waits for the command's end, which it brings about when that is ordered, and kills what is left. It returns how many it could not kill.
func (e *attendant) watch(signals <-chan os.Signal, orders <-chan time.Duration) int {
	kill := time.NewTimer(time.Hour)
	kill.Stop()
	defer kill.Stop()
	for e.reap(); !e.ended; e.reap() {
		select {
		case <-signals: // of this process's own, none means anything but that a child has ended
		case grace := <-orders:
			if grace > 0 {
				_ = unix.Kill(-e.main, unix.SIGTERM) // main is not reaped, so the group is its own
			}
			kill.Reset(max(grace, 0))
		case <-kill.C:
			_ = unix.Kill(-e.main, unix.SIGKILL)
			e.killBelow()
			kill.Reset(escortPause) // what left the group and is not a descendant yet, say
		}
	}
	for end := time.Now().Add(killTimeout); ; e.reap() {
		left := e.killBelow()
		if e.alone {
			return 0
		}
		if time.Now().After(end) {
			return max(1, left)
		}
		select {
		case <-signals:
		case <-time.After(escortPause):
		}
	}
}

// killBelow kills all that descends from this process, and returns how many there were.
func (e *attendant) killBelow() int {
	left, err := descendants(os.Getpid(), e.boot)
	if err != nil {
		return 0
	}
	for _, id := range left {
		id.signal(e.boot, unix.SIGKILL)
	}
	return len(left)
}

// execRefusal tells what the request is at fault for from what is not.
func execRefusal(in *execution, err error) escortMessage {
	r := refusal(in.intent, err)
	switch {
	case r.Rejected:
		return escortMessage{Code: r.Code, Reason: r.Reason}
	case errors.Is(err, fs.ErrNotExist): // the control group has gone with the task
		return escortMessage{Err: errTaskEnded.Error()}
	}
	return escortMessage{Err: r.Err}
}

var _ driver.Execer = (*Driver)(nil)
