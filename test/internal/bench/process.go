package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// process is a program that the bench started, with its output in a file.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed once it was reaped
}

// start starts a program; its output is appended to the log.
func start(name, log string, env []string, program string, args ...string) (*process, error) {
	out, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, out, out
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{name: name, cmd: cmd, log: log, done: make(chan struct{})}
	go func() { // ends with the process; whoever ends that waits for done
		_ = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// signal sends a signal; a process that has ended gets none.
func (p *process) signal(sig syscall.Signal) error {
	err := p.cmd.Process.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// ended reports whether the process has ended within the limit.
func (p *process) ended(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}

// kill ends the process at once and waits until it is gone.
func (p *process) kill() {
	_ = p.signal(syscall.SIGKILL)
	<-p.done
}

// tail returns the last lines of a file.
func tail(path string, lines int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	data = bytes.TrimRight(data, "\n")
	start := len(data)
	for range lines {
		i := bytes.LastIndexByte(data[:start], '\n')
		if i < 0 {
			return string(data)
		}
		start = i
	}
	return string(data[start+1:])
}
