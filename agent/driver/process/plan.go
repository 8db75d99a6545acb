package process

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/setpointd/setpoint/agent/driver"
)

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// BaseEnv picks from an environment ("NAME=value" each) what tasks may inherit: the search path, language and time zone. Nothing else of the
// agent's environment is the tasks' business, and some of it is secret.
func BaseEnv(environ []string) map[string]string {
	out := make(map[string]string)
	for _, entry := range environ {
		name, value, ok := strings.Cut(entry, "=")
		if ok && (name == "PATH" || name == "LANG" || name == "TZ" || strings.HasPrefix(name, "LC_")) {
			out[name] = value
		}
	}
	return out
}

// plan decides everything about a start that can be decided before it. Its errors are *driver.RejectedError, or the system's own trouble.
func (d *Driver) plan(spec driver.Spec, dir taskDir) (intent, error) {
	reject := func(code, format string, args ...any) (intent, error) {
		return intent{}, &driver.RejectedError{TaskID: spec.TaskID, Code: code, Reason: fmt.Sprintf(format, args...)}
	}
	if problem := checkSpec(spec); problem != "" {
		return reject(driver.RejectBadSpec, "%s", problem)
	}
	words, err := parseSettings(spec.Settings)
	if err != nil {
		return reject(driver.RejectBadSpec, "%v", err)
	}
	who, cred, err := resolveUser(spec.User)
	if err != nil {
		var unknown *userError
		if errors.As(err, &unknown) {
			return reject(unknown.code, "%s", unknown.reason)
		}
		return intent{}, fmt.Errorf("start task %s: look up user %s: %w", spec.TaskID, spec.User, err)
	}
	for _, l := range words.Limits {
		problem, err := l.settable()
		if err != nil {
			return intent{}, fmt.Errorf("start task %s: %w", spec.TaskID, err)
		}
		if problem != "" {
			return reject(driver.RejectRefusedBySystem, "%s", problem)
		}
	}
	in := intent{
		Version: intentVersion, Spec: spec, Mark: rand.Text(), Credential: cred, Settings: words, Log: words.log.or(d.opts.Log), Dir: dir.work(),
		limits: limitsOf(spec, words),
	}
	if d.opts.Enforce == EnforceRequired {
		if missing := unenforced(in.limits, d.groups.lacks); len(missing) > 0 {
			return intent{}, refuseUnenforced(spec.TaskID, missing)
		}
	}
	if spec.Dir != "" {
		in.Dir = spec.Dir
		if info, err := os.Stat(spec.Dir); err != nil {
			return reject(driver.RejectBadDirectory, "working directory: %v", err)
		} else if !info.IsDir() {
			return reject(driver.RejectBadDirectory, "working directory %s is not a directory", spec.Dir)
		}
	}
	env := d.environment(spec, who, dir)
	uid, gid := os.Geteuid(), os.Getegid()
	if cred != nil {
		uid, gid = int(cred.UID), int(cred.GID)
	}
	if err := spec.Secrets.Give(uid, gid); err != nil {
		return reject(driver.RejectRefusedBySystem, "%v", err)
	}
	if in.Path, err = findCommand(spec.Command[0], env["PATH"], in.Dir); err != nil {
		code := driver.RejectNoCommand
		if errors.Is(err, fs.ErrPermission) {
			code = driver.RejectNotExecutable
		}
		return reject(code, "%v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		in.Env = append(in.Env, name+"="+env[name])
	}
	return in, nil
}

// checkSpec returns what is wrong with the spec by itself.
func checkSpec(spec driver.Spec) string {
	switch {
	case spec.TaskID == "":
		return "the task has no id"
	case len(spec.Command) == 0 || spec.Command[0] == "":
		return "the task has no command"
	case spec.Dir != "" && !filepath.IsAbs(spec.Dir):
		return fmt.Sprintf("working directory %q is not absolute", spec.Dir)
	case slices.ContainsFunc(spec.Command, func(arg string) bool { return strings.ContainsRune(arg, 0) }):
		return "the command holds a zero byte"
	}
	if _, err := parseSignal(spec.StopSignal); err != nil {
		return "stop signal: " + err.Error()
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(spec.Env[name], 0) {
			return fmt.Sprintf("environment variable %q: its name or value is not possible", name)
		}
	}
	return ""
}

// environment is what the task sees: the base, then the user's, then the spec's, then what identifies the task.
func (d *Driver) environment(spec driver.Spec, who *user.User, dir taskDir) map[string]string {
	env := map[string]string{"PATH": defaultPath}
	maps.Copy(env, d.opts.Env)
	if who != nil {
		env["HOME"], env["USER"], env["LOGNAME"] = who.HomeDir, who.Username, who.Username
	}
	maps.Copy(env, spec.Env)
	env["SETPOINT_TASK_ID"] = spec.TaskID
	env[taskMark] = string(dir)
	if spec.Secrets.Dir != "" {
		env[driver.SecretsDirEnv] = spec.Secrets.Dir
	}
	delete(env, shimMark)
	return env
}

// findCommand returns the executable's path: as a shell would find it, but never in a directory of PATH that is not absolute.
func findCommand(name, path, workDir string) (string, error) {
	if strings.ContainsRune(name, '/') {
		if !filepath.IsAbs(name) {
			name = filepath.Join(workDir, name)
		}
		return name, executable(name)
	}
	var denied error
	for dir := range strings.SplitSeq(path, ":") {
		if !filepath.IsAbs(dir) {
			continue
		}
		full := filepath.Join(dir, name)
		err := executable(full)
		if err == nil {
			return full, nil
		}
		if errors.Is(err, fs.ErrPermission) && denied == nil {
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", fmt.Errorf("no such command: %s (PATH is %s)", name, path)
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return err
	case err != nil:
		return fmt.Errorf("no such command: %s", path)
	case info.IsDir():
		return fmt.Errorf("%s is a directory: %w", path, fs.ErrPermission)
	case info.Mode()&0o111 == 0:
		return fmt.Errorf("%s is not executable: %w", path, fs.ErrPermission)
	}
	return nil
}

// A userError says why a task cannot run as a user.
type userError struct {
	code   string
	reason string
}

func (e *userError) Error() string { return e.reason }

// resolveUser looks up "name", "uid", "name:group" and the like. The credential is nil if nothing is to be switched. The groups are exactly
// the user's, or exactly the one that was named.
func resolveUser(spec string) (*user.User, *credential, error) {
	if spec == "" {
		who, err := user.LookupId(strconv.Itoa(os.Geteuid()))
		if err != nil {
			who = nil // a user without an entry: the variables are left out
		}
		return who, nil, nil
	}
	name, group, hasGroup := strings.Cut(spec, ":")
	who, err := lookupUser(name)
	if err != nil {
		return nil, nil, err
	}
	gids := []string{who.Gid}
	if hasGroup {
		gid, err := lookupGroup(group)
		if err != nil {
			return nil, nil, err
		}
		gids[0] = gid
	} else {
		more, err := who.GroupIds()
		if err != nil {
			return nil, nil, err
		}
		gids = append(gids, more...)
	}
	cred := &credential{Groups: make([]uint32, 0, len(gids))}
	for _, id := range append([]string{who.Uid}, gids...) {
		n, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return nil, nil, err
		}
		cred.Groups = append(cred.Groups, uint32(n))
	}
	cred.UID, cred.GID, cred.Groups = cred.Groups[0], cred.Groups[1], cred.Groups[1:]
	slices.Sort(cred.Groups)
	cred.Groups = slices.Compact(cred.Groups)
	if os.Geteuid() != 0 {
		if int(cred.UID) == os.Geteuid() && !hasGroup {
			return who, nil, nil
		}
		return nil, nil, &userError{driver.RejectUserNotAllowed, fmt.Sprintf("to run as %s the agent must run as root", spec)}
	}
	return who, cred, nil
}

func lookupUser(name string) (*user.User, error) {
	who, err := user.Lookup(name)
	var unknown user.UnknownUserError
	if errors.As(err, &unknown) {
		if _, isNumber := strconv.ParseUint(name, 10, 32); isNumber == nil {
			who, err = user.LookupId(name)
		}
	}
	var unknownID user.UnknownUserIdError
	if errors.As(err, &unknown) || errors.As(err, &unknownID) {
		return nil, &userError{driver.RejectUnknownUser, fmt.Sprintf("unknown user %s", name)}
	}
	return who, err
}

func lookupGroup(name string) (string, error) {
	group, err := user.LookupGroup(name)
	var unknown user.UnknownGroupError
	if err == nil {
		return group.Gid, nil
	}
	if _, isNumber := strconv.ParseUint(name, 10, 32); isNumber == nil {
		return name, nil
	}
	if errors.As(err, &unknown) {
		return "", &userError{driver.RejectUnknownUser, fmt.Sprintf("unknown group %s", name)}
	}
	return "", err
}
