package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/daemon"
	"github.com/setpointd/setpoint/core/pluginhost"
	"github.com/setpointd/setpoint/core/pluginhost/runner"
	"github.com/setpointd/setpoint/sdk"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
	"github.com/setpointd/setpoint/sdk/sdktest"
)

// pluginProgram is a plugin's executable, started as the server starts plugins. It is a sdktest.Target.
type pluginProgram struct {
	command  runner.Command
	launcher *runner.Launcher
	dir      string // of sockets
}

// openProgram prepares to start a plugin. path is looked up as a shell would.
func openProgram(path string, args, env []string, log hclog.Logger) (*pluginProgram, error) {
	found := path
	if _, err := os.Stat(path); err != nil {
		if found, err = exec.LookPath(path); err != nil {
			return nil, refuse("Give the path of the plugin's executable.", "find the plugin: %v", err)
		}
	}
	absolute, err := filepath.Abs(found)
	if err != nil {
		return nil, fmt.Errorf("find the plugin %s: %w", path, err)
	}
	dir, err := os.MkdirTemp("", "setpoint")
	if err != nil {
		return nil, fmt.Errorf("make a directory for sockets: %w", err)
	}
	p := &pluginProgram{dir: dir}
	if p.launcher, err = runner.NewLauncher(filepath.Join(dir, "s"), log); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	p.command = runner.Command{
		Name: filepath.Base(path), Path: absolute, Args: args, Env: append(runner.AllowedEnv(os.Environ()), env...), HandshakeTimeout: 15 * time.Second,
	}
	return p, nil
}

// confine has the program started as servers start plugins: it may read what every program needs and what is beside it, write to a directory of its own, and
// connect to nobody.
func (p *pluginProgram) confine() {
	p.launcher.UseConfiner(daemon.ConfineCommand)
	p.command.Confine.Level = runner.SandboxAuto
	p.command.Env = slices.DeleteFunc(p.command.Env, func(kv string) bool { return strings.HasPrefix(kv, "TMPDIR=") })
}

// Close ends all that was started.
func (p *pluginProgram) Close() error {
	return errors.Join(p.launcher.Close(), os.RemoveAll(p.dir))
}

// Start starts the plugin.
func (p *pluginProgram) Start(ctx context.Context) (sdktest.Running, error) { return p.start(ctx) }

func (p *pluginProgram) start(ctx context.Context) (*pluginRun, error) {
	process, err := p.launcher.Start(ctx, p.command, pluginhost.Protocol())
	if err != nil {
		return nil, err
	}
	raw, err := process.Dispense(sdk.PluginKey)
	run := &pluginRun{process: process}
	if err == nil {
		run.client, _ = raw.(pluginv1.PluginClient)
	}
	if run.client == nil {
		run.Kill()
		return nil, fmt.Errorf("ask %s for its client: %w", p.command.Name, err)
	}
	return run, nil
}

// describe asks the program what it is, in a run of its own.
func (p *pluginProgram) describe(ctx context.Context) (*pluginv1.DescribeResponse, error) {
	run, err := p.start(ctx)
	if err != nil {
		return nil, err
	}
	defer run.Kill()
	limited, cancel := context.WithTimeout(ctx, p.command.HandshakeTimeout)
	defer cancel()
	about, err := run.client.Describe(limited, &pluginv1.DescribeRequest{HostVersion: version, Protocol: 1})
	if err != nil {
		return nil, fmt.Errorf("ask %s what it is: %w", p.command.Name, err)
	}
	return about, nil
}

// pluginRun is a process of a plugin.
type pluginRun struct {
	process *runner.Process
	client  pluginv1.PluginClient
}

func (r *pluginRun) Client() pluginv1.PluginClient { return r.client }
func (r *pluginRun) Ended() <-chan struct{}        { return r.process.Done() }

// Ending says how the process ended and what it wrote last.
func (r *pluginRun) Ending() string {
	exit := r.process.Exit()
	text := "it " + exit.String()
	if lines := exit.Stderr; len(lines) > 0 && exit.Panic == "" {
		text += fmt.Sprintf("; stderr ended with %q", strings.Join(lines[max(0, len(lines)-3):], "\n"))
	}
	return text
}

// Kill ends the process.
func (r *pluginRun) Kill() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // at once
	_ = r.process.Stop(ctx, 0, nil)
}

// pluginLog shows what a plugin logs.
func (a *app) pluginLog(level hclog.Level) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Output: a.errOut, Level: level, DisableTime: true})
}

// logKeeper keeps what the launcher logs about a plugin's standard output.
type logKeeper struct {
	mu    sync.Mutex // guards lines
	lines map[string][]string
}

const keptLines = 5 // of each kind

// Accept is part of hclog.SinkAdapter.
func (k *logKeeper) Accept(_ string, _ hclog.Level, msg string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lines == nil {
		k.lines = map[string][]string{}
	}
	for i := 0; i+1 < len(args); i += 2 {
		line := fmt.Sprint(args[i+1])
		if args[i] == "line" && len(k.lines[msg]) < keptLines && !slices.Contains(k.lines[msg], line) {
			k.lines[msg] = append(k.lines[msg], line)
		}
	}
}

func (k *logKeeper) of(msg string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lines[msg]
}
