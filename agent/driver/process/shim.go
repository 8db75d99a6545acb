package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/setpointd/setpoint/agent/driver"
)

// Descriptors that a shim is born with, besides the first three.
const (
	readyFD = 3 // one readyMessage goes there
	lockFD  = 4 // the directory's lock, held by staying open
)

const (
	// killTimeout is how long a shim tries to kill what is left of a task before it reports that it could not.
	killTimeout = 5 * time.Second
	// drainTimeout is how long output may still come after the last process is gone. Somebody outside the task may hold the pipe.
	drainTimeout = 2 * time.Second
	// farewellTimeout is how long the answers to waiters may take.
	farewellTimeout = time.Second
)

// ShimMain is the life of a shim. The program that hosts the driver calls it first thing when it is started with Options.Shim's arguments,
// with those that follow them, and exits with what it returns. It returns once the task and all that belonged to it are gone.
func ShimMain(args []string) int { return shimMain(args, func(string) {}) }

// shimMain is ShimMain; point is called with a name wherever the shim's death leaves the world as it is just then.
func shimMain(args []string, point func(string)) int {
	self := func() []string { return os.Args[:len(os.Args)-len(args)] }
	switch {
	case len(args) == 2 && args[0] == becomeFlag && filepath.IsAbs(args[1]):
		point("task: born")
		return becomeMain(taskDir(args[1]), point)
	case len(args) == 2 && args[0] == escortFlag && filepath.IsAbs(args[1]):
		return escortMain(taskDir(args[1]), self())
	case len(args) == 1 && args[0] == becomeCommandFlag:
		return becomeCommandMain(point)
	}
	if len(args) != 1 || !filepath.IsAbs(args[0]) {
		fmt.Fprintln(os.Stderr, "shim: want one argument, the task's directory; this command is for the agent only")
		return 2
	}
	unix.CloseOnExec(readyFD)
	unix.CloseOnExec(lockFD)
	if err := closeInherited(); err != nil {
		fmt.Fprintln(os.Stderr, "shim: close inherited descriptors:", err)
		return 1
	}
	unix.Umask(defaultUmask)
	ready := os.NewFile(readyFD, "ready")
	s := &shim{
		dir: taskDir(args[0]), self: self(), point: point,
		stops: make(chan stopOrder), exited: make(chan struct{}),
	}
	point("shim: born")
	if err := s.run(ready); err != nil {
		fmt.Fprintf(os.Stderr, "%s shim of %s: %v\n", time.Now().UTC().Format(time.RFC3339), args[0], err)
		return 1
	}
	return 0
}

// closeInherited closes what the agent itself was born with and passed on unknowingly. Go marks all that it opens to be closed on exec, so
// what is not marked was not opened by this program.
func closeInherited() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= lockFD {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd) // an error leaves nothing to do
		}
	}
	return nil
}

// A shim watches one task.
type shim struct {
	dir    taskDir
	self   []string // with what this program was called, without the directory
	point  func(string)
	intent intent
	record shimRecord
	stops  chan stopOrder
	exited chan struct{} // closed once exit is set
	exit   driver.Exit
}

// run starts the task, tells so on ready, and watches it to its end.
func (s *shim) run(ready *os.File) error {
	signals, err := s.prepare()
	if err != nil {
		return errors.Join(err, report(ready, readyMessage{Err: err.Error()}))
	}
	listener, err := s.dir.listen()
	if err != nil {
		err = fmt.Errorf("listen: %w", err)
		return errors.Join(err, report(ready, readyMessage{Err: err.Error()}))
	}
	defer listener.Close()
	s.point("shim: listens")
	output, err := s.startTask()
	if err != nil {
		// Nothing ran, so the record that it may have goes; then the task may be started again.
		return errors.Join(err, os.Remove(s.dir.shim()), report(ready, refusal(s.intent, err)))
	}
	s.point("shim: task recorded")
	if err := report(ready, readyMessage{}); err != nil && !errors.Is(err, syscall.EPIPE) {
		fmt.Fprintln(os.Stderr, "report the start:", err) // the agent asks again, over the socket
	}
	s.point("shim: start reported")
	var serving sync.WaitGroup
	serving.Go(func() { s.serve(listener) })
	s.exit = s.supervise(signals)
	s.finish(output)
	s.point("shim: task ended")
	err = writeRecord(s.dir.exit(), s.exit, true)
	close(s.exited)
	s.point("shim: exit written")
	if groupErr := s.intent.Group.Remove(); groupErr != nil { // the driver's Remove tries again
		fmt.Fprintln(os.Stderr, "remove the control group:", groupErr)
	}
	s.point("shim: control group removed")
	_ = listener.Close()
	done := make(chan struct{})
	go func() {
		serving.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(farewellTimeout):
	}
	return err
}

// prepare makes this process a reaper, reads the intent and leaves the record of who the shim is.
func (s *shim) prepare() (<-chan os.Signal, error) {
	// All are caught rather than ignored: a task would inherit that they are ignored. Only two of them mean something here.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGCHLD, unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGPIPE)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become the reaper of descendants: %w", err)
	}
	if ok, err := readRecord(s.dir.spec(), &s.intent); err != nil || !ok {
		return nil, errors.Join(fmt.Errorf("no intent in %s", s.dir), err)
	}
	if v := s.intent.Version; v > intentVersion {
		return nil, fmt.Errorf("this shim (%s) understands intents of version %d and before, and this one is of version %d: install the one that came with the agent",
			os.Args[0], intentVersion, v)
	}
	self, err := identify(os.Getpid())
	if err != nil {
		return nil, err
	}
	s.record = shimRecord{Mark: s.intent.Mark, Shim: self}
	if err := writeRecord(s.dir.shim(), s.record, true); err != nil {
		return nil, fmt.Errorf("write the shim's record: %w", err)
	}
	s.point("shim: recorded itself")
	return signals, nil
}

// report writes the one message to whoever started the shim.
func report(ready *os.File, m readyMessage) error {
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = ready.Write(append(line, '\n'))
	return errors.Join(err, ready.Close())
}

// refusal tells an error of the system that will come again from one that need not.
func refusal(in intent, err error) readyMessage {
	m := readyMessage{Rejected: true, Code: driver.RejectRefusedBySystem, Reason: err.Error()}
	var no syscall.Errno
	var become *becomeError
	if !errors.As(err, &become) {
		return readyMessage{Err: err.Error()}
	}
	switch {
	case !errors.As(err, &no), no == syscall.EAGAIN, no == syscall.ENOMEM, no == syscall.EMFILE, no == syscall.ENFILE, no == syscall.EINTR,
		no == syscall.EIO, no == syscall.ENOSPC, no == syscall.ETXTBSY:
		return readyMessage{Err: err.Error()}
	case become.Step == stepJoin:
		return readyMessage{Err: err.Error()}
	case become.Step == stepEnter:
		m.Code, m.Reason = driver.RejectBadDirectory, fmt.Sprintf("working directory %s: %v", in.Dir, no)
	case become.Step != stepExecute:
	case errors.Is(no, fs.ErrNotExist), no == syscall.ENOTDIR:
		m.Code, m.Reason = driver.RejectNoCommand, fmt.Sprintf("no such command: %s, or the interpreter that it names is missing", in.Path)
	case no == syscall.EACCES:
		m.Code, m.Reason = driver.RejectNotExecutable, fmt.Sprintf("%s in %s: permission denied", in.Path, in.Dir)
	case no == syscall.ENOEXEC:
		m.Code, m.Reason = driver.RejectNotExecutable, fmt.Sprintf("%s is not a program that this machine can run", in.Path)
	}
	return m
}

// An output is the reading side of a task's pipes.
type output struct {
	pipes [2]*os.File
	done  chan struct{} // closed once both are read to their end
}

// startTask starts the task in a session, and so a process group, of its own, and its log writers.
func (s *shim) startTask() (*output, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	out, outW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer outW.Close()
	errs, errsW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	defer errsW.Close()

	started := time.Now()
	pid, err := spawn(birth{
		argv: append(append([]string(nil), s.self...), becomeFlag, string(s.dir)), mark: s.dir, files: []uintptr{null.Fd(), outW.Fd(), errsW.Fd()},
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", s.intent.Path, err), out.Close(), errs.Close())
	}
	s.point("shim: task started")
	s.record.Started = started
	if s.record.Task, err = identify(pid); err == nil {
		err = writeRecord(s.dir.shim(), s.record, false)
	}
	if err != nil { // the task is found by its mark if ever it must be found without its shim
		fmt.Fprintln(os.Stderr, "write the task's record:", err)
		s.record.Task.Pid = pid
	}
	return s.pump(out, errs), nil
}

func (s *shim) pump(out, errs *os.File) *output {
	o := &output{pipes: [2]*os.File{out, errs}, done: make(chan struct{})}
	var wg sync.WaitGroup
	for i, stream := range []driver.Stream{driver.Stdout, driver.Stderr} {
		wg.Go(func() { newLogWriter(s.dir.logs(), stream, s.intent.Log).copyFrom(o.pipes[i], time.Now) })
	}
	go func() {
		wg.Wait()
		close(o.done)
	}()
	return o
}

// finish waits for the last output, for a while.
func (s *shim) finish(o *output) {
	select {
	case <-o.done:
	case <-time.After(drainTimeout):
		for _, p := range o.pipes {
			_ = p.SetReadDeadline(time.Unix(1, 0)) // ends the copying
		}
		<-o.done
	}
	for _, p := range o.pipes {
		_ = p.Close()
	}
}

// maxCalls bounds the connections that are served at once; whoever comes later is hung up on and comes again.
const maxCalls = 64

// serve answers on the socket until the listener is closed and every caller was answered.
func (s *shim) serve(l *net.UnixListener) {
	var calls sync.WaitGroup
	defer calls.Wait()
	slots := make(chan struct{}, maxCalls)
	for {
		conn, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			select {
			case <-s.exited:
			case <-time.After(50 * time.Millisecond): // no descriptors left, say
			}
			continue
		}
		select {
		case slots <- struct{}{}:
			calls.Go(func() {
				s.answer(conn)
				<-slots
			})
		default:
			_ = conn.Close()
		}
	}
}
