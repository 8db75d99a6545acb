package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Agent plays a node's agent and its processes. Its record of processes is the truth.
type Agent struct {
	Node cluster.NodeID
	Name string

	Silent     bool // traffic is cut; processes go on
	Off        bool // no power: processes die, and the agent forgets nothing that it had on disk
	StartDelay time.Duration
	StopDelay  time.Duration
	Exit       func(t cluster.TaskID, up time.Duration) (code int, ends bool) // nil: processes run until told
	Reject     func(t cluster.TaskID) string

	desc    cluster.NodeDescription
	session uint64
	procs   map[cluster.TaskID]*Proc
	beat    cluster.Time
	dirty   map[cluster.TaskID]bool
	missed  bool // assignments were sent while it was silent; they arrive once it is not
	Starts  int
	Log     []string
}

// Proc is a process as its agent knows it.
type Proc struct {
	Task     cluster.TaskID
	State    cluster.ObservedState
	Since    cluster.Time
	Started  cluster.Time
	Err      string
	Code     int
	stopping bool
	killAt   time.Duration
	reserve  cluster.Resources
}

// Alive reports whether the process exists.
func (p *Proc) Alive() bool { return p.State >= cluster.Starting && !p.State.Terminal() }

// AddNode lets a machine join.
func (w *World) AddNode(name string, labels map[string]string, capacity cluster.Resources) *Agent {
	a := &Agent{
		Node: cluster.NodeID("id-" + name), Name: name, StartDelay: 200 * time.Millisecond, StopDelay: 200 * time.Millisecond,
		desc:  cluster.NodeDescription{Hostname: name, OS: "linux", Arch: "amd64", Capacity: capacity},
		procs: map[cluster.TaskID]*Proc{}, dirty: map[cluster.TaskID]bool{},
	}
	w.Agents = append(w.Agents, a)
	w.MustDo(engine.JoinNode{ID: a.Node, Name: name, Labels: labels, Description: a.desc})
	return a
}

// Agent returns an agent by its node's name.
func (w *World) Agent(name string) *Agent {
	return w.Agents[slices.IndexFunc(w.Agents, func(a *Agent) bool { return a.Name == name })]
}

// Procs returns the agent's processes in the order of their tasks.
func (a *Agent) Procs() []*Proc {
	var out []*Proc
	for _, id := range slices.Sorted(maps.Keys(a.procs)) {
		out = append(out, a.procs[id])
	}
	return out
}

// PowerOff ends every process at once and the agent with them.
func (a *Agent) PowerOff(w *World) {
	a.Off, a.session = true, 0
	for _, p := range a.Procs() {
		if !p.State.Terminal() {
			p.State, p.Err, p.Since = cluster.Failed, "the machine lost power", w.now
		}
	}
}

// Forget loses the agent's records, as a new disk would.
func (a *Agent) Forget() { a.procs, a.session = map[cluster.TaskID]*Proc{}, 0 }

// Kill ends one process from outside.
func (a *Agent) Kill(w *World, id cluster.TaskID, code int) {
	p := a.procs[id]
	p.State, p.Code, p.Since, p.Err = cluster.Failed, code, w.now, fmt.Sprintf("exit code %d", code)
	a.dirty[id] = true
}

// act lets the agent's processes advance and the agent speak.
func (a *Agent) act(w *World) {
	if a.Off {
		return
	}
	for _, p := range a.Procs() {
		a.advance(w, p)
	}
	if a.Silent {
		return
	}
	if a.session == 0 {
		a.connect(w)
		return
	}
	if a.missed {
		a.missed = false
		a.assign(w, w.State(), true)
	}
	if len(a.dirty) > 0 {
		a.report(w, slices.Sorted(maps.Keys(a.dirty)), false)
	}
	if w.now.Sub(a.beat) >= w.cfg.Heartbeat/2 {
		a.beat = w.now
		w.send(engine.AgentsHeard{Nodes: []cluster.NodeID{a.Node}})
	}
}

func (a *Agent) connect(w *World) {
	w.session++
	a.session, a.beat = w.session, w.now
	w.send(engine.AgentUp{Node: a.Node, Session: a.session, Description: a.desc})
	a.report(w, slices.Sorted(maps.Keys(a.procs)), true)
	st := w.State()
	if n := st.Node(a.Node); n != nil {
		a.assign(w, st, true)
	}
}

func (a *Agent) report(w *World, ids []cluster.TaskID, full bool) {
	r := engine.AgentReports{Node: a.Node, Session: a.session, Full: full, Last: full}
	for _, id := range ids {
		if p := a.procs[id]; p != nil {
			r.Tasks = append(r.Tasks, engine.TaskReport{Task: id, State: p.State, Err: p.Err, ExitCode: p.Code, Healthy: p.State == cluster.Running})
		}
	}
	clear(a.dirty)
	w.send(r)
}

// committed brings the agent what a turn changed of its assignments.
func (a *Agent) committed(w *World, t engine.Turn) {
	switch {
	case a.session == 0 || a.Off:
	case a.Silent:
		a.missed = true
	default:
		a.assign(w, t.State, true)
	}
}

// assign applies the assignments that the server would send.
func (a *Agent) assign(w *World, st *engine.State, full bool) {
	n := st.Node(a.Node)
	if n == nil || n.Spec.Decommissioned {
		for _, p := range a.Procs() {
			a.stop(w, p, 0)
		}
		return
	}
	named := map[cluster.TaskID]bool{}
	for t := range st.TasksOn(a.Node) {
		named[t.ID] = true
		a.take(w, n, t)
	}
	for _, p := range a.Procs() {
		switch {
		case !full || named[p.Task]:
		case p.State.Terminal():
			delete(a.procs, p.Task)
		default:
			a.stop(w, p, a.StopDelay)
		}
	}
}

func (a *Agent) take(w *World, n *cluster.Node, t *cluster.Task) {
	p := a.procs[t.ID]
	switch {
	case t.Observed.State.Terminal():
	case p == nil && !t.Desired.State.Wanted():
		a.procs[t.ID] = &Proc{Task: t.ID, State: cluster.Stopped, Since: w.now}
		a.dirty[t.ID] = true
	case p == nil && t.Observed.State == cluster.ObservedNone && n.Usable():
		a.procs[t.ID] = &Proc{Task: t.ID, State: cluster.Accepted, Since: w.now, reserve: t.Reserve.Resources}
		a.dirty[t.ID] = true
	case p == nil:
	case !t.Desired.State.Wanted():
		delay := a.StopDelay
		if t.Desired.Grace >= 0 {
			delay = min(delay, t.Desired.Grace)
		}
		a.stop(w, p, delay)
	}
}

func (a *Agent) stop(w *World, p *Proc, delay time.Duration) {
	at := w.now.Engine + delay
	if p.State.Terminal() || p.stopping && p.killAt <= at {
		return
	}
	p.stopping, p.killAt = true, at
}

// advance lets a process go its way.
func (a *Agent) advance(w *World, p *Proc) {
	was := p.State
	switch {
	case p.State.Terminal():
	case p.stopping && (w.now.Engine >= p.killAt || p.State < cluster.Starting):
		p.State = cluster.Stopped
	case p.stopping:
	case p.State == cluster.Accepted:
		a.begin(w, p)
	case p.State == cluster.Starting && w.now.Sub(p.Since) >= a.StartDelay:
		p.State = cluster.Running
	case p.State == cluster.Running && a.Exit != nil:
		if code, ends := a.Exit(p.Task, w.now.Sub(p.Since)); ends {
			p.State, p.Code = cluster.Complete, code
			if code != 0 {
				p.State, p.Err = cluster.Failed, fmt.Sprintf("exit code %d", code)
			}
		}
	}
	if p.State != was {
		p.Since = w.now
		a.dirty[p.Task] = true
		a.Log = append(a.Log, fmt.Sprintf("%s %s %s", w.now.Engine, p.Task, p.State))
		w.tracef("%s: %s %s -> %s", a.Name, p.Task, was, p.State)
	}
}

func (a *Agent) begin(w *World, p *Proc) {
	if a.Reject != nil {
		if why := a.Reject(p.Task); why != "" {
			p.State, p.Err = cluster.Rejected, why
			return
		}
	}
	p.State, p.Started = cluster.Starting, w.now
	a.Starts++
	w.started(a, p)
}
