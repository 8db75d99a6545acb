package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	hcrunner "github.com/hashicorp/go-plugin/runner"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
)

const (
	socketDirPrefix = "plugin-dir" // go-plugin's, for the directory of one process
	// maxDir leaves room for "/plugin-dir1234567890/plugin1234567890", which go-plugin appends.
	maxDir = maxSocketPath - len("/plugin-dir1234567890/plugin1234567890")
	// exitWait is how long a plugin that closed its stdout may take to exit before it is killed, for the sake of its exit status.
	exitWait = time.Second
)

// Launcher starts plugins. A program needs one.
type Launcher struct {
	dir      string
	lock     *os.File
	log      hclog.Logger
	spawner  *spawner
	confiner []string       // see UseConfiner
	digests  digests        // of executables
	working  sync.WaitGroup // starts under way and processes that have not ended

	mu       sync.Mutex // guards what follows
	closed   bool
	children map[*child]struct{}
}

// NewLauncher takes dir, at most 69 bytes long, for the sockets of plugins: it is created if missing, made accessible to this
// user alone, locked against other launchers, and what a killed host has left in it is removed. Processes recorded there are
// none: a plugin ends with its host by other means, and a number from a file would name a stranger.
func NewLauncher(dir string, log hclog.Logger) (*Launcher, error) {
	lock, err := takeDir(dir)
	if err != nil {
		return nil, fmt.Errorf("use %s for plugin sockets: %w", dir, err)
	}
	sweepGroups()
	return &Launcher{dir: dir, lock: lock, log: log, spawner: newSpawner(), children: make(map[*child]struct{})}, nil
}

// UseGuard has a further process stand by, which is told of every plugin and kills what plugins have started if the host is killed; the plugins themselves end
// with the host in any case. It is this executable with the given arguments, which must lead to GuardMain. UseGuard is called before anything is started.
func (l *Launcher) UseGuard(args ...string) {
	l.spawner.guard = newGuard(append([]string{selfExecutable}, args...), l.log)
}

func takeDir(dir string) (*os.File, error) {
	if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir {
		return nil, errors.New("the path is not absolute and clean")
	}
	if len(dir) > maxDir {
		return nil, fmt.Errorf("the path has %d bytes, the limit is %d, because a unix socket's whole path must fit in %d; "+
			"choose a shorter directory, such as one under /run or /tmp", len(dir), maxDir, maxSocketPath)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := claim(lock, dir); err != nil {
		_ = lock.Close()
		return nil, err
	}
	return lock, nil
}

// claim makes an open directory private, locks it and empties it.
func claim(d *os.File, dir string) error {
	info, err := d.Stat()
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("it belongs to user %d, not to %d, who runs this program", st.Uid, os.Geteuid())
	}
	if err := d.Chmod(0o700); err != nil {
		return err
	}
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("another process uses it: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), socketDirPrefix) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// Start runs a command and waits until the plugin has answered over gRPC with mutual TLS, at most for the command's handshake
// timeout. The error is a *StartError; by then nothing of the process is left.
func (l *Launcher) Start(ctx context.Context, cmd Command, proto Protocol) (*Process, error) {
	cmd = cmd.withDefaults()
	var c *child
	err := cmd.check(proto)
	if err == nil {
		c, err = l.newChild(cmd, proto)
	}
	if err == nil {
		var p *Process
		if p, err = l.run(ctx, c, proto); err == nil {
			return p, nil
		}
	}
	start, ok := errors.AsType[*StartError](err)
	if !ok {
		start = &StartError{Step: StepSpawn, Reason: err.Error(), Err: err}
	}
	start.Name, start.Path, start.Argv = cmd.Name, cmd.Path, cmd.argv()
	return nil, start
}

func (l *Launcher) newChild(cmd Command, proto Protocol) (*child, error) {
	exe, err := openExecutable(cmd.Path, cmd.SHA256, &l.digests)
	if err != nil {
		return nil, err
	}
	out := newOutput(l.log.With("plugin", cmd.Name))
	c := &child{
		command:  cmd,
		exe:      exe,
		spawner:  l.spawner,
		confiner: l.confiner,
		out:      out,
		greeting: newGreeting(out, proto.supported()),
		done:     make(chan struct{}),
	}
	if cmd.Lines != nil {
		out.lines = func(stream, text string) { cmd.Lines(Line{At: time.Now(), PID: c.pid(), Stream: stream, Text: text}) }
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = exe.file.Close()
		return nil, ErrClosed
	}
	l.working.Add(1)
	l.children[c] = struct{}{}
	return c, nil
}

// forget ends what newChild began.
func (l *Launcher) forget(c *child) {
	if c.group != nil {
		if err := c.group.Remove(); err != nil {
			c.out.log.Warn("control group not removed", "error", err)
		}
	}
	if c.greeting.dir != "" {
		if err := os.RemoveAll(c.greeting.dir); err != nil {
			c.out.log.Warn("socket directory not removed", "error", err)
		}
	}
	l.mu.Lock()
	delete(l.children, c)
	l.mu.Unlock()
	l.working.Done()
}

func (l *Launcher) run(ctx context.Context, c *child, proto Protocol) (*Process, error) {
	defer c.exe.file.Close() // the process has its own descriptor of it
	id, err := newIdentity()
	if err != nil {
		l.forget(c)
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.command.HandshakeTimeout)
	defer cancel()
	var conns connections
	client := plugin.NewClient(l.clientConfig(c, proto, id, &conns))
	type result struct {
		rpc *plugin.GRPCClient
		err error
	}
	results := make(chan result, 1)
	go func() {
		rpc, err := connect(ctx, client)
		results <- result{rpc, err}
	}()
	var r result
	select {
	case r = <-results:
	case <-ctx.Done():
		c.kill() // ends every wait in connect
		r = <-results
	}
	if r.err == nil && ctx.Err() == nil {
		p := &Process{child: c, rpc: r.rpc, version: client.NegotiatedVersion(), log: c.out.log, done: make(chan struct{})}
		go p.watch(func() { l.forget(c) }) // ends with the process; Stop and Close wait for it
		p.log.Info("plugin process started", "pid", p.PID(), "protocol", p.version)
		return p, nil
	}
	err = explain(ctx, c, r.err)
	l.bury(c, r.rpc, &conns)
	if e, ok := errors.AsType[*StartError](err); ok { // all that it wrote is known only now
		e.Stderr = c.out.stderrTail()
		if e.Step == StepHandshake {
			e.Stdout = c.greeting.firstBytes()
		}
	}
	return nil, err
}

// bury removes what a failed start has left.
func (l *Launcher) bury(c *child, rpc *plugin.GRPCClient, conns *connections) {
	_ = c.greeting.writer.Close() // go-plugin waits for its end, also if there is no process
	if c.pid() != 0 {
		c.kill()
		if !c.endsWithin(killWait) {
			c.out.log.Error("plugin process does not die", "pid", c.pid())
		}
	}
	if rpc != nil {
		_ = rpc.Close()
	}
	conns.close()
	l.forget(c)
}

// clientConfig is made anew for each start, with all that it refers to: go-plugin's objects cannot be used twice.
func (l *Launcher) clientConfig(c *child, proto Protocol, id identity, conns *connections) *plugin.ClientConfig {
	stdio := func(each func([]byte)) *splitter {
		return &splitter{limit: maxLine, each: func(line []byte, _ bool) { each(line) }}
	}
	return &plugin.ClientConfig{
		HandshakeConfig:  proto.Handshake,
		VersionedPlugins: maps.Clone(proto.Versions),
		RunnerFunc: func(_ hclog.Logger, spec *exec.Cmd, dir string) (hcrunner.Runner, error) {
			c.prepare(spec, dir, id.certificate)
			return c, nil
		},
		TLSConfig:        id.config,
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		SkipHostEnv:      true,
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: l.dir},
		StartTimeout:     c.command.HandshakeTimeout + killWait, // only a net: the launcher's own limit comes first
		SyncStdout:       stdio(func(line []byte) { c.out.stdoutLine("plugin stdout", hclog.Info, line) }),
		SyncStderr:       stdio(c.out.stderrLine),
		GRPCDialOptions:  []grpc.DialOption{grpc.WithChainStreamInterceptor(conns.capture)},
		Logger:           hclog.NewNullLogger(), // errors are returned, and the life of the process is logged here
	}
}

// connect starts the process and makes the first call to it. go-plugin's calls have no deadline; they end with the process.
func connect(ctx context.Context, client *plugin.Client) (*plugin.GRPCClient, error) {
	protocol, err := client.Client()
	if err != nil {
		return nil, err
	}
	rpc, ok := protocol.(*plugin.GRPCClient)
	if !ok {
		return nil, errNoAnswer
	}
	return rpc, ping(ctx, rpc.Conn)
}

func ping(ctx context.Context, conn *grpc.ClientConn) error {
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: plugin.GRPCServiceName})
	if err == nil && answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		err = fmt.Errorf("its health service says %s", answer.GetStatus())
	}
	return err
}

// explain finds out why a start failed. cause is what go-plugin or the first call said, which is used only if nothing better is
// known.
func explain(ctx context.Context, c *child, cause error) error {
	c.mu.Lock()
	spawnErr := c.spawnErr
	c.mu.Unlock()
	accepted, ended, greetErr := c.greeting.state()
	step := StepHandshake
	if accepted {
		step = StepConnect
	}
	e := &StartError{Step: step, Err: cause}
	switch {
	case spawnErr != nil:
		return spawnErr
	case c.pid() == 0:
		return refuse(StepSpawn, fmt.Sprintf("cannot prepare its start: %v", cause), scarcity(cause), cause)
	case ctx.Err() != nil:
		e.Reason, e.Hint = c.greeting.unanswered()
		e.Err = ctx.Err()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			e.Timeout, e.Err = c.command.HandshakeTimeout, ErrTimeout
			e.Reason = fmt.Sprintf("no answer within %s: %s", e.Timeout, e.Reason)
		}
	case greetErr != nil:
		e, _ = errors.AsType[*StartError](greetErr)
	case c.endsWithin(exitWait):
		status := c.exitStatus()
		e.Exit, e.Err = &status, ErrExited
		e.Reason = "it " + status.String() + " before it had answered"
		e.Hint = "run it by hand to see what it says; it must keep running and serve"
	case scarcity(cause) != "":
		e.Reason, e.Hint = fmt.Sprintf("the first call to it failed: %v", cause), scarcity(cause)
	case ended && !accepted:
		e.Reason, e.Err = "it closed stdout without a handshake", ErrHandshake
		e.Hint = "stdout must stay open until the handshake is written"
	default:
		e.Reason = fmt.Sprintf("the first call to it failed: %v", cause)
		e.Hint = "it must serve gRPC health checks for the service \"plugin\" over TLS, with the certificate of its handshake"
	}
	return e
}

// Close kills all plugins that are left and waits for their end. Nothing can be started afterwards. Use Process.Stop before, for
// those that should end in peace.
func (l *Launcher) Close() error {
	l.mu.Lock()
	already := l.closed
	l.closed = true
	for c := range l.children {
		c.kill()
	}
	l.mu.Unlock()
	if already {
		return nil
	}
	over := make(chan struct{})
	go func() { l.working.Wait(); close(over) }()
	timer := time.NewTimer(killWait + exitWait)
	defer timer.Stop()
	select {
	case <-over:
	case <-timer.C:
		return fmt.Errorf("close plugin launcher: %w", ErrStillAlive) // the thread stays, or they would lose their parent
	}
	l.spawner.close()
	if g := l.spawner.guard; g != nil {
		g.close()
	}
	return l.lock.Close()
}
