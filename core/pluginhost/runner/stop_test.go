package runner

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestStopSteps(t *testing.T) {
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	refuse := func(context.Context) error { return errors.New("not now") }
	cases := map[string]struct {
		mode   string
		grace  time.Duration
		polite func(*Process) func(context.Context) error
		freeze bool
		limit  time.Duration
		signal unix.Signal
	}{
		"asked":           {mode: "serve", grace: 10 * time.Second, polite: func(p *Process) func(context.Context) error { return p.Shutdown }, limit: 5 * time.Second},
		"not asked":       {mode: "serve", grace: 10 * time.Second, limit: 5 * time.Second, signal: unix.SIGTERM},
		"does not answer": {mode: "serve", grace: 200 * time.Millisecond, polite: func(*Process) func(context.Context) error { return hang }, limit: 5 * time.Second, signal: unix.SIGTERM},
		"refuses":         {mode: "serve", grace: time.Hour, polite: func(*Process) func(context.Context) error { return refuse }, limit: 5 * time.Second, signal: unix.SIGTERM},
		"ignores SIGTERM": {mode: "ignore-term", grace: 200 * time.Millisecond, limit: 5 * time.Second, signal: unix.SIGKILL},
		"no grace":        {mode: "ignore-term", grace: 0, limit: 5 * time.Second, signal: unix.SIGKILL},
		"frozen":          {mode: "serve", freeze: true, grace: 200 * time.Millisecond, polite: func(p *Process) func(context.Context) error { return p.Shutdown }, limit: 5 * time.Second, signal: unix.SIGTERM},
		"frozen for good": {mode: "ignore-term", freeze: true, grace: 200 * time.Millisecond, polite: func(*Process) func(context.Context) error { return hang }, limit: 5 * time.Second, signal: unix.SIGKILL},
	}
	l, _ := newLauncher(t)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := start(t, l, play(c.mode))
			if c.freeze {
				freeze(t, p.PID())
			}
			var polite func(context.Context) error
			if c.polite != nil {
				polite = c.polite(p)
			}
			begin := time.Now()
			if err := p.Stop(t.Context(), c.grace, polite); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begin); took > c.limit {
				t.Errorf("took %s", took)
			}
			if status := p.Exit(); status.Signal != c.signal || !status.Requested {
				t.Errorf("it %s, requested %t", status, status.Requested)
			}
			if err := p.Stop(t.Context(), time.Hour, polite); err != nil {
				t.Errorf("second stop: %v", err)
			}
			if alive(p.PID()) {
				t.Error("it lives")
			}
		})
	}
}

func TestStopWithEndedContextKills(t *testing.T) {
	l, _ := newLauncher(t)
	p := start(t, l, play("ignore-term"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Stop(ctx, time.Hour, nil); err != nil {
		t.Fatal(err)
	}
	if status := p.Exit(); status.Signal != unix.SIGKILL {
		t.Errorf("it %s", status)
	}
}

func TestPingIsBounded(t *testing.T) {
	l, _ := newLauncher(t)
	p := start(t, l, play("serve"))
	freeze(t, p.PID())
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := p.Ping(ctx); err == nil {
		t.Fatal("a frozen plugin answered")
	}
	if err := p.Stop(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
}

// A process that the plugin has started ends with it if it is in its group, and holds nobody up if it is not.
func TestGrandchildren(t *testing.T) {
	for _, where := range []string{"group", "session"} {
		t.Run(where, func(t *testing.T) {
			l, _ := newLauncher(t)
			file := filepath.Join(t.TempDir(), "pid")
			p := start(t, l, play("grandchild", file, where))
			pid, err := strconv.Atoi(content(t, file))
			if err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			kill(t, p.PID(), unix.SIGKILL)
			status := waitDone(t, p)
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("took %s", took)
			}
			if status.Signal != unix.SIGKILL || status.Requested {
				t.Errorf("it %s, requested %t", status, status.Requested)
			}
			if where == "group" {
				eventually(t, "the group is gone", func() bool { return !alive(pid) })
				return
			}
			if !alive(pid) {
				t.Error("the process of another session was killed too")
			}
			kill(t, pid, unix.SIGKILL)
		})
	}
}

// Where there are control groups it ends with the plugin in any case.
func TestGrandchildrenInAControlGroup(t *testing.T) {
	l := confining(t)
	file := filepath.Join(shortDir(t), "pid")
	cmd := play("grandchild", file, "session")
	cmd.Confine = Confinement{Level: SandboxAuto, Write: []string{filepath.Dir(file)}}
	p := start(t, l, cmd)
	if p.child.group == nil {
		t.Skipf("no control group: %q", p.Confined().Weak)
	}
	pid, err := strconv.Atoi(content(t, file))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(p.Confined().Applied, func(s string) bool { return strings.HasPrefix(s, "end of all that it starts (cgroup v") }) {
		t.Errorf("it does not say so: %+v", p.Confined())
	}
	kill(t, p.PID(), unix.SIGKILL)
	waitDone(t, p)
	eventually(t, "the process of another session is gone", func() bool { return !alive(pid) })
	for _, dir := range p.child.group.Dirs {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("the group %s is left", dir)
		}
	}
}

func TestExitIsNoticed(t *testing.T) {
	l, log := newLauncher(t)
	p := start(t, l, play("serve"))
	kill(t, p.PID(), unix.SIGABRT) // Go answers with all stacks on stderr
	status := waitDone(t, p)
	if status.Code != 2 || status.Requested || len(status.Stderr) == 0 || len(status.Stderr) > maxTailLines {
		t.Errorf("it %s, requested %t, %d lines", status, status.Requested, len(status.Stderr))
	}
	if !strings.Contains(log.String(), `"@message":"plugin process ended"`) {
		t.Errorf("the end is not logged:\n%s", log)
	}
	if left, err := os.ReadDir(l.dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// However the host dies, the plugin does too: by the kernel's signal, and by the lifeline where that signal is off.
func TestNoOrphans(t *testing.T) {
	for _, mode := range []string{"death-signal-only", "lifeline-only"} {
		t.Run(mode, func(t *testing.T) {
			host := exec.Command(selfExecutable, asPlugin, "host", shortDir(t), mode)
			stdout, err := host.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := host.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(stdout).ReadString('\n')
			number, _, _ := strings.Cut(line, " ")
			pid, parseErr := strconv.Atoi(number)
			if err != nil || parseErr != nil {
				t.Fatalf("host says %q", line)
			}
			if !alive(pid) {
				t.Fatal("no plugin")
			}
			kill(t, host.Process.Pid, unix.SIGKILL)
			_ = host.Wait()
			eventually(t, "the plugin ends", func() bool { return !alive(pid) })
		})
	}
}

// The kernel's signal goes by the thread that started the plugin, so the caller's thread must not be that one.
func TestPluginOutlivesTheThreadThatAskedForIt(t *testing.T) {
	l, _ := newLauncher(t)
	var (
		p    *Process
		err  error
		tid  int
		done = make(chan struct{})
	)
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with this goroutine
		tid = unix.Gettid()
		p, err = l.Start(t.Context(), play("serve"), protocol(1))
	}()
	<-done
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the thread ends", func() bool {
		_, err := os.Stat(filepath.Join("/proc/self/task", itoa(tid)))
		return errors.Is(err, os.ErrNotExist)
	})
	for range 20 {
		if err := p.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// Fifty lives leave nothing: no descriptor, child, socket, nor (see TestMain) goroutine. The objects of go-plugin that serve only
// once are new each time, pinned hashes among them.
func TestManyLivesLeaveNothing(t *testing.T) {
	l, _ := newLauncher(t)
	life := func(i int) {
		t.Helper()
		switch i % 6 {
		case 0:
			p := start(t, l, play("serve"))
			if err := p.Stop(t.Context(), 10*time.Second, p.Shutdown); err != nil {
				t.Fatal(err)
			}
		case 1:
			p := start(t, l, play("serve"))
			kill(t, p.PID(), unix.SIGKILL)
			waitDone(t, p)
		case 2:
			cmd := play("serve")
			cmd.SHA256 = digestOf(t, selfExecutable)
			p := start(t, l, cmd)
			if err := p.Stop(t.Context(), 0, nil); err != nil {
				t.Fatal(err)
			}
		case 3:
			if _, err := l.Start(t.Context(), play("exit", "1"), protocol(1)); err == nil {
				t.Fatal("started")
			}
		case 4:
			if _, err := l.Start(t.Context(), play("exit-before-handshake"), protocol(1)); err == nil {
				t.Fatal("started")
			}
		case 5:
			if _, err := l.Start(t.Context(), play("end-after-handshake"), protocol(1)); err == nil {
				t.Fatal("started")
			}
		}
	}
	for i := range 6 {
		life(i)
	}
	descriptors, children := count(t, "/proc/self/fd/*"), childrenOf(t)
	for i := range 54 {
		life(i)
	}
	eventually(t, "descriptors are closed", func() bool { return count(t, "/proc/self/fd/*") <= descriptors })
	if now := childrenOf(t); now != children {
		t.Errorf("children %q before, %q after", children, now)
	}
	if left := count(t, filepath.Join(l.dir, "*")); left != 0 {
		t.Errorf("%d socket directories left", left)
	}
}

// freeze stops a process and waits until each of its threads stands still.
func freeze(t *testing.T, pid int) {
	t.Helper()
	kill(t, pid, unix.SIGSTOP)
	eventually(t, "all threads are stopped", func() bool {
		files, err := filepath.Glob(filepath.Join("/proc", itoa(pid), "task", "*", "stat"))
		for _, name := range files {
			stat, _ := os.ReadFile(name)
			if _, rest, _ := strings.Cut(string(stat), ") "); !strings.HasPrefix(rest, "T") {
				return false
			}
		}
		return err == nil && len(files) > 0
	})
}

func count(t *testing.T, pattern string) int {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// childrenOf lists the ids of this process's children, zombies included.
func childrenOf(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			continue // the thread has ended
		}
		_, _ = io.Copy(&all, f)
		_ = f.Close()
	}
	return all.String()
}
