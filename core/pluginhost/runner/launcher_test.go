package runner

import (
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

func digestOf(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		t.Fatal(err)
	}
	return sum.Sum(nil)
}

// copySelf makes an executable file that tests may change.
func copySelf(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(selfExecutable)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "plugin")
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

const otherProgram = "#!/bin/sh\necho replaced >&2\nexit 7\n"

func TestPinnedDigest(t *testing.T) {
	l, _ := newLauncher(t)
	cmd := play("serve")
	cmd.SHA256 = make([]byte, digestSize)
	_, err := l.Start(t.Context(), cmd, protocol(1))
	if e, ok := errors.AsType[*StartError](err); !ok || !errors.Is(err, ErrDigest) || e.Step != StepVerify {
		t.Fatalf("got %v", err)
	}
	for _, text := range []string{"pins 0000", "pin the new sha256"} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q is not in %s", text, err)
		}
	}
	cmd.SHA256 = []byte("short")
	if _, err = l.Start(t.Context(), cmd, protocol(1)); err == nil || !strings.Contains(err.Error(), "has 5 bytes") {
		t.Errorf("got %v", err)
	}
}

// Between hashing and running, the file at the path is replaced, or written to: what was hashed runs, or nothing does.
func TestFileChangesBetweenHashAndRun(t *testing.T) {
	rename := func(t *testing.T, path string) {
		if err := errors.Join(os.WriteFile(path+".new", []byte(otherProgram), 0o755), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
	}
	overwrite := func(t *testing.T, path string) {
		if err := os.WriteFile(path, []byte(otherProgram), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cases := map[string]struct {
		pinned bool
		change func(*testing.T, string)
		runs   bool
	}{
		"replaced, pinned":       {true, rename, true},
		"overwritten, pinned":    {true, overwrite, true},
		"replaced, no digest":    {false, rename, true},
		"overwritten, no digest": {false, overwrite, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l, _ := newLauncher(t)
			cmd := play("serve").withDefaults()
			cmd.Path = copySelf(t)
			digest := digestOf(t, cmd.Path)
			if c.pinned {
				cmd.SHA256 = digest
			}
			child, err := l.newChild(cmd, protocol(1))
			if err != nil {
				t.Fatal(err)
			}
			c.change(t, cmd.Path)
			p, err := l.run(t.Context(), child, protocol(1))
			if c.runs {
				if err != nil {
					t.Fatal(err)
				}
				if got := p.Digest(); string(got[:]) != string(digest) {
					t.Errorf("digest %x, want %x", got, digest)
				}
				return
			}
			if e, ok := errors.AsType[*StartError](err); !ok || e.Step != StepVerify || !strings.Contains(e.Reason, "changed while") {
				t.Fatalf("got %v, %v", p, err)
			}
		})
	}
}

func TestSocketDirectory(t *testing.T) {
	base := shortDir(t)
	log := hclog.NewNullLogger()
	long := filepath.Join(base, strings.Repeat("d", maxDir-len(base)))
	if _, err := NewLauncher(long, log); err == nil || !strings.Contains(err.Error(), "the path has 70 bytes, the limit is 69") {
		t.Errorf("a path of 70 bytes: %v", err)
	}
	l, err := NewLauncher(long[:maxDir], log)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p, err := l.Start(t.Context(), play("serve"), protocol(1))
	if err != nil {
		t.Fatalf("with a path of %d bytes: %v", maxDir, err)
	}
	if _, err := NewLauncher(long[:maxDir], log); err == nil || !strings.Contains(err.Error(), "another process uses it") {
		t.Errorf("a second launcher on one directory: %v", err)
	}
	if err := p.Ping(t.Context()); err != nil {
		t.Errorf("after the second launcher: %v", err)
	}
	if _, err := NewLauncher("relative", log); err == nil {
		t.Error("a relative path was taken")
	}
}

func TestLeftoversOfAKilledHostAreRemoved(t *testing.T) {
	dir := shortDir(t)
	stale := filepath.Join(dir, socketDirPrefix+"123")
	keep := filepath.Join(dir, "notes")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(stale, 0o700), os.WriteFile(filepath.Join(stale, "plugin1"), nil, 0o600),
		os.WriteFile(keep, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	l, err := NewLauncher(dir, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := os.Stat(stale); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the stale directory: %v", err)
	}
	if _, err := os.Stat(keep); err != nil {
		t.Errorf("a file of somebody else: %v", err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %s, %v", info.Mode(), err)
	}
}

func TestCloseKillsWhatIsLeft(t *testing.T) {
	log, _ := newLog()
	l, err := NewLauncher(shortDir(t), log)
	if err != nil {
		t.Fatal(err)
	}
	running := start(t, l, play("ignore-term"))
	starting := make(chan error, 1)
	go func() {
		_, err := l.Start(t.Context(), play("block"), protocol(1))
		starting <- err
	}()
	eventually(t, "the second start has begun", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.children) == 2
	})
	begin := time.Now()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
	if status := waitDone(t, running); !status.Requested {
		t.Errorf("it %s, not requested", status)
	}
	if err := <-starting; err == nil {
		t.Error("a start outlived the launcher")
	}
	if _, err := l.Start(t.Context(), play("serve"), protocol(1)); !errors.Is(err, ErrClosed) {
		t.Errorf("start after close: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

func TestScriptsRunThroughTheirDescriptor(t *testing.T) {
	l, _ := newLauncher(t)
	path := filepath.Join(t.TempDir(), "plugin.sh")
	if err := os.WriteFile(path, []byte(otherProgram), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, pin := range [][]byte{nil, digestOf(t, path)} {
		_, err := l.Start(t.Context(), Command{Name: "script", Path: path, SHA256: pin}, protocol(1))
		if e, ok := errors.AsType[*StartError](err); !ok || e.Exit == nil || e.Exit.Code != 7 || len(e.Stderr) != 1 || e.Stderr[0] != "replaced" {
			t.Errorf("got %v", err)
		}
	}
}

func TestBuiltin(t *testing.T) {
	for program, want := range map[string]string{"": "/proc/self/exe plugin serve drain", "/opt/setpoint-plugin": "/opt/setpoint-plugin drain"} {
		cmd := Builtin("drain", program)
		if got := strings.Join(cmd.argv(), " "); got != want || cmd.Name != "drain" || !cmd.Builtin {
			t.Errorf("with program %q got %+v, want %s", program, cmd, want)
		}
	}
}
