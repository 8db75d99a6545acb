package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// drainTime is how long the pipes of a dead plugin are read on, in case a process that left its group holds them.
const drainTime = 300 * time.Millisecond

// ExitStatus is how a plugin process ended.
type ExitStatus struct {
	Code      int            // exit status; -1 if a signal ended it
	Signal    syscall.Signal // 0 if it exited
	Requested bool           // the host had asked it to end, or killed it
	Memory    int64          // if it went over its limit of memory: the limit in bytes
	Panic     string         // text of a Go panic or fatal error, at most 16 KiB
	Stderr    []string       // last lines on stderr
	At        time.Time
}

// String continues "the plugin …".
func (s ExitStatus) String() string {
	text := "exited with status " + strconv.Itoa(s.Code)
	if s.Signal != 0 {
		text = "was ended by " + unix.SignalName(s.Signal)
	}
	if s.Memory > 0 {
		text += fmt.Sprintf(" because it used more memory than its limit of %s", byteText(s.Memory))
	}
	if s.Panic != "" {
		first, _, _ := strings.Cut(s.Panic, "\n")
		text += fmt.Sprintf(" after %q", first)
	}
	return text
}

// child is one process, and go-plugin's Runner for it. Like go-plugin's own objects it serves a single start.
type child struct {
	command  Command
	exe      *executable
	spawner  *spawner
	out      *output
	greeting *greeting
	confiner []string // how to start a helper that confines; nil: there is none
	group    *controlGroup
	env      []string
	done     chan struct{} // closed when the process is reaped and its pipes are read; only if it was started

	mu       sync.Mutex // guards what follows
	lifeline *os.File   // the host's end
	process  *os.Process
	ended    bool // Invariant: no signal is sent once this is set, because the ids may then belong to others
	asked    bool
	doomed   bool
	spawnErr error
	status   ExitStatus
	confined Confined
}

// prepare takes over what go-plugin wants the process to know.
func (c *child) prepare(spec *exec.Cmd, dir, certificate string) {
	c.greeting.dir = dir
	c.env = append(c.env, c.command.Env...)
	c.env = append(c.env, spec.Env...)
	if c.command.Confine.sandboxed() && !slices.ContainsFunc(c.env, func(kv string) bool { return strings.HasPrefix(kv, "TMPDIR=") }) {
		c.env = append(c.env, "TMPDIR="+dir) // nothing else may be written
	}
	c.env = append(c.env, "PLUGIN_CLIENT_CERT="+certificate, LifelineEnv+"="+strconv.Itoa(lifelineFD))
}

// Start creates the process and begins to read its pipes.
func (c *child) Start(ctx context.Context) error {
	err := c.spawn(ctx)
	if err != nil {
		c.mu.Lock()
		c.spawnErr = err
		c.mu.Unlock()
	}
	return err
}

// pipes are the host's ends, and theirs are the plugin's.
type pipes struct {
	stdout, stderr, lifeline *os.File
	theirs                   []*os.File
}

func (p *pipes) closeTheirs() { closeAll(p.theirs...) }
func (p *pipes) closeOurs()   { closeAll(p.stdout, p.stderr, p.lifeline) }

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

func openPipes() (_ *pipes, err error) {
	p := &pipes{}
	defer func() {
		if err != nil {
			p.closeTheirs()
			p.closeOurs()
		}
	}()
	stdin, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	p.theirs = append(p.theirs, stdin)
	var theirs *os.File
	for _, ours := range []**os.File{&p.stdout, &p.stderr} {
		if *ours, theirs, err = os.Pipe(); err != nil {
			return nil, err
		}
		p.theirs = append(p.theirs, theirs)
	}
	if theirs, p.lifeline, err = os.Pipe(); err != nil {
		return nil, err
	}
	p.theirs = append(p.theirs, theirs)
	return p, nil
}

func (c *child) spawn(ctx context.Context) error {
	p, err := openPipes()
	if err != nil {
		return refuse(StepSpawn, "cannot make its pipes: "+err.Error(), moreFiles, err)
	}
	report, process, err := c.create(ctx, p)
	p.closeTheirs()
	if err != nil {
		p.closeOurs()
		if start, ok := errors.AsType[*StartError](err); ok {
			return start
		}
		if info, statErr := os.Stat(c.command.Dir); statErr != nil || !info.IsDir() {
			return refuse(StepSpawn, "its working directory "+c.command.Dir+" cannot be used", "create it, or name another", err)
		}
		return c.exe.explainSpawn(err)
	}
	c.mu.Lock()
	c.process, c.lifeline = process, p.lifeline
	doomed := c.doomed
	c.mu.Unlock()
	go c.tend(p) // ends with the process; its owner waits for done
	if doomed {
		c.kill()
	}
	if report != nil {
		err = c.awaitReport(report)
		_ = report.Close()
	}
	if err == nil {
		err = c.exe.unchanged()
	}
	if doomed || err != nil {
		c.kill()
	}
	return err
}

// create creates the process: the plugin itself, or the helper that becomes it, whose report is returned.
func (c *child) create(ctx context.Context, p *pipes) (report *os.File, process *os.Process, err error) {
	spec, err := c.confine()
	if err != nil {
		return nil, nil, err
	}
	var theirs *os.File
	if spec != nil {
		if report, theirs, err = os.Pipe(); err != nil {
			return nil, nil, refuse(StepSpawn, "cannot make its pipes: "+err.Error(), moreFiles, err)
		}
		defer theirs.Close()
		if spec.UID >= 0 {
			for _, f := range p.theirs[1:] { // so that it can open them by name, as /dev/stderr
				_ = f.Chown(spec.UID, spec.GID)
			}
		}
	}
	path, argv, files, err := c.program(spec, theirs)
	if err == nil {
		process, err = c.spawner.start(ctx, path, argv, c.group.path(), &os.ProcAttr{
			Dir:   c.command.Dir,
			Env:   c.env,
			Files: append(p.theirs, files...),
			Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
		})
	}
	if err != nil && report != nil {
		_ = report.Close()
	}
	return report, process, err
}

// tend reads the process's pipes until it has ended.
func (c *child) tend(p *pipes) {
	var readers sync.WaitGroup
	readers.Go(func() { c.greeting.drain(p.stdout) })
	readers.Go(func() {
		lines := splitter{limit: maxLine, each: func(line []byte, _ bool) { c.out.stderrLine(line) }}
		_, _ = io.Copy(&lines, p.stderr)
		lines.finish()
	})
	state := c.reap()
	// A process that left the group may still hold the other ends; nobody waits for it.
	timer := time.AfterFunc(drainTime, func() { closeAll(p.stdout, p.stderr) })
	readers.Wait()
	timer.Stop()
	p.closeOurs()

	status := ExitStatus{Code: -1, Panic: c.out.panicText(), Stderr: c.out.stderrTail(), At: time.Now()}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		status.Signal = ws.Signal()
	} else if ok {
		status.Code = ws.ExitStatus()
	}
	if limit := c.command.Confine.Memory; limit > 0 && (c.group != nil && c.group.killed() || strings.Contains(status.Panic, "out of memory")) {
		status.Memory = limit
	}
	c.mu.Lock()
	status.Requested = c.asked
	c.status = status
	c.mu.Unlock()
	close(c.done)
}

// reap waits for the process to end, kills what is left of its group, and only then gives its id back to the system: as long as
// the leader is not reaped, no other group can have its number.
func (c *child) reap() *os.ProcessState {
	pid := c.process.Pid
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	c.mu.Lock()
	_ = unix.Kill(-pid, unix.SIGKILL)
	c.ended = true
	c.mu.Unlock()
	if c.group != nil {
		c.group.End(endLimit)
	}
	if g := c.spawner.guard; g != nil {
		g.remove(pid)
	}
	state, err := c.process.Wait()
	if err != nil { // somebody else in this program reaped it
		return &os.ProcessState{}
	}
	return state
}

// signal sends sig to the group, unless it has ended.
func (c *child) signal(sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = true
	if c.process == nil || c.ended {
		return
	}
	_ = unix.Kill(-c.process.Pid, sig)
	if sig == unix.SIGKILL {
		_ = unix.Kill(c.process.Pid, sig) // in case it has moved to another group
	}
}

// kill ends the process with its group. One that does not run yet will be killed as soon as it does.
func (c *child) kill() {
	c.mu.Lock()
	c.doomed = true
	c.mu.Unlock()
	c.signal(unix.SIGKILL)
}

// expectExit notes that the host wants the process to end.
func (c *child) expectExit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = true
}

func (c *child) pid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return 0
	}
	return c.process.Pid
}

func (c *child) exitStatus() ExitStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// endsWithin waits up to d for the process to end, and reports whether it did.
func (c *child) endsWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.done:
		return true
	case <-timer.C:
		return false
	}
}

// The rest is what go-plugin's Runner asks for.

// Wait returns when the process has ended. How it ended is in exitStatus.
func (c *child) Wait(context.Context) error { <-c.done; return nil }

// Kill does nothing: go-plugin calls it as soon as a start fails, when a plugin that is about to exit by itself would lose its
// exit status. The launcher kills.
func (c *child) Kill(context.Context) error { return nil }

// Stdout gives the handshake line, and ends when the plugin's stdout ends.
func (c *child) Stdout() io.ReadCloser { return c.greeting.reader }

// Stderr is always empty: go-plugin panics on some lines.
func (c *child) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Name is the executable's path.
func (c *child) Name() string { return c.command.Path }

// ID is the process id.
func (c *child) ID() string { return strconv.Itoa(c.pid()) }

// Diagnose adds nothing: the launcher makes its own errors.
func (c *child) Diagnose(context.Context) string { return "" }

// PluginToHost changes nothing: both live in one file system.
func (c *child) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

// HostToPlugin changes nothing either.
func (c *child) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}
