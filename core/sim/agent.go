package sim

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Agent plays a node's agent and its processes. Its record of processes is the truth.
type Agent struct {
	Node cluster.NodeID
	Name string

	Silent     bool          // traffic is cut; processes go on
	Off        bool          // no power: processes die, and the agent forgets nothing that it had on disk
	Lag        time.Duration // how long what it says and what it is told is on its way
	StartDelay time.Duration
	StopDelay  time.Duration
	HealthyIn  time.Duration                                                  // how long processes with a health check take to pass it
	Exit       func(t cluster.TaskID, up time.Duration) (code int, ends bool) // nil: processes do as their job's environment says
	Reject     func(t cluster.TaskID) string

	desc    cluster.NodeDescription
	session uint64
	procs   map[cluster.TaskID]*Proc
	sorted  []*Proc // procs in the order of their tasks; nil: to be made
	beat    time.Duration
	heard   time.Duration // when something of it last came through
	strays  int           // that the server was last told of
	spoke   bool          // it has reported all since the server started
	dirty   map[cluster.TaskID]bool
	up      []message // on their way to the server
	down    []message // on their way from it
	Starts  int
	Log     []string
}

// message is on its way between an agent and the server.
type message struct {
	at      time.Duration
	input   engine.Input // to the server
	tasks   []assignment // from it: the full set
	dismiss bool         // from it: the node was decommissioned or removed
}

// assignment is what an agent is told of one task.
type assignment struct {
	task    cluster.TaskID
	wanted  bool
	grace   time.Duration
	start   bool
	checked bool // it has a health check
	env     map[string]string
	reserve cluster.Resources
}

// Proc is a process as its agent knows it.
type Proc struct {
	Task     cluster.TaskID
	State    cluster.ObservedState
	Since    time.Duration
	Started  time.Duration
	Err      string
	Code     int
	Stray    bool // it runs without a record of its agent
	Sick     bool // its health check fails
	stopping bool
	killAt   time.Duration
	healthy  bool
	checked  bool
	env      map[string]string
	reserve  cluster.Resources
}

// Alive reports whether the process exists.
func (p *Proc) Alive() bool { return p.State >= cluster.Starting && !p.State.Terminal() }

// NewAgent returns a machine that has not joined.
func NewAgent(name string, capacity cluster.Resources) *Agent {
	return &Agent{
		Node: cluster.NodeID("id-" + name), Name: name, StartDelay: 200 * time.Millisecond, StopDelay: 200 * time.Millisecond,
		desc:  cluster.NodeDescription{Hostname: name, OS: "linux", Arch: "amd64", Capacity: capacity},
		procs: map[cluster.TaskID]*Proc{}, dirty: map[cluster.TaskID]bool{},
	}
}

// AddNode lets a machine join.
func (w *World) AddNode(name string, labels map[string]string, capacity cluster.Resources) *Agent {
	a := NewAgent(name, capacity)
	w.MustDo(engine.JoinNode{ID: a.Node, Name: name, Labels: labels, Description: a.desc})
	w.Agents = append(w.Agents, a)
	return a
}

// Agent returns an agent by its node's name.
func (w *World) Agent(name string) *Agent {
	return w.Agents[slices.IndexFunc(w.Agents, func(a *Agent) bool { return a.Name == name })]
}

// Procs returns the agent's processes in the order of their tasks.
func (a *Agent) Procs() []*Proc {
	if a.sorted == nil && len(a.procs) > 0 {
		for _, id := range slices.Sorted(maps.Keys(a.procs)) {
			a.sorted = append(a.sorted, a.procs[id])
		}
	}
	return a.sorted
}

func (a *Agent) put(p *Proc) { a.procs[p.Task], a.sorted = p, nil }

func (a *Agent) drop(id cluster.TaskID) {
	delete(a.procs, id)
	a.sorted = nil
}

// PowerOff ends every process at once and the agent with them.
func (a *Agent) PowerOff(w *World) {
	a.Off = true
	a.HangUp()
	for _, p := range a.Procs() {
		if !p.State.Terminal() {
			p.State, p.Err, p.Since = cluster.Failed, "the machine lost power", w.real
		}
	}
}

// Forget loses the agent's records, as a new disk would. What runs goes on as strays, which the agent finds by their mark and stops.
func (a *Agent) Forget(w *World) {
	a.HangUp()
	for _, p := range slices.Clone(a.Procs()) {
		if !p.Alive() {
			a.drop(p.Task)
			continue
		}
		p.Stray = true
		a.stop(w, p, a.StopDelay)
	}
}

// Kill ends one process from outside.
func (a *Agent) Kill(w *World, id cluster.TaskID, code int) {
	p := a.procs[id]
	p.State, p.Code, p.Since, p.Err = cluster.Failed, code, w.real, fmt.Sprintf("exit code %d", code)
	a.dirty[id] = true
}

// HangUp ends the session. What was on its way is lost.
func (a *Agent) HangUp() { a.session, a.up, a.down = 0, nil, nil }

// act lets the agent's processes advance and the agent speak.
func (a *Agent) act(w *World) {
	if a.Off {
		return
	}
	if !a.Silent && w.away == 0 {
		a.hear(w)
	}
	for _, p := range a.Procs() {
		a.advance(w, p)
	}
	if a.Silent || w.away > 0 {
		return
	}
	if a.session == 0 {
		a.connect(w)
	}
	if len(a.dirty) > 0 {
		a.report(w, slices.Sorted(maps.Keys(a.dirty)), false)
	}
	if w.real-a.beat >= w.cfg.Heartbeat/2 {
		a.beat = w.real
		a.say(w, engine.AgentsHeard{Nodes: []cluster.NodeID{a.Node}})
	}
	for len(a.up) > 0 && a.up[0].at <= w.real {
		if r, ok := a.up[0].input.(engine.AgentReports); ok {
			a.strays, a.spoke = len(r.Strays), a.spoke || r.Full
		}
		w.send(a.up[0].input)
		a.heard = w.real
		a.up = a.up[1:]
	}
}

// hear takes what has arrived from the server.
func (a *Agent) hear(w *World) {
	for len(a.down) > 0 && a.down[0].at <= w.real {
		m := a.down[0]
		a.down = a.down[1:]
		if m.dismiss {
			for _, p := range a.Procs() {
				a.stop(w, p, 0)
			}
			continue
		}
		a.assign(w, m.tasks)
	}
}

func (a *Agent) say(w *World, in engine.Input) {
	a.up = append(a.up, message{at: w.real + a.Lag, input: in})
}

func (a *Agent) connect(w *World) {
	w.session++
	a.session, a.beat = w.session, w.real
	a.say(w, engine.AgentUp{Node: a.Node, Session: a.session, Description: a.desc})
	a.report(w, slices.Sorted(maps.Keys(a.procs)), true)
	a.tell(w, w.State())
}

// tell sends the agent what the server's newest state says about its node.
func (a *Agent) tell(w *World, st *engine.State) {
	if a.session == 0 || a.Off {
		return
	}
	m := message{at: w.real + a.Lag}
	n := st.Node(a.Node)
	if n == nil || n.Spec.Decommissioned {
		m.dismiss = true
		a.down = append(a.down, m)
		return
	}
	for t := range st.TasksOn(a.Node) {
		if t.Dead() {
			continue
		}
		x := assignment{task: t.ID, wanted: t.Desired.State.Wanted(), grace: t.Desired.Grace, reserve: t.Reserve.Resources}
		if j := st.Job(t.Job); j != nil && j.CreatedRev <= t.CreatedRev && t.Observed.State == cluster.ObservedNone && x.wanted && n.Usable() {
			if v := j.VersionOf(t.JobVersion); v != nil {
				x.start, x.env, x.checked = true, v.Spec.Task.Env, v.Spec.Task.Health != nil
			}
		}
		m.tasks = append(m.tasks, x)
	}
	a.down = append(a.down, m)
}

func (a *Agent) report(w *World, ids []cluster.TaskID, full bool) {
	r := engine.AgentReports{Node: a.Node, Session: a.session, Full: full, Last: full, Received: w.received()}
	for _, p := range a.Procs() {
		if p.Stray && p.Alive() {
			r.Strays = append(r.Strays, p.Task)
		}
	}
	for _, id := range ids {
		if p := a.procs[id]; p != nil && !p.Stray {
			r.Tasks = append(r.Tasks, engine.TaskReport{Task: id, State: p.State, Err: p.Err, ExitCode: p.Code, Healthy: p.State == cluster.Running && p.healthy})
		}
	}
	clear(a.dirty)
	a.say(w, r)
}

// assign takes the full set of tasks that the node should run.
func (a *Agent) assign(w *World, tasks []assignment) {
	named := map[cluster.TaskID]bool{}
	for _, t := range tasks {
		named[t.task] = true
		a.take(w, t)
	}
	for _, p := range slices.Clone(a.Procs()) {
		switch {
		case named[p.Task]:
		case p.State.Terminal():
			a.drop(p.Task)
		default:
			a.stop(w, p, a.StopDelay)
		}
	}
}

func (a *Agent) take(w *World, t assignment) {
	p := a.procs[t.task]
	if p != nil && p.Stray && p.State.Terminal() {
		a.drop(t.task)
		p = nil // there is no record of it
	}
	switch {
	case p != nil && p.Stray:
	case p == nil && !t.wanted:
		a.put(&Proc{Task: t.task, State: cluster.Stopped, Since: w.real})
		a.dirty[t.task] = true
	case p == nil && t.start:
		a.put(&Proc{Task: t.task, State: cluster.Accepted, Since: w.real, reserve: t.reserve, env: t.env, checked: t.checked})
		a.dirty[t.task] = true
	case p == nil:
	case !t.wanted:
		delay := a.StopDelay
		if t.grace >= 0 {
			delay = min(delay, t.grace)
		}
		a.stop(w, p, delay)
	}
}

func (a *Agent) stop(w *World, p *Proc, delay time.Duration) {
	at := w.real + delay
	if p.State.Terminal() || p.stopping && p.killAt <= at {
		return
	}
	p.stopping, p.killAt = true, at
}

// sickFor is how long a process may be unhealthy before its agent ends it.
const sickFor = 3 * time.Second

// advance lets a process go its way.
func (a *Agent) advance(w *World, p *Proc) {
	was, healthy := p.State, p.healthy
	switch {
	case p.State.Terminal():
	case p.stopping && (w.real >= p.killAt || p.State < cluster.Starting):
		p.State = cluster.Stopped
	case p.stopping:
	case p.State == cluster.Accepted:
		a.begin(w, p)
	case p.State == cluster.Starting && w.real-p.Since >= a.StartDelay:
		p.State = cluster.Running
		p.healthy = !p.checked
	case p.State == cluster.Running:
		a.running(w, p)
	}
	if p.State != was || p.healthy != healthy {
		p.Since = w.real
		a.dirty[p.Task] = true
		a.Log = append(a.Log, fmt.Sprintf("%s %s %s", w.real, p.Task, p.State))
		w.tracef("%s: %s %s -> %s healthy %v", a.Name, p.Task, was, p.State, p.healthy)
	}
}

// running lets a process that runs end by itself, or pass or fail its health check.
func (a *Agent) running(w *World, p *Proc) {
	exit := a.Exit
	if exit == nil {
		exit = w.exit(p)
	}
	code, ends := exit(p.Task, w.real-p.Since)
	switch {
	case ends && code == 0:
		p.State = cluster.Complete
	case ends:
		p.State, p.Code, p.Err = cluster.Failed, code, fmt.Sprintf("exit code %d", code)
	case p.checked && p.healthy && p.Sick:
		p.healthy = false
	case p.checked && !p.healthy && !p.Sick && w.real-p.Since >= a.HealthyIn:
		p.healthy = true
	case p.checked && !p.healthy && p.Sick && w.real-p.Since >= sickFor:
		p.State, p.Err = cluster.Failed, "unhealthy"
	}
}

// exit is how a process ends by itself, as its job's environment says: RUN is for how long it runs, EXIT its exit code. In a calm world nothing fails.
func (w *World) exit(p *Proc) func(cluster.TaskID, time.Duration) (int, bool) {
	return func(_ cluster.TaskID, up time.Duration) (int, bool) {
		d, err := time.ParseDuration(p.env["RUN"])
		code, _ := strconv.Atoi(p.env["EXIT"])
		if err != nil || w.calm && p.env["JOB"] != "ends" {
			return 0, false
		}
		if w.calm {
			code = 0
		}
		return code, up >= d
	}
}

func (a *Agent) begin(w *World, p *Proc) {
	if a.Reject != nil {
		if why := a.Reject(p.Task); why != "" {
			p.State, p.Err = cluster.Rejected, why
			return
		}
	}
	p.State, p.Started = cluster.Starting, w.real
	a.Starts++
	w.started(a, p)
}
