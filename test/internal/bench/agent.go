package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/setpointd/setpoint/agent/driver/sim"
)

// Agent is one node: its agent's process, and what it left on the machine.
type Agent struct {
	Node Node

	c       *Cluster
	dir     string
	config  string
	log     string
	clock   string // the directory of a program with a clock of its own; empty: the machine's
	process *process
	program string // that it was upgraded to; empty: what the cluster runs

	mu       sync.Mutex // guards what follows
	cuts     []span     // times in which the node is silent or off
	archives []archive
	driver   tailer // of the sim driver's log
	said     []sim.Event
	lines    tailer // of the agent's log
	starts   []Attempt
	begun    map[string]bool // tasks of starts
}

// An archive is what the sim driver wrote until the node's power went off.
type archive struct {
	events []sim.Event
	off    time.Time
}

// Join starts an agent, with a directory of its own, and returns once its node is ready.
func (c *Cluster) Join(n Node) *Agent {
	c.t.Helper()
	a := c.launch(n)
	c.awaitReady(n.Name)
	return a
}

// JoinLate starts an agent whose machine's clock is so much behind, or ahead if that is less than 0. It does not wait for its node. ShiftClock shifts the clock
// later.
func (c *Cluster) JoinLate(n Node, behind time.Duration) *Agent {
	c.t.Helper()
	a := c.prepare(n)
	a.clock = a.dir + "-clocked"
	c.clocked(a.clock)
	c.shift(a.clock, -behind)
	return a.begin()
}

// Log returns what the agent has logged.
func (a *Agent) Log() string {
	a.c.t.Helper()
	data, err := os.ReadFile(a.log)
	if err != nil {
		a.c.t.Fatal(err)
	}
	return string(data)
}

// launch starts an agent.
func (c *Cluster) launch(n Node) *Agent {
	c.t.Helper()
	return c.prepare(n).begin()
}

// prepare makes an agent that is not started.
func (c *Cluster) prepare(n Node) *Agent {
	c.t.Helper()
	c.mu.Lock()
	c.files++
	dir := c.path(fmt.Sprintf("a%d-%s", c.files, n.Name))
	c.mu.Unlock()
	a := &Agent{Node: n, c: c, dir: dir, config: dir + ".hcl", log: dir + ".log", lines: tailer{path: dir + ".log"}, begun: map[string]bool{}}
	a.configure()
	c.openNode(n.Name) // the one that was closed under this name was another
	return a
}

// begin starts an agent for the first time.
func (a *Agent) begin() *Agent {
	a.c.t.Helper()
	a.start()
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	a.c.agents[filepath.Base(a.dir)] = a
	return a
}

// configure writes the agent's configuration.
func (a *Agent) configure() {
	a.c.t.Helper()
	c, n := a.c, a.Node
	server := c.addr
	if r := c.relays[n.Name]; r != nil {
		server = r.address
	}
	var labels strings.Builder
	for _, key := range slices.Sorted(maps.Keys(n.Labels)) {
		fmt.Fprintf(&labels, "    %s = %q\n", key, n.Labels[key])
	}
	c.write(a.config, fmt.Sprintf(`log {
  level = "debug"
}
agent {
  server     = %q
  token_file = %q
  name       = %q
  data_dir   = %q
  drivers    = ["process", "sim"]
  labels = {
%s  }
  capacity {
    cpu    = %g
    memory = %d
    units  = {%s}
  }
}
`, server, c.path("token"), n.Name, a.dir, labels.String(), n.Capacity.CPU, n.Capacity.Memory, units(n.Capacity.Units)))
}

// Resize starts the agent again on a machine that has so much to give. What runs there runs on.
func (a *Agent) Resize(capacity Resources) {
	a.c.t.Helper()
	a.Kill()
	a.Node.Capacity = capacity
	a.configure()
	a.Restart()
}

func (a *Agent) start() {
	a.c.t.Helper()
	program := a.c.bin.Setpoint
	if a.program != "" {
		program = a.program
	}
	if a.clock != "" {
		program = filepath.Join(a.clock, "setpoint")
	}
	command := a.c.net.at(a.Node.Name, program, "agent", "--config", a.config)
	p, err := start("agent of "+a.Node.Name, a.log, a.c.env(), command[0], command[1:]...)
	if err != nil {
		a.c.t.Fatal(err)
	}
	a.process = p
}

// Agent returns the agent that was started last under a name.
func (c *Cluster) Agent(name string) *Agent {
	c.t.Helper()
	all := c.allAgents()
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Node.Name == name {
			return all[i]
		}
	}
	c.t.Fatalf("no agent was started for %s", name)
	return nil
}

// allAgents returns the agents in the order of their start.
func (c *Cluster) allAgents() []*Agent {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Values(c.agents), func(a, b *Agent) int {
		return strings.Compare(fmt.Sprintf("%20s", filepath.Base(a.dir)), fmt.Sprintf("%20s", filepath.Base(b.dir)))
	})
}

// Silence stops the agent's traffic; what runs on the node goes on. Where nodes have cables, the node's is cut, and the agent itself goes on as well.
func (a *Agent) Silence() {
	a.c.t.Helper()
	if a.c.net != nil {
		a.Cut()
		return
	}
	a.beginCut()
	a.signal(syscall.SIGSTOP)
}

// Resume ends the silence.
func (a *Agent) Resume() {
	a.c.t.Helper()
	if a.c.net != nil {
		a.Mend()
		return
	}
	a.signal(syscall.SIGCONT)
	a.endCut()
}

// Kill ends the agent alone, as kill -9 does.
func (a *Agent) Kill() {
	a.beginCut()
	a.process.kill()
}

// Restart starts an agent that was killed.
func (a *Agent) Restart() {
	a.c.t.Helper()
	a.start()
	a.endCut()
}

// PowerOff ends the agent and everything that runs on its node.
func (a *Agent) PowerOff() {
	a.c.t.Helper()
	a.beginCut()
	a.process.kill()
	a.killTasks()
	a.mu.Lock()
	defer a.mu.Unlock()
	events, err := a.events()
	if err != nil {
		a.c.t.Fatal(err)
	}
	a.archives = append(a.archives, archive{events, time.Now()})
	if file := a.driver.path; file != "" {
		if err := os.Remove(file); err != nil {
			a.c.t.Fatal(err)
		}
	}
	a.driver, a.said = tailer{}, nil
}

// PowerOn starts the agent of a node that was off; nothing else runs there.
func (a *Agent) PowerOn() { a.Restart() }

func (a *Agent) signal(sig syscall.Signal) {
	a.c.t.Helper()
	if err := a.process.signal(sig); err != nil {
		a.c.t.Fatal(err)
	}
}

func (a *Agent) beginCut() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cuts = append(a.cuts, span{from: time.Now()})
}

func (a *Agent) endCut() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cuts[len(a.cuts)-1].to = time.Now()
}

// cutWithin reports whether the node was cut off at some moment of the last so long.
func (a *Agent) cutWithin(long time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.cuts, func(c span) bool { return c.to.IsZero() || time.Since(c.to) < long })
}

// killTasks kills what carries the mark of a task or shim of this agent, until nothing does.
func (a *Agent) killTasks() {
	for range 5 {
		left := 0
		for _, p := range a.marked() {
			left++
			if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				a.c.t.Errorf("kill %d of task %s: %v", p.PID, p.Task, err)
			}
		}
		if left == 0 {
			return
		}
		a.c.Pass(20 * time.Millisecond)
	}
	if left := a.marked(); len(left) > 0 {
		a.c.t.Errorf("node %s: these live on after kill -9: %+v", a.Node.Name, left)
	}
}

// marked returns what lives of the node's tasks, with their shims.
func (a *Agent) marked() []Process {
	return slices.DeleteFunc(marked(a.c.Dir), func(p Process) bool { return p.dir != a.dir })
}

// eventFile returns the sim driver's log, or "" as long as there is none.
func (a *Agent) eventFile() string {
	found := ""
	err := filepath.WalkDir(a.dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == "events.jsonl" {
			found = path
			return fs.SkipAll
		}
		return nil // what comes and goes meanwhile is not looked for
	})
	if err != nil {
		return ""
	}
	return found
}

// events reads on in what the sim driver wrote since the node was switched on, and returns all of it. It is called with the lock held.
func (a *Agent) events() ([]sim.Event, error) {
	if a.driver.path == "" {
		a.driver.path = a.eventFile()
	}
	lines, err := a.driver.more()
	for _, line := range lines {
		var e sim.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return nil, fmt.Errorf("read %s: %w", a.driver.path, err)
		}
		a.said = append(a.said, e)
	}
	return a.said, err
}

// File is the path of a file in the agent's data directory.
func (a *Agent) File(name string) string { return filepath.Join(a.dir, name) }
