package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/setpointd/setpoint/agent/driver"
)

// Name is the driver's name in job files.
const Name = "process"

// Options say where and how the driver works.
type Options struct {
	// Dir is where everything is kept; created if missing. One agent uses it at a time.
	Dir string
	// Shim is the program to run as a shim, an absolute path, and the arguments with which it calls ShimMain; a task's directory is added.
	Shim []string
	// Env is what every task's environment begins with; see BaseEnv.
	Env map[string]string
	// Log bounds the output that is kept of each stream; zero fields mean 10 MiB and 4 files.
	Log LogLimits
	// Enforce is the policy for limits that cannot be enforced here; empty: EnforceBestEffort.
	Enforce Enforce
	// CgroupParent is the path in each hierarchy of control groups below which those of tasks are made, such as "/setpoint"; empty: below those of this process.
	CgroupParent string
	// StartTimeout is how long a shim may take to tell that its task runs; zero: 30 s.
	StartTimeout time.Duration
}

// Driver runs tasks as processes. It holds no goroutine and no descriptor between calls, so there is nothing to close.
type Driver struct {
	opts   Options
	boot   string
	groups groups
	busy   keyLock // by task directory; held while a task is started, removed or settled

	mu       sync.Mutex
	children map[taskDir]int // shims that are children of this process and not yet reaped

	point func(string) // is called with a name wherever the agent's death leaves the world as it is just then
}

var _ driver.Driver = (*Driver)(nil)

// New prepares the directory and returns the driver. It looks at no task.
func New(opts Options) (*Driver, error) {
	if len(opts.Shim) == 0 || !filepath.IsAbs(opts.Shim[0]) {
		return nil, errors.New("process driver: Options.Shim must begin with an absolute path")
	}
	if opts.StartTimeout == 0 {
		opts.StartTimeout = 30 * time.Second
	}
	opts.Log = opts.Log.orDefault()
	boot, err := bootID()
	if err != nil {
		return nil, fmt.Errorf("process driver: %w", err)
	}
	if opts.Dir, err = prepareDir(opts.Dir); err != nil {
		return nil, fmt.Errorf("process driver: prepare %s: %w", opts.Dir, err)
	}
	switch opts.Enforce {
	case "":
		opts.Enforce = EnforceBestEffort
	case EnforceBestEffort, EnforceRequired:
	default:
		return nil, fmt.Errorf("process driver: Options.Enforce is %q, neither %s nor %s", opts.Enforce, EnforceBestEffort, EnforceRequired)
	}
	found, err := findGroups(opts.Dir, opts.CgroupParent)
	if err != nil {
		return nil, fmt.Errorf("process driver: %w", err)
	}
	return &Driver{opts: opts, boot: boot, groups: found, children: make(map[taskDir]int), point: func(string) {}}, nil
}

// prepareDir makes the directory, empties its bin, and returns its real path, by which processes are marked.
func prepareDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return dir, err
	}
	for _, d := range []string{dir, filepath.Join(dir, tasksDir), filepath.Join(dir, binDir)} {
		if err := os.MkdirAll(d, 0o711); err != nil {
			return dir, err
		}
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return dir, err
	}
	bin := filepath.Join(real, binDir)
	entries, err := os.ReadDir(bin)
	if err != nil {
		return real, err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(bin, e.Name())); err != nil {
			return real, err
		}
	}
	return real, nil
}

const (
	tasksDir = "tasks"
	binDir   = "bin" // what is being deleted
)

// Name is "process".
func (d *Driver) Name() string { return Name }

// Fingerprint tells whether tasks can run as other users, and which limits are enforced.
func (d *Driver) Fingerprint(ctx context.Context) (driver.Fingerprint, error) {
	if _, err := os.Stat(d.opts.Shim[0]); err != nil {
		return driver.Fingerprint{}, fmt.Errorf("find the program for shims: %w", err)
	}
	attributes := d.groups.attributes()
	attributes["driver.process"] = "true"
	attributes["driver.process.user_switch"] = strconv.FormatBool(os.Geteuid() == 0)
	return driver.Fingerprint{Attributes: attributes}, ctx.Err()
}

func (d *Driver) dir(taskID string) taskDir {
	return taskDir(filepath.Join(d.opts.Dir, tasksDir, escapeID(taskID)))
}

func newHandle(taskID, mark string) driver.Handle {
	h := driver.Handle{Driver: Name, TaskID: taskID}
	if mark != "" {
		h.Data, _ = json.Marshal(handleData{Mark: mark}) // a struct of one string
	}
	return h
}

// reap collects the task's shim if it is a child of this process and has ended.
func (d *Driver) reap(dir taskDir) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if pid, ok := d.children[dir]; ok && reaped(pid) {
		delete(d.children, dir)
	}
}

// reapAll collects all ended shims, also those for which nobody waits.
func (d *Driver) reapAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for dir, pid := range d.children {
		if reaped(pid) {
			delete(d.children, dir)
		}
	}
}

func reaped(pid int) bool {
	for {
		got, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		if !errors.Is(err, syscall.EINTR) {
			return got == pid || err != nil
		}
	}
}

// A keyLock is a lock for each key, to wait for which can be given up.
type keyLock struct {
	mu   sync.Mutex
	held map[taskDir]*keyHolder
}

type keyHolder struct {
	token chan struct{}
	users int
}

// lock returns the function that unlocks.
func (l *keyLock) lock(ctx context.Context, key taskDir) (func(), error) {
	l.mu.Lock()
	if l.held == nil {
		l.held = make(map[taskDir]*keyHolder)
	}
	h := l.held[key]
	if h == nil {
		h = &keyHolder{token: make(chan struct{}, 1)}
		l.held[key] = h
	}
	h.users++
	l.mu.Unlock()

	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if h.users--; h.users == 0 {
			delete(l.held, key)
		}
	}
	select {
	case h.token <- struct{}{}:
		return func() { <-h.token; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
