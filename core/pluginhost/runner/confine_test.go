package runner

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// probe tries what a confined process must not be able to do and says on stderr what came of it. Its arguments are a file to read, one to write, an address to
// call and a process to signal.
func probe(args []string) {
	say := func(what string, err error) {
		result := "ok"
		switch {
		case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
			result = "denied"
		case err != nil:
			result = err.Error()
		}
		fmt.Fprintf(os.Stderr, "%s=%s\n", what, result)
	}
	_, err := os.ReadFile(args[0])
	say("read", err)
	_, err = os.ReadFile("/etc/passwd")
	say("passwd", err)
	say("write", os.WriteFile(args[1], []byte("x"), 0o600))
	say("scratch", os.WriteFile(filepath.Join(os.TempDir(), "scratch"), []byte("x"), 0o600))
	conn, err := net.DialTimeout("tcp", args[2], time.Second)
	if err == nil {
		_ = conn.Close()
	}
	say("tcp", err)
	host, _ := strconv.Atoi(args[3])
	say("signal", unix.Kill(host, 0))
	nnp, _ := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	var core, data unix.Rlimit
	_, _ = unix.Getrlimit(unix.RLIMIT_CORE, &core), unix.Getrlimit(unix.RLIMIT_DATA, &data)
	fmt.Fprintf(os.Stderr, "uid=%d\nnnp=%d\ncore=%d\ndata=%d\n", os.Getuid(), nnp, core.Max, data.Max)
	var fds []string
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if fd, _ := strconv.Atoi(e.Name()); err == nil && fd > executableFD && !strings.Contains(target, "/proc/") && !strings.HasPrefix(target, "anon_inode") && !strings.HasPrefix(target, "/sys/") {
			fds = append(fds, target)
		}
	}
	fmt.Fprintf(os.Stderr, "fds=%s\n", strings.Join(fds, " "))
}

// hog takes memory until it has a GiB.
func hog() {
	go func() {
		var held [][]byte
		for range 256 {
			b := make([]byte, 4<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			held = append(held, b)
		}
		fmt.Fprintln(os.Stderr, "has", len(held))
	}()
}

// confining is a launcher that can confine.
func confining(t *testing.T) *Launcher {
	t.Helper()
	l, _ := newLauncher(t)
	l.UseConfiner(asConfiner)
	return l
}

// probed starts a probe and returns what it found.
func probed(t *testing.T, l *Launcher, c Confinement) (map[string]string, Confined) {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	// A descriptor that whoever started the host has left open is not the plugin's either.
	left, err := unix.Open("/dev/null", unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(left)
	cmd := play("probe", secret, filepath.Join(t.TempDir(), "written"), listener.Addr().String(), itoa(os.Getpid()))
	cmd.Confine = c
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	p := start(t, l, cmd)
	found := map[string]string{}
	for _, line := range p.StderrTail() {
		if key, value, ok := strings.Cut(line, "="); ok {
			found[key] = value
		}
	}
	return found, p.Confined()
}

func TestConfined(t *testing.T) {
	l := confining(t)
	found, confined := probed(t, l, Confinement{Level: SandboxAuto})
	if len(confined.Missing) > 0 {
		t.Skipf("this machine cannot do all: %v", confined.Missing)
	}
	want := map[string]string{
		"read": "denied", "passwd": "ok", "write": "denied", "scratch": "ok", "tcp": "denied", "signal": "denied", "nnp": "1", "core": "0", "fds": "",
	}
	for key, value := range want {
		if found[key] != value {
			t.Errorf("%s: %s, want %s (%v)", key, found[key], value, found)
		}
	}
	t.Logf("in force: %q", confined.Applied)
	for _, word := range []string{"descriptors", "no new privileges", "no TCP", "signals"} {
		if !slices.Contains(confined.Applied, word) {
			t.Errorf("%q is not said to be in force", word)
		}
	}
}

func TestConfinedWithMore(t *testing.T) {
	l := confining(t)
	found, _ := probed(t, l, Confinement{Level: SandboxAuto, Network: true, Read: []string{os.TempDir()}, Write: []string{os.TempDir(), "/nonexistent"}})
	for _, key := range []string{"read", "write", "tcp"} {
		if found[key] != "ok" {
			t.Errorf("%s: %s (%v)", key, found[key], found)
		}
	}
}

func TestNotConfined(t *testing.T) {
	l := confining(t)
	found, confined := probed(t, l, Confinement{})
	if found["read"] != "ok" || found["write"] != "ok" || found["nnp"] != "0" || len(confined.Applied)+len(confined.Missing) > 0 {
		t.Errorf("found %v, confined %+v", found, confined)
	}
}

func TestOwnUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become others")
	}
	l := confining(t)
	found, confined := probed(t, l, Confinement{Level: SandboxAuto, User: &User{Name: "somebody", UID: 61999, GID: 61999}})
	if found["uid"] != "61999" || found["scratch"] != "ok" || !slices.Contains(confined.Applied, "user 61999") {
		t.Errorf("found %v, confined %+v", found, confined)
	}
}

func TestRequiredConfinement(t *testing.T) {
	l, _ := newLauncher(t)
	cmd := play("serve")
	cmd.Confine.Level = SandboxRequire
	_, err := l.Start(t.Context(), cmd, protocol(1))
	e, ok := errors.AsType[*StartError](err)
	if !ok || e.Step != StepConfine || !errors.Is(err, ErrNotConfined) {
		t.Errorf("without a confiner: %v", err)
	}
}

func TestConfinedStartFailsAsOthersDo(t *testing.T) {
	l := confining(t)
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("not a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := l.Start(t.Context(), Command{Name: "x", Path: script, Confine: Confinement{Level: SandboxAuto}}, protocol(1))
	if e, ok := errors.AsType[*StartError](err); !ok || e.Step != StepSpawn || !strings.Contains(e.Reason, "not a program for this machine") {
		t.Errorf("refused: %v", err)
	}
}

func TestMemoryLimit(t *testing.T) {
	l := confining(t)
	cmd := play("hog")
	cmd.Confine = Confinement{Level: SandboxAuto, Memory: 128 << 20}
	p := start(t, l, cmd)
	t.Logf("confined: %+v", p.Confined())
	select {
	case <-p.Done():
	case <-time.After(20 * time.Second):
		t.Fatalf("it goes on with too much memory: %v", p.StderrTail())
	}
	if exit := p.Exit(); exit.Memory != 128<<20 || !strings.Contains(exit.String(), "used more memory than its limit of 128MiB") {
		t.Errorf("it %s: %+v", exit, exit)
	}
	if m := p.child.group; m != nil {
		for _, dir := range m.Dirs {
			if _, err := os.Stat(dir); err == nil {
				t.Errorf("its group %s is left", dir)
			}
		}
	}
}

func TestDataLimit(t *testing.T) {
	c := &confiner{spec: &confineSpec{Data: 1 << 40}}
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &before); err != nil {
		t.Fatal(err)
	}
	if err := c.limits(); err != nil {
		t.Fatal(err)
	}
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &now); err != nil || now.Max != min(before.Max, 1<<40) {
		t.Errorf("the limit is %d, %v", now.Max, err)
	}
}

// A machine that gives no more descriptors is what is to blame, not the plugin.
func TestNoDescriptorsLeft(t *testing.T) {
	l, _ := newLauncher(t)
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	next, err := unix.Dup(0)
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(next)
	failures := 0
	for room := range 24 {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(next + 1 + room), Max: before.Max}); err != nil {
			t.Fatal(err)
		}
		p, err := l.Start(t.Context(), play("serve"), protocol(1))
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
			t.Fatal(err)
		}
		if err == nil {
			if err := p.Stop(t.Context(), time.Second, nil); err != nil {
				t.Error(err)
			}
			continue
		}
		failures++
		if !strings.Contains(err.Error(), "too many open files") || errors.Is(err, ErrHandshake) {
			t.Errorf("with %d more descriptors: %v", room, err)
		}
	}
	if failures == 0 {
		t.Error("every start succeeded")
	}
}
