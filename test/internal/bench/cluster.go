package bench

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Options say what cluster a test wants.
type Options struct {
	Nodes     []Node   // started with it; names, labels and capacity count
	Config    string   // more of the server's configuration
	Limits    []string // of the server, each as ulimit takes it, such as "-n 64"
	User      int      // whom the server runs as; 0: who runs the test. Only root can say so
	Unchecked []string // invariants that the sampler is not to hold here, such as "V4"
	Unmasked  bool     // start the server with a umask that takes nothing away
	Keep      bool     // leave the directory when the test has failed

	SampleEvery time.Duration // between two samples, where looking takes long; 0: five times a second
	Network     bool          // the server and each node have an address of their own, and a cable that can be cut; see NetworkMissing
	Relayed     []string      // names of nodes whose agents reach the server over a Relay; with Network
	Clocked     string        // BuildClocked's program: the server runs it, and ShiftClock shifts its wall clock
}

// N describes a node of 4 CPU and 8 GiB with labels, each "key=value".
func N(name string, labels ...string) Node {
	n := Node{Name: name, Labels: map[string]string{}, Capacity: Resources{CPU: 4, Memory: 8 << 30}}
	for _, l := range labels {
		key, value, _ := strings.Cut(l, "=")
		n.Labels[key] = value
	}
	return n
}

// Ns describes nodes n1 to nN without labels.
func Ns(count int) []Node {
	var out []Node
	for i := range count {
		out = append(out, N(fmt.Sprintf("n%d", i+1)))
	}
	return out
}

// Cluster is a server and agents on this machine.
type Cluster struct {
	Dir     string
	Sampler *Sampler

	t    testing.TB
	bin  Binaries
	opts Options
	addr string   // of the server, as agents and commands reach it
	net  *network // nil: all of it is on one host

	relays map[string]*Relay // by node

	server     *process
	serverAway atomic.Bool // the test has killed it

	mu       sync.Mutex // guards what follows
	agents   map[string]*Agent
	jobs     map[string]Job       // by name, as run last
	removed  map[string]time.Time // jobs, since the acknowledgement
	closed   map[string][]span    // when nodes were drained or paused, by name
	serverUp time.Time            // when the server was seen ready last
	files    int

	first Usage // of the server, once all nodes were ready at first
}

// Start starts a server and its agents, and a sampler beside them, and returns once all nodes are ready. They end with the test.
func Start(t testing.TB, bin Binaries, opts Options) *Cluster {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "spbench")
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{
		Dir: dir, t: t, bin: bin, opts: opts, addr: FreeAddress(t),
		agents: map[string]*Agent{}, jobs: map[string]Job{}, removed: map[string]time.Time{}, closed: map[string][]span{},
		relays: map[string]*Relay{},
	}
	if opts.Network {
		c.net = newNetwork(t)
		c.addr = c.net.hosts[serverHost].address + ":7480"
		for _, name := range opts.Relayed {
			c.relays[name] = c.net.relayAt(name, c.addr)
		}
	}
	t.Cleanup(c.end)
	c.write(c.path("server.hcl"), c.configText(opts.Config))
	if opts.Clocked != "" {
		c.clocked(c.path("clocked"))
	}
	c.giveTo(opts.User)
	c.StartServer()
	c.write(c.path("token"), strings.TrimSpace(c.Must("token", "create").Stdout))
	for _, n := range opts.Nodes {
		c.launch(n)
	}
	c.awaitReady(slices.Collect(names(opts.Nodes))...)
	c.first = c.Usage()
	c.Sampler = newSampler(c)
	return c
}

// giveTo gives the cluster's directory to another user, if that is not 0.
func (c *Cluster) giveTo(user int) {
	if user == 0 {
		return
	}
	for _, path := range []string{c.Dir, c.path("server.hcl")} {
		if err := os.Chown(path, user, user); err != nil {
			c.t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Dir(c.bin.Setpoint), 0o755); err != nil {
		c.t.Fatal(err)
	}
}

// configText is the server's configuration, with more of it.
func (c *Cluster) configText(more string) string {
	return fmt.Sprintf(`data_dir = %q
listen {
  api = %q
}
log {
  level = "debug"
}
heartbeat {
  interval = "1s"
  grace    = "3s"
}
%s
`, c.path("server"), c.addr, more)
}

func names(nodes []Node) func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, n := range nodes {
			if !yield(n.Name) {
				return
			}
		}
	}
}

// FreeAddress returns an address of this machine that nobody listens at.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Relay returns what stands between a node's agent and the server.
func (c *Cluster) Relay(node string) *Relay { return c.relays[node] }

// Address is where agents reach the server.
func (c *Cluster) Address() string { return c.addr }

func (c *Cluster) path(name string) string { return filepath.Join(c.Dir, name) }

func (c *Cluster) write(path, text string) {
	c.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// env is the environment of everything that is started; nothing of the test's own gets in.
func (c *Cluster) env(more ...string) []string {
	return append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + c.Dir}, more...)
}

// StartServer starts the server and returns once it is ready.
func (c *Cluster) StartServer() {
	c.t.Helper()
	c.LaunchServer()
	c.AwaitServer()
}

// LaunchServer starts the server and does not wait for it.
func (c *Cluster) LaunchServer() {
	c.t.Helper()
	program := c.bin.Setpoint
	if c.opts.Clocked != "" {
		program = c.path("clocked/setpoint")
	}
	command := append(c.asUser(), program, "server", "--config", c.path("server.hcl"))
	for _, limit := range c.opts.Limits {
		command = append([]string{"/bin/sh", "-c", "ulimit " + limit + `; exec "$@"`, "sh"}, command...)
	}
	if c.opts.Unmasked {
		command = append([]string{"/bin/sh", "-c", `umask 0; exec "$@"`, "sh"}, command...)
	}
	command = c.net.at(serverHost, command...)
	p, err := start("server", c.path("server.log"), c.env(), command[0], command[1:]...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.server = p
}

// AwaitServer returns once the server is ready.
func (c *Cluster) AwaitServer() {
	c.t.Helper()
	c.MustWithin(40*time.Second, "status", "--wait", "20s")
	c.mu.Lock()
	c.serverUp = time.Now()
	c.mu.Unlock()
	c.serverAway.Store(false)
}

// KillServer ends the server as kill -9 does.
func (c *Cluster) KillServer() {
	c.serverAway.Store(true)
	c.server.kill()
}

// ServerPID is the server's process id.
func (c *Cluster) ServerPID() int { return c.server.pid() }

// end stops everything, says what was seen in logs if the test failed, and removes the directory.
func (c *Cluster) end() {
	if c.Sampler != nil {
		c.Sampler.stop()
		if c.Sampler.Samples() == 0 && time.Since(c.Sampler.began) > max(Soon, c.opts.SampleEvery) && !c.t.Failed() {
			c.t.Error("nothing was sampled")
		}
		if len(c.Lives("")) > 0 && len(c.Attempts()) == 0 {
			c.t.Error("tasks ran, and no agent's log says that it started one")
		}
		c.checkUsage()
	}
	if c.server != nil {
		_ = c.server.signal(syscall.SIGTERM)
		if !c.server.ended(10 * time.Second) {
			c.t.Errorf("the server has not ended 10 s after SIGTERM")
			c.server.kill()
		}
	}
	c.endPlugins()
	for _, name := range slices.Sorted(maps.Keys(c.agents)) {
		a := c.agents[name]
		a.process.kill()
		a.killTasks()
	}
	c.checkLogs()
	if c.t.Failed() {
		for _, path := range c.logs() {
			c.t.Logf("---- last lines of %s\n%s", filepath.Base(path), tail(path, 100))
		}
		if c.opts.Keep {
			c.t.Logf("everything is left in %s", c.Dir)
			return
		}
	}
	if err := os.RemoveAll(c.Dir); err != nil {
		c.t.Errorf("clean up: %v", err)
	}
}

// endPlugins kills what a server left of its plugins, which should be nothing.
func (c *Cluster) endPlugins() {
	for _, p := range c.PluginProcesses() {
		c.t.Errorf("the server has ended and left %s of a plugin with pid %d", p.Name, p.PID)
		if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
			c.t.Errorf("kill it: %v", err)
		}
	}
}

func (c *Cluster) logs() []string {
	logs, err := filepath.Glob(c.path("*.log"))
	if err != nil {
		c.t.Error(err)
	}
	return logs
}
