package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Exec runs a program for each message, which it reads as JSON from its standard input. That it ends with 0 means that it has told.
type Exec struct {
	Command []string
	Env     map[string]string // besides PATH it has nothing else
	Timeout time.Duration
}

// execPath is where a program finds others.
const execPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// maxLastWords is how much of what a program says about its failure is kept, in bytes.
const maxLastWords = 200

type program struct{ Exec }

func (p *program) target() string { return p.Command[0] }

// deliver runs the program in a group of its own, of which nothing is left when it returns.
func (p *program) deliver(ctx context.Context, b *batch) error {
	body, err := json.Marshal(b.message())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	cmd := exec.Command(p.Command[0], p.Command[1:]...) //nolint:noctx // its whole group is ended below
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + execPath}
	for _, k := range slices.Sorted(maps.Keys(p.Env)) {
		cmd.Env = append(cmd.Env, k+"="+p.Env[k])
	}
	said := &lastWords{}
	cmd.Stdin, cmd.Stderr = bytes.NewReader(append(body, '\n')), said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second // for who holds what the program wrote to
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		awaitExit(cmd.Process.Pid)
	}()
	late := false
	select {
	case <-exited:
	case <-ctx.Done():
		late = true
	}
	// The process is not reaped yet, so the group is still its own.
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // nobody may be left
	<-exited
	err = cmd.Wait()
	switch {
	case late && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("did not end within %s", p.Timeout)
	case late:
		return context.Cause(ctx)
	case errors.Is(err, exec.ErrWaitDelay):
		return nil // it ended well itself
	case err != nil && len(said.text) > 0:
		return fmt.Errorf("%w: %s", err, clip(string(said.text), maxLastWords))
	}
	return err
}

// lastWords keeps the end of what is written to it.
type lastWords struct{ text []byte }

func (l *lastWords) Write(b []byte) (int, error) {
	l.text = append(l.text, b...)
	if over := len(l.text) - maxLastWords; over > 0 {
		l.text = slices.Delete(l.text, 0, over)
	}
	return len(b), nil
}

// awaitExit returns once a child has exited, and leaves it to be waited for.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
