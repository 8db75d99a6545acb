package runner

import (
	"bufio"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What a plugin has started ends with it when its host is killed.
func TestGrandchildrenOfAKilledHost(t *testing.T) {
	for _, where := range []string{"group", "session"} {
		t.Run(where, func(t *testing.T) { endsWithTheHost(t, where) })
	}
}

func endsWithTheHost(t *testing.T, where string) {
	file := filepath.Join(shortDir(t), "pid")
	host := exec.Command(selfExecutable, asPlugin, "host", shortDir(t), "grandchild", file, where)
	stdout, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	var plugin int
	var controlled bool
	if _, scanErr := fmt.Sscan(line, &plugin, &controlled); err != nil || scanErr != nil {
		t.Fatalf("host says %q", line)
	}
	child, err := strconv.Atoi(content(t, file))
	if err != nil {
		t.Fatal(err)
	}
	if !alive(plugin) || !alive(child) {
		t.Fatal("no plugin, or no child of one")
	}
	kill(t, host.Process.Pid, unix.SIGKILL)
	_ = host.Wait()
	if where == "session" && !controlled {
		kill(t, child, unix.SIGKILL)
		t.Skip("there are no control groups")
	}
	eventually(t, "both end", func() bool { return !alive(plugin) && !alive(child) })
}

// The guard stands by from the first plugin on, is replaced when it is killed, and ends with the launcher.
func TestGuard(t *testing.T) {
	l, log := newLauncher(t)
	l.UseGuard(asPlugin, "guard")
	p := start(t, l, play("serve"))
	first := guardOf(t, l)
	kill(t, first, unix.SIGTERM) // not meant for it
	kill(t, first, unix.SIGKILL)
	<-l.spawner.guard.done
	q := start(t, l, play("serve"))
	second := guardOf(t, l)
	if second == first {
		t.Fatal("the guard that was killed is there")
	}
	kill(t, p.PID(), unix.SIGKILL)
	waitDone(t, p)
	if err := q.Ping(t.Context()); err != nil {
		t.Errorf("the other plugin: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the guard ends", func() bool { return !alive(second) })
	if strings.Contains(log.String(), "no guard of plugins") {
		t.Errorf("the log says:\n%s", log)
	}
}

// A guard that cannot be started is said, and plugins run without.
func TestNoGuard(t *testing.T) {
	l, log := newLauncher(t)
	l.UseGuard()
	l.spawner.guard.argv[0] = "/does/not/exist"
	p := start(t, l, play("serve"))
	if err := p.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "no guard of plugins") {
		t.Errorf("the log does not say so:\n%s", log)
	}
}

func TestNotes(t *testing.T) {
	for notes, want := range map[string]string{
		"":                     "",
		"+12\n+13\n-12\n":      "13",
		"+12\n-12\n+12\n":      "12",
		"+1\n+0\n+-5\n+x\n\n7": "",
		"+12\n+1":              "12", // cut short
		"+12 /c/a b\n+13\n":    "12/c/a b 13",
	} {
		var got []string
		for group, control := range readNotes(strings.NewReader(notes)) {
			got = append(got, fmt.Sprint(group)+control)
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %v, want %s", notes, got, want)
		}
	}
}

// guardOf returns the process id of a launcher's guard.
func guardOf(t *testing.T, l *Launcher) int {
	t.Helper()
	l.spawner.guard.mu.Lock()
	defer l.spawner.guard.mu.Unlock()
	if l.spawner.guard.notes == nil {
		t.Fatal("no guard")
	}
	return l.spawner.guard.process.Pid
}
