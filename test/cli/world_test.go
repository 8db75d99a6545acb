package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// world is what one script has started, and knows of.
type world struct {
	dir   string // the server's data directory
	procs []*child

	client *http.Client // that loads pages; nil: none has yet
}

type worldKey struct{}

// child is a process that a script started.
type child struct {
	cmd  *exec.Cmd
	out  string // file
	done chan struct{}
}

// launch starts setpoint in the background, in a session of its own. What it prints goes to a file.
func (w *world) launch(name string, env []string, args ...string) (*child, error) {
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return nil, err
	}
	c := &child{out: filepath.Join(w.dir, fmt.Sprintf("%s-%d.out", name, len(w.procs))), done: make(chan struct{})}
	out, err := os.Create(c.out)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	c.cmd = exec.Command(filepath.Join(binary, "setpoint"), args...)
	c.cmd.Env, c.cmd.Stdout, c.cmd.Stderr = env, out, out
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	w.procs = append(w.procs, c)
	go func() {
		_ = c.cmd.Wait()
		close(c.done)
	}()
	return c, nil
}

// wait waits until the process has ended.
func (c *child) wait(ctx context.Context) error {
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("process %d still runs", c.cmd.Process.Pid)
	}
}

// end ends everything that works in the data directory: first the server, so that it does not replace what ends, then agents, which stop their tasks.
func (w *world) end(ctx context.Context) error {
	var errs []error
	for _, c := range w.procs {
		select {
		case <-c.done:
			continue
		default:
		}
		if c.cmd.Args[1] != "agent" {
			_ = c.cmd.Process.Signal(syscall.SIGTERM)
			errs = append(errs, c.wait(ctx))
		}
	}
	// What is left are agents whose server was killed.
	for _, p := range w.processes() {
		if p.role == "agent" {
			_ = syscall.Kill(p.pid, syscall.SIGUSR1)
		}
	}
	for len(w.processes()) > 0 && ctx.Err() == nil {
		pause(50 * time.Millisecond)
	}
	for _, p := range w.processes() {
		errs = append(errs, fmt.Errorf("left over in %s: %s %s, process %d", w.dir, p.role, p.task, p.pid))
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
	}
	return errors.Join(errs...)
}

func pause(d time.Duration) { <-time.After(d) }

// proc is a process of setpoint that works in the world's data directory.
type proc struct {
	pid  int
	role string // agent, shim or escort
	task string // of a shim or an escort: the name of the task's directory
}

// processes finds agents and shims by the data directory in their command lines.
func (w *world) processes() []proc {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []proc
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil || !strings.Contains(string(line), w.dir+"/") {
			continue
		}
		args := strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
		switch {
		case len(args) > 1 && filepath.Base(args[0]) == "setpoint-shim" && filepath.IsAbs(args[1]):
			out = append(out, proc{pid, "shim", filepath.Base(args[1])})
		case len(args) > 2 && args[1] == "-escort":
			out = append(out, proc{pid, "escort", filepath.Base(args[2])})
		case len(args) > 1 && args[1] == "agent":
			out = append(out, proc{pid: pid, role: "agent"})
		}
	}
	return out
}

// shims returns the names of the task directories whose shims run, sorted.
func (w *world) shims() []string {
	var out []string
	for _, p := range w.processes() {
		if p.role == "shim" {
			out = append(out, p.task)
		}
	}
	slices.Sort(out)
	return out
}

// pid returns the process of "server", of "agent NAME", of "plugin NAME", or of "command NAME" that was started by background.
func (w *world) pid(kind, name string) (int, error) {
	switch kind {
	case "server":
		var st struct{ PID int }
		err := w.ask(&st, "status")
		return st.PID, err
	case "command":
		for _, c := range w.procs {
			if strings.HasPrefix(filepath.Base(c.out), name+"-") {
				return c.cmd.Process.Pid, nil
			}
		}
	case "plugin":
		var plugins []struct {
			Name string
			PID  int
		}
		if err := w.ask(&plugins, "plugin", "ls"); err != nil {
			return 0, err
		}
		for _, p := range plugins {
			if p.Name == name {
				return p.PID, nil
			}
		}
	case "agent":
		text, err := os.ReadFile(filepath.Join(w.dir, "agents", name, "agent.json"))
		if err != nil {
			return 0, err
		}
		var r struct{ PID int }
		err = json.Unmarshal(text, &r)
		return r.PID, err
	}
	return 0, fmt.Errorf("no %s %s", kind, name)
}

// ask runs a command with JSON output.
func (w *world) ask(into any, args ...string) error {
	cmd := exec.Command(filepath.Join(binary, "setpoint"), append(args, "-o", "json", "--data-dir", w.dir)...)
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%v: %w", args, err)
	}
	return json.Unmarshal(out, into)
}
