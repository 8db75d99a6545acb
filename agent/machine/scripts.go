package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/setpointd/setpoint/sdk/cluster"
)

const (
	// scriptTimeout is how long one script may take.
	scriptTimeout = 2 * time.Second
	// maxScriptOutput is how much a script may print, in bytes.
	maxScriptOutput = 16 << 10
	// scriptPath is where scripts find programs.
	scriptPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// Scripts are executables in a directory that find out attributes of the machine: each prints lines NAME=VALUE. What a script said stays until it says
// something else or is removed: that it fails for a while moves no task. Not safe for use by several goroutines.
type Scripts struct {
	dir  string
	said map[string]map[string]string // by the script's name
}

// NewScripts returns the scripts of a directory, which are looked up each time. An empty name stands for none.
func NewScripts(dir string) *Scripts {
	return &Scripts{dir: dir, said: make(map[string]map[string]string)}
}

// Run runs all scripts in the order of their names, and returns what they say; of what two say, that of the later name. The error says which of them failed, and
// stands beside what these said before.
func (s *Scripts) Run(ctx context.Context) (map[string]string, error) {
	out := make(map[string]string)
	if s == nil || s.dir == "" {
		return out, nil
	}
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		s.said = make(map[string]map[string]string)
		return out, nil
	}
	problems := []error{err}
	present := make(map[string]bool, len(entries))
	for _, e := range entries {
		path := filepath.Join(s.dir, e.Name())
		runs, err := runnable(path)
		if err != nil {
			problems = append(problems, err)
		}
		present[e.Name()] = runs || err != nil
		if !runs {
			continue
		}
		said, err := runScript(ctx, path)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", path, err))
			continue
		}
		s.said[e.Name()] = said
	}
	if err == nil { // otherwise nobody knows what was removed
		maps.DeleteFunc(s.said, func(name string, _ map[string]string) bool { return !present[name] })
	}
	for _, e := range entries {
		maps.Copy(out, s.said[e.Name()])
	}
	return out, errors.Join(problems...)
}

// runnable reports whether a file is a script, and refuses one that others than its owner may write: whoever can would run code as the agent.
func runnable(path string) (bool, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return false, err
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0 || strings.HasPrefix(info.Name(), "."):
		return false, nil
	case info.Mode()&0o022 != 0:
		return false, fmt.Errorf("%s is not run, for others than its owner may write it: chmod go-w %s", path, path)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return false, fmt.Errorf("%s is not run, for it belongs to user %d, neither to root nor to the agent's", path, st.Uid)
	}
	return true, nil
}

// runScript runs one script and reads what it prints. All of it is killed when its time is over.
func runScript(ctx context.Context, path string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, scriptTimeout)
	defer cancel()
	var out, complaints limited
	cmd := exec.CommandContext(ctx, path)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = "/", []string{scriptPath}, &out, &complaints
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("not done within %s", scriptTimeout)
	case err != nil:
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(complaints.text.String()))
	case out.over:
		return nil, fmt.Errorf("it prints more than %d bytes", maxScriptOutput)
	}
	return parseAttributes(out.text.String())
}

func parseAttributes(text string) (map[string]string, error) {
	out := make(map[string]string)
	var problems []error
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, found := strings.Cut(line, "=")
		if !found {
			problems = append(problems, fmt.Errorf("it prints %q, not NAME=VALUE", line))
			continue
		}
		if err := errors.Join(cluster.ValidateLabelKey(name), cluster.ValidateLabelValue(value)); err != nil {
			problems = append(problems, fmt.Errorf("it prints %q: %w", line, err))
			continue
		}
		out[name] = value
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return out, nil
}

// limited keeps the beginning of what is written.
type limited struct {
	text bytes.Buffer
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	room := maxScriptOutput - l.text.Len()
	l.over = l.over || len(p) > room
	l.text.Write(p[:min(room, len(p))])
	return len(p), nil
}
