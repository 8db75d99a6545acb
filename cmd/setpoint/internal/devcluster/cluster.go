package devcluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Options say which agents there should be.
type Options struct {
	Dir        string // in which each agent has a directory of its name
	Nodes      []Node
	Executable string   // of setpoint
	Server     string   // HOST:PORT
	Token      string   // with which agents join that have not joined yet
	Env        []string // of the agents
}

// Node is one agent that should be there.
type Node struct {
	Name string
	Args []string // of `setpoint agent`, besides name, directories and server
}

// Cluster is the agents of one machine.
type Cluster struct {
	opts    Options
	started sync.WaitGroup // processes that this one started and waits for
}

// The files in an agent's directory that this package writes.
const (
	logFile   = "agent.log"
	tokenFile = "join-token"
)

// StopTasks is the signal on which an agent stops its tasks and ends. On SIGTERM it ends and leaves them running.
const StopTasks = syscall.SIGUSR1

// patience is how long an agent may take to write who it is, or to end without stopping tasks.
const patience = 15 * time.Second

// Start finds the agents that run already and starts the others. An agent that was started for another address of the server is started anew, which leaves its
// tasks running.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	c := &Cluster{opts: opts}
	var errs []error
	for _, n := range opts.Nodes {
		if err := c.ensure(ctx, n); err != nil {
			errs = append(errs, fmt.Errorf("start the agent of %s: %w", n.Name, err))
		}
	}
	return c, errors.Join(errs...)
}

func (c *Cluster) dir(name string) string { return filepath.Join(c.opts.Dir, name) }

// ensure has one agent running.
func (c *Cluster) ensure(ctx context.Context, n Node) error {
	dir := c.dir(n.Name)
	r, err := Read(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case r.Alive() && r.Server == c.opts.Server:
		return nil
	default:
		if err := end(ctx, r, syscall.SIGTERM, patience); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, tokenFile), []byte(c.opts.Token), 0o600); err != nil {
		return err
	}
	return c.start(ctx, n, dir)
}

// start starts an agent and waits until it has written who it is.
func (c *Cluster) start(ctx context.Context, n Node, dir string) error {
	log, err := os.OpenFile(filepath.Join(dir, logFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own descriptor of it
	args := append([]string{
		"agent", "--name", n.Name, "--data-dir", dir, "--server", c.opts.Server, "--token-file", filepath.Join(dir, tokenFile),
	}, n.Args...)
	cmd := exec.Command(c.opts.Executable, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = c.opts.Env, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	c.started.Go(func() { ended <- cmd.Wait() })
	for deadline := time.Now().Add(patience); ; {
		if r, err := Read(dir); err == nil && r.PID == cmd.Process.Pid {
			return nil
		}
		select {
		case err := <-ended:
			return fmt.Errorf("it ended at once (%w); %s says why", err, log.Name())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("it did not begin within %s; %s says why", patience, log.Name())
		}
	}
}

// Alive reports whether the agent of that name runs.
func (c *Cluster) Alive(name string) bool {
	r, err := Read(c.dir(name))
	return err == nil && r.Alive()
}

// Joined removes the files with the token, which no agent needs any more.
func (c *Cluster) Joined() error {
	var errs []error
	for _, n := range c.opts.Nodes {
		if err := os.Remove(filepath.Join(c.dir(n.Name), tokenFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Stop has every agent in the directory stop its tasks and end, those too that this process did not start. One that takes longer than grace is left; the error
// says which.
func (c *Cluster) Stop(ctx context.Context, grace time.Duration) error {
	entries, err := os.ReadDir(c.opts.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	errs := make([]error, len(entries))
	var all sync.WaitGroup
	for i, e := range entries {
		all.Go(func() {
			r, err := Read(c.dir(e.Name()))
			switch {
			case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
			case err != nil:
				errs[i] = err
			default:
				if err := end(ctx, r, StopTasks, grace); err != nil {
					errs[i] = fmt.Errorf("stop the agent of %s: %w", e.Name(), err)
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// end signals a process and waits until it has ended.
func end(ctx context.Context, r Record, signal os.Signal, grace time.Duration) error {
	p, err := r.Find()
	if err != nil || p == nil {
		return err
	}
	defer p.Release() //nolint:errcheck // it only forgets the handle
	if err := p.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for r.Alive() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d still runs after %s", r.PID, grace)
		case <-tick.C:
		}
	}
	return nil
}
