package health

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxOutput is how much of a program's output stands in a message, in bytes.
	maxOutput = 256
	// defaultPath is where programs are looked up if the task's environment does not say.
	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// command runs a program as the task's user, in its directory and with its environment. All of it is killed when the time is over.
func command(t Target) (Probe, error) {
	credential, err := credentialOf(t.User)
	if err != nil {
		return nil, fmt.Errorf("run the health check as %s: %w", t.User, err)
	}
	env := map[string]string{"PATH": defaultPath}
	maps.Copy(env, t.Env)
	dir := cmp.Or(t.Dir, "/")
	return func(ctx context.Context) error {
		path, err := find(t.Spec.Exec[0], env["PATH"], dir)
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, path, t.Spec.Exec[1:]...)
		cmd.Args[0] = t.Spec.Exec[0]
		cmd.Dir = dir
		for _, name := range slices.Sorted(maps.Keys(env)) {
			cmd.Env = append(cmd.Env, name+"="+env[name])
		}
		out := &tail{}
		cmd.Stdout, cmd.Stderr = out, out
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: credential}
		cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
		cmd.WaitDelay = time.Second
		err = cmd.Run()
		var exit *exec.ExitError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &exit):
			return fmt.Errorf("%s: %w%s", t.Spec.Exec[0], exit, out.text())
		}
		return fmt.Errorf("run %s: %w", t.Spec.Exec[0], err)
	}, nil
}

// find looks a program up as the task would.
func find(name, path, dir string) (string, error) {
	if strings.ContainsRune(name, '/') {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, nil
	}
	for in := range strings.SplitSeq(path, ":") {
		full := filepath.Join(in, name)
		if info, err := os.Stat(full); filepath.IsAbs(in) && err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return full, nil
		}
	}
	return "", fmt.Errorf("no such command: %s (PATH is %s)", name, path)
}

// credentialOf looks up a task's user. It returns nil if that is who the agent runs as.
func credentialOf(spec string) (*syscall.Credential, error) {
	if spec == "" {
		return nil, nil
	}
	name, group, _ := strings.Cut(spec, ":")
	who, err := user.Lookup(name)
	if err != nil {
		if who, err = user.LookupId(name); err != nil {
			return nil, fmt.Errorf("unknown user %s", name)
		}
	}
	ids := []string{who.Uid, who.Gid}
	if group == "" {
		more, err := who.GroupIds()
		if err != nil {
			return nil, err
		}
		ids = append(ids, more...)
	} else {
		ids[1] = group
		if found, err := user.LookupGroup(group); err == nil {
			ids[1] = found.Gid
		}
	}
	numbers := make([]uint32, len(ids))
	for i, id := range ids {
		n, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("unknown group %s", id)
		}
		numbers[i] = uint32(n)
	}
	if os.Geteuid() != 0 && int(numbers[0]) == os.Geteuid() {
		return nil, nil
	}
	return &syscall.Credential{Uid: numbers[0], Gid: numbers[1], Groups: numbers[2:]}, nil
}

// tail keeps the end of what is written to it.
type tail struct {
	data []byte
}

// Write keeps the last maxOutput bytes.
func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p[max(0, len(p)-maxOutput):]...)
	t.data = t.data[max(0, len(t.data)-maxOutput):]
	return len(p), nil
}

// text returns what is kept, on one line.
func (t *tail) text() string {
	words := bytes.Fields(bytes.ToValidUTF8(t.data, nil))
	if len(words) == 0 {
		return ""
	}
	return ": " + string(bytes.Join(words, []byte(" ")))
}
