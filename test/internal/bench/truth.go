package bench

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/setpointd/setpoint/agent/driver/sim"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Life is one task of the sim driver as it truly was.
type Life struct {
	Task, Job, Slot string
	Node            string
	Started         time.Time
	StartDelay      time.Duration // it was told to start so long before
	StopDelay       time.Duration // it ends so long after it was asked to, if its grace is not over before
	StopAsked       time.Time     // zero: never
	StopGrace       time.Duration
	Ended           time.Time // zero: never; may lie ahead
	Signal          string    // that ended it
	Code            int
}

// AliveAt reports whether the task ran at that moment.
func (l Life) AliveAt(t time.Time) bool {
	return !l.Started.After(t) && (l.Ended.IsZero() || l.Ended.After(t))
}

// Lives returns every task of the sim driver that ever ran, in the order of their starts; of one job unless that is empty.
func (c *Cluster) Lives(job string) []Life {
	c.t.Helper()
	var out []Life
	for _, a := range c.allAgents() {
		lives, err := a.lives()
		if err != nil {
			c.t.Errorf("read what happened on %s: %v", a.Node.Name, err)
		}
		out = append(out, lives...)
	}
	if job != "" {
		out = slices.DeleteFunc(out, func(l Life) bool { return l.Job != job })
	}
	slices.SortStableFunc(out, func(a, b Life) int { return a.Started.Compare(b.Started) })
	return out
}

// Rejections returns when nodes refused to start tasks of a job, in order.
func (c *Cluster) Rejections(job string) []time.Time {
	c.t.Helper()
	var out []time.Time
	for _, a := range c.allAgents() {
		events, err := a.events()
		if err != nil {
			c.t.Errorf("read what happened on %s: %v", a.Node.Name, err)
		}
		for _, e := range events {
			if e.Kind == sim.Rejected && strings.HasPrefix(e.TaskID, job+"/") {
				out = append(out, e.Time)
			}
		}
	}
	slices.SortFunc(out, time.Time.Compare)
	return out
}

// StateSize returns how large the server's state is.
func (c *Cluster) StateSize() int64 {
	c.t.Helper()
	info, err := os.Stat(c.path("server/state.db"))
	if err != nil {
		c.t.Fatal(err)
	}
	return info.Size()
}

// Alive returns the tasks of the sim driver that run now.
func (c *Cluster) Alive(job string) []Life {
	c.t.Helper()
	now := time.Now()
	return slices.DeleteFunc(c.Lives(job), func(l Life) bool { return !l.AliveAt(now) })
}

// FewestAlive returns how many of the tasks ran at the least in a time.
func FewestAlive(lives []Life, from, to time.Time) int {
	fewest := len(lives)
	for _, at := range append(ends(lives, from, to), from, to) {
		alive := 0
		for _, l := range lives {
			if l.AliveAt(at) {
				alive++
			}
		}
		fewest = min(fewest, alive)
	}
	return fewest
}

func ends(lives []Life, from, to time.Time) []time.Time {
	var out []time.Time
	for _, l := range lives {
		if l.Ended.After(from) && l.Ended.Before(to) {
			out = append(out, l.Ended)
		}
	}
	return out
}

func (a *Agent) lives() ([]Life, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []Life
	for _, x := range a.archives {
		for _, l := range livesOf(x.events, a.Node.Name) {
			if l.Ended.IsZero() || l.Ended.After(x.off) {
				l.Ended, l.Signal, l.Code = x.off, "KILL", 137
			}
			out = append(out, l)
		}
	}
	events, err := a.events()
	return append(out, livesOf(events, a.Node.Name)...), err
}

// livesOf reads lives from events. An end is written only when somebody asks for it, so it is computed from the script as the driver does.
func livesOf(events []sim.Event, node string) []Life {
	var out []Life
	index := make(map[string]int)
	for _, e := range events {
		if e.Kind == sim.Started {
			l := Life{Task: e.TaskID, Node: node, Started: e.Time, StartDelay: setting(e, "start_delay"), StopDelay: setting(e, "stop_delay")}
			if job, slot, _, err := cluster.TaskID(e.TaskID).Parts(); err == nil {
				l.Job, l.Slot = job, string(slot)
			}
			if long := setting(e, "run_for"); long > 0 {
				l.Ended = e.Time.Add(long)
			}
			index[e.TaskID] = len(out)
			out = append(out, l)
			continue
		}
		i, known := index[e.TaskID]
		if !known {
			continue
		}
		switch l := &out[i]; e.Kind {
		case sim.StopAsked:
			if l.StopAsked.IsZero() {
				l.StopAsked, l.StopGrace = e.Time, e.Grace
			}
			if end := e.Time.Add(min(e.Grace, l.StopDelay)); l.Ended.IsZero() || end.Before(l.Ended) {
				l.Ended = end
			}
		case sim.Ended:
			l.Ended, l.Signal, l.Code = e.Exit.Finished, e.Exit.Signal, e.Exit.Code
		}
	}
	return out
}

func setting(e sim.Event, name string) time.Duration {
	if e.Spec == nil {
		return 0
	}
	d, err := time.ParseDuration(e.Spec.Settings[name])
	if err != nil {
		return 0
	}
	return d
}

// Process is a living process of a task of the process driver.
type Process struct {
	PID   int
	Start uint64 // in clock ticks since the machine's start: with the pid, who it is
	Task  string
	Node  string
	Shim  bool

	dir string // of its agent
}

// Processes returns the living processes of tasks, without shims.
func (c *Cluster) Processes() []Process {
	nodes := make(map[string]string)
	for _, a := range c.allAgents() {
		nodes[a.dir] = a.Node.Name
	}
	var out []Process
	for _, p := range marked(c.Dir) {
		if node, known := nodes[p.dir]; known && !p.Shim {
			p.Node = node
			out = append(out, p)
		}
	}
	return out
}

// The variables in the environment of a task's processes and of its shim.
const (
	taskMark = "SETPOINT_TASK_DIR="
	shimMark = "SETPOINT_SHIM_DIR="
	taskID   = "SETPOINT_TASK_ID="
)

// marked returns the living processes that carry the mark of a task under a directory of a cluster.
func marked(cluster string) []Process {
	entries, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil
	}
	var out []Process
	for _, path := range entries {
		environ, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(environ), cluster+"/") {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		p := Process{PID: pid}
		for _, variable := range strings.Split(string(environ), "\x00") {
			key, value, _ := strings.Cut(variable, "=")
			switch key + "=" {
			case taskMark:
				p.dir = agentDir(cluster, value)
			case shimMark:
				p.dir, p.Shim = agentDir(cluster, value), true
			case taskID:
				p.Task = value
			}
		}
		p.Shim = p.Shim || p.Task == "" // what is about to become the task, and does not run its program yet
		if stat, alive := ReadStat(pid); p.dir != "" && alive {
			p.Start = stat.Start
			out = append(out, p)
		}
	}
	return out
}

// agentDir returns the directory of the agent in whose directory path lies, or "" if that is none of the cluster's.
func agentDir(cluster, path string) string {
	rest, within := strings.CutPrefix(path, cluster+"/")
	if !within {
		return ""
	}
	first, _, _ := strings.Cut(rest, "/")
	return filepath.Join(cluster, first)
}

// Stat is what the kernel says of a process.
type Stat struct {
	State  byte // Z: ended and not reaped
	Parent int
	Group  int
	Start  uint64
}

// ReadStat returns what the kernel says of a process, and whether it lives.
func ReadStat(pid int) (s Stat, alive bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return s, false
	}
	_, rest, found := strings.Cut(string(data[strings.LastIndexByte(string(data), ')')+1:]), " ")
	fields := strings.Fields(rest)
	if !found || len(fields) < 20 {
		return s, false
	}
	s.State = fields[0][0]
	s.Parent, _ = strconv.Atoi(fields[1])
	s.Group, _ = strconv.Atoi(fields[2])
	s.Start, _ = strconv.ParseUint(fields[19], 10, 64)
	return s, s.State != 'Z' && s.State != 'X'
}
