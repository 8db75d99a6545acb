package process

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/setpointd/setpoint/agent/driver"
)

// An execution is a command as its escort is to run it: an intent with another program.
type execution struct {
	intent
	// TTY is true if the command's streams are a terminal.
	TTY bool `json:"tty,omitempty"`
	// Escort is the escort's process number: the command ends with it.
	Escort int `json:"escort,omitempty"`
}

// planExec decides all about a command that can be decided before it runs. What the request does not say is as the task has it.
func (d *Driver) planExec(dir taskDir, req *driver.ExecRequest) (execution, error) {
	refuse := func(code, format string, args ...any) (execution, error) {
		return execution{}, &driver.ExecRefusedError{Code: code, Reason: fmt.Sprintf(format, args...)}
	}
	if problem := req.Problem(); problem != "" {
		return refuse(driver.RejectBadSpec, "%s", problem)
	}
	out := execution{TTY: req.TTY != nil}
	if ok, err := readRecord(dir.spec(), &out.intent); err != nil || !ok {
		return out, errors.Join(driver.ErrNotRunning, err)
	}
	env := make(map[string]string, len(out.Env)+len(req.Env))
	for _, entry := range out.Env {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	if req.User != "" {
		who, cred, err := resolveUser(req.User)
		var unknown *userError
		switch {
		case errors.As(err, &unknown):
			return refuse(unknown.code, "%s", unknown.reason)
		case err != nil:
			return out, fmt.Errorf("look up user %s: %w", req.User, err)
		}
		out.Credential = cred
		env["HOME"], env["USER"], env["LOGNAME"] = who.HomeDir, who.Username, who.Username
	}
	if req.Dir != "" {
		if info, err := os.Stat(req.Dir); err != nil {
			return refuse(driver.RejectBadDirectory, "working directory: %v", err)
		} else if !info.IsDir() {
			return refuse(driver.RejectBadDirectory, "working directory %s is not a directory", req.Dir)
		}
		out.Dir = req.Dir
	}
	mark := env[taskMark]
	maps.Copy(env, req.Env)
	env[taskMark] = mark
	delete(env, shimMark)
	var err error
	if out.Path, err = findCommand(req.Command[0], env["PATH"], out.Dir); err != nil {
		code := driver.RejectNoCommand
		if errors.Is(err, fs.ErrPermission) {
			code = driver.RejectNotExecutable
		}
		return refuse(code, "%v", err)
	}
	out.Spec = driver.Spec{TaskID: out.Spec.TaskID, Command: req.Command}
	out.Env = make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out.Env = append(out.Env, name+"="+env[name])
	}
	return out, nil
}
