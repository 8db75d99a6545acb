package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/setpointd/setpoint/agent/driver"
)

const (
	// Name is the driver's name in job files.
	Name = "docker"
	// DefaultHost is where an engine listens that was not told otherwise.
	DefaultHost = "unix:///var/run/docker.sock"

	// startTimeout is how long the engine may take to start a container that it has.
	startTimeout = 2 * time.Minute
	// killTimeout is how long it may take to kill one.
	killTimeout = 30 * time.Second
	// retryPause is how long to wait until an engine that was away is asked again.
	retryPause = time.Second
)

// Options say where the engine is and how the driver works.
type Options struct {
	// Dir is where the driver keeps its mark; created if missing. One agent uses it at a time.
	Dir string
	// Host is the engine's address, unix:///PATH or tcp://HOST:PORT; empty: DefaultHost.
	Host string
	// TLS is for engines at a tcp address: files with the authority, and with the certificate and key of this client. Empty: none is used.
	TLS TLS
	// Required has a task refused that the engine cannot hold to its limits; otherwise it runs, and that is said with its handle.
	Required bool
	// Log bounds the output that is kept of each task, both streams together; zero fields mean 10 MiB and 4 files.
	Log LogLimits
	// Registries are the credentials for pulling images, by the registry's HOST or HOST:PORT.
	Registries map[string]Credential
}

// TLS are the files for a connection over TLS.
type TLS struct {
	CA, Cert, Key string
}

// LogLimits bound the output that is kept.
type LogLimits struct {
	// MaxBytes is the size of one file.
	MaxBytes int64
	// MaxFiles is how many there are at most.
	MaxFiles int
}

// Credential is who pulls images of a registry.
type Credential struct {
	Username string
	// PasswordFile is read for each pull, so that what is in it may change.
	PasswordFile string
}

// Driver runs tasks as containers. It holds no goroutine between calls, so there is nothing to close.
type Driver struct {
	opts   Options
	engine *client.Client
	owner  string  // the mark
	busy   keyLock // by container name; held while a task is started or removed
	ending keyLock // by container name; held while one is told to stop

	mu    sync.Mutex             // guards what follows
	execs map[string]struct{}    // marks of commands that run in tasks and are looked after
	kills map[string]*time.Timer // of tasks that were told to stop, by container name: kills what has not ended then
	found *system.Info           // what the engine said of itself last, which it finds out by starting programs; nil: it was not asked yet
}

// errForeign: there is a container with the task's name which this driver did not make.
var errForeign = errors.New("it has the name of a task's container and was made by somebody else; remove or rename it")

var (
	_ driver.Driver         = (*Driver)(nil)
	_ driver.HealthReporter = (*Driver)(nil)
)

// New prepares the directory and returns the driver. It does not speak with the engine, which may be away.
func New(opts Options) (*Driver, error) {
	if opts.Host == "" {
		opts.Host = DefaultHost
	}
	if opts.Log.MaxBytes == 0 {
		opts.Log.MaxBytes = 10 << 20
	}
	if opts.Log.MaxFiles == 0 {
		opts.Log.MaxFiles = 4
	}
	settings := []client.Opt{client.WithHost(opts.Host), client.WithUserAgent("setpoint")}
	if opts.TLS != (TLS{}) {
		settings = append(settings, client.WithTLSClientConfig(opts.TLS.CA, opts.TLS.Cert, opts.TLS.Key))
	}
	engine, err := client.New(settings...)
	if err != nil {
		return nil, fmt.Errorf("docker driver: reach the engine at %s: %w", opts.Host, err)
	}
	if err := os.MkdirAll(filepath.Join(opts.Dir, stopsDir), 0o700); err != nil {
		return nil, fmt.Errorf("docker driver: %w", err)
	}
	owner, err := readOwner(opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("docker driver: %w", err)
	}
	return &Driver{opts: opts, engine: engine, owner: owner, kills: make(map[string]*time.Timer), execs: make(map[string]struct{})}, nil
}

// Name is "docker".
func (d *Driver) Name() string { return Name }

// info returns what the engine said of itself when it was asked last.
func (d *Driver) info(ctx context.Context) (*system.Info, error) {
	d.mu.Lock()
	found := d.found
	d.mu.Unlock()
	if found != nil {
		return found, nil
	}
	return d.ask(ctx)
}

// ask asks the engine who it is.
func (d *Driver) ask(ctx context.Context) (*system.Info, error) {
	answer, err := d.engine.Info(ctx, client.InfoOptions{})
	if err != nil {
		return nil, plain(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.found = &answer.Info
	return d.found, nil
}

// look returns the task's container. It returns driver.ErrNotFound if there is none.
func (d *Driver) look(ctx context.Context, taskID string) (*container.InspectResponse, error) {
	got, err := d.engine.ContainerInspect(ctx, d.container(taskID), client.ContainerInspectOptions{})
	switch {
	case cerrdefs.IsNotFound(err):
		return nil, driver.ErrNotFound
	case err != nil:
		return nil, plain(err)
	}
	c := got.Container
	if c.State == nil || c.Config == nil {
		return nil, errors.New("the engine's answer has neither state nor configuration")
	}
	if c.Config.Labels[labelOwner] != d.owner || c.Config.Labels[labelTask] != taskID {
		return nil, fmt.Errorf("container %s: %w", strings.TrimPrefix(c.Name, "/"), errForeign)
	}
	return &c, nil
}

// handle names the task with its container.
func handle(taskID string, c *container.InspectResponse) driver.Handle {
	return driver.Handle{Driver: Name, TaskID: taskID, Data: handleData(c.ID)}
}

// plain leaves out what the client puts before each of the engine's messages. Its kind stays.
func plain(err error) error {
	if err == nil {
		return nil
	}
	if text, ok := strings.CutPrefix(err.Error(), "Error response from daemon: "); ok {
		return &engineError{text: text, err: err}
	}
	return err
}

// engineError is what the engine said.
type engineError struct {
	text string
	err  error
}

// Error is the engine's message.
func (e *engineError) Error() string { return e.text }

// Unwrap returns the client's error.
func (e *engineError) Unwrap() error { return e.err }

// answered reports whether an error is the engine's answer, so that what was asked for was not done; otherwise nobody knows.
func answered(err error) bool {
	var said *engineError
	return errors.As(err, &said)
}

// pause waits, and reports false if the context ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
