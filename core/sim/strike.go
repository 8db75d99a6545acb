package sim

import (
	"slices"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// fates names what strike does.
var fates = [...]string{
	"silence", "silence", "silence", "power", "power", "kill", "sickness", "plugin", "plugin", "plugin", "restart", "death", "hang up", "forget", "repetition", "clock",
	"rack", "slow agent", "relief", "relief", "labels and filters", "labels and filters",
}

// strike does what fate may do.
func (g *Game) strike() {
	w, a := g.World, g.agent()
	n := g.rng.IntN(22)
	g.count("fate " + fates[n])
	switch n {
	case 0, 1, 2:
		if a.Silent = !a.Silent; g.chance(2) {
			a.HangUp()
		}
		w.tracef("%s silent %v", a.Name, a.Silent)
	case 3, 4:
		g.power(a)
	case 5:
		g.killSome(a)
	case 6:
		g.sicken(a)
	case 7, 8, 9:
		g.plugin()
	case 10:
		if w.away == 0 {
			w.Restart()
		}
	case 11:
		if w.away == 0 {
			w.Stop(g.upTo(8 * time.Second))
		}
	case 12:
		a.HangUp() // the connection breaks and is made again; what was on its way is lost
	case 13:
		a.Forget(w) // its disk is replaced while its processes run
		if g.chance(2) {
			g.run(g.upTo(time.Second))
			a.Silent = true
			a.HangUp()
		}
	case 20, 21:
		g.relabel(a)
	case 14:
		g.repeat(a)
	case 15:
		w.JumpClock(time.Duration(g.rng.IntN(2000)-1000) * time.Minute)
	case 16:
		g.rack(a)
	case 17:
		a.Lag, a.StartDelay, a.StopDelay = g.upTo(time.Second), g.upTo(4*time.Second), g.upTo(6*time.Second)
	case 18, 19:
		g.relieve()
	}
}

// relabel changes labels, and takes some changes back, while filters are slow or away: what they say meanwhile is of nodes as they were.
func (g *Game) relabel(a *Agent) {
	w := g.World
	for _, p := range w.plugins {
		switch {
		case p.def.Filter == nil || p.Dead || w.away > 0:
		case g.chance(3):
			w.KillPlugin(p.def.Name)
		default:
			p.Delay = 200*time.Millisecond + g.upTo(1500*time.Millisecond)
		}
	}
	flip := func(b *Agent) {
		if n := w.State().Node(b.Node); n != nil {
			disk := map[string]string{"ssd": "hdd"}[n.Spec.Labels["disk"]]
			if disk == "" {
				disk = "ssd"
			}
			g.do(engine.LabelNode{Node: string(b.Node), Set: map[string]string{"disk": disk}})
		}
	}
	flip(a)
	for range 3 {
		flip(g.agent())
		g.run(g.upTo(400 * time.Millisecond))
	}
	flip(a)
	g.do(engine.ScaleJob{Job: g.job(), Count: g.size.count})
}

// relieve ends some of what is wrong, so that games do not starve.
func (g *Game) relieve() {
	for _, a := range g.World.Agents {
		if g.chance(2) {
			a.Silent = false
		}
		if a.Off && g.chance(2) {
			g.power(a)
		}
	}
	for _, p := range g.World.plugins {
		if p.Dead && g.World.away == 0 {
			g.World.StartPlugin(p.def.Name)
		}
		if g.World.away == 0 {
			p.Mend(g.World)
		}
	}
}

func (g *Game) power(a *Agent) {
	if !a.Off {
		a.PowerOff(g.World)
		g.World.tracef("%s off", a.Name)
		return
	}
	a.Off = false
	g.World.tracef("%s on", a.Name)
	if g.chance(2) {
		a.Forget(g.World)
	}
}

// rack takes a whole rack away, by its power or its network, or brings it back.
func (g *Game) rack(a *Agent) {
	st := g.World.State()
	n := st.Node(a.Node)
	if n == nil {
		return
	}
	off := g.chance(2)
	for _, b := range g.World.Agents {
		m := st.Node(b.Node)
		switch {
		case m == nil || m.Spec.Labels["rack"] != n.Spec.Labels["rack"]:
		case a.Off != b.Off || a.Silent != b.Silent:
		case off:
			g.power(b)
		default:
			b.Silent = !b.Silent
		}
	}
}

func (g *Game) killSome(a *Agent) {
	for _, p := range a.Procs() {
		if p.State == cluster.Running && !p.Stray {
			a.Kill(g.World, p.Task, 1+g.rng.IntN(3))
			if g.chance(2) {
				return
			}
		}
	}
}

func (g *Game) sicken(a *Agent) {
	for _, p := range a.Procs() {
		if p.State == cluster.Running && p.checked {
			p.Sick = !p.Sick
			return
		}
	}
}

// repeat has the network deliver once more what an agent said: older states than those it has reported since, all that it knows, or what another session said.
func (g *Game) repeat(a *Agent) {
	if a.session == 0 || a.Off || a.Silent || g.World.away > 0 {
		return
	}
	r := engine.AgentReports{Node: a.Node, Session: a.session}
	switch g.rng.IntN(3) {
	case 0: // older states
		for _, p := range a.Procs() {
			if p.State > cluster.Accepted && !p.Stray {
				r.Tasks = append(r.Tasks, engine.TaskReport{Task: p.Task, State: cluster.Accepted + cluster.ObservedState(g.rng.IntN(int(min(p.State, cluster.Running)-cluster.Accepted)))})
			}
		}
	case 1: // the same again
		for _, p := range a.Procs() {
			if !p.Stray && !a.dirty[p.Task] && len(a.up) == 0 {
				r.Tasks = append(r.Tasks, engine.TaskReport{Task: p.Task, State: p.State, Err: p.Err, ExitCode: p.Code, Healthy: p.State == cluster.Running && p.healthy})
			}
		}
	case 2: // a full report that is none, of a session that is over
		r.Session, r.Full, r.Last = a.session-1, true, true
		for t := range g.World.State().TasksOn(a.Node) {
			r.Tasks = append(r.Tasks, engine.TaskReport{Task: t.ID, State: cluster.Failed, Err: "from another session"})
		}
	}
	for _, p := range a.Procs() {
		if p.Stray && p.Alive() {
			r.Strays = append(r.Strays, p.Task)
		}
	}
	g.World.tracef("%s: an old report of %d tasks, session %d", a.Name, len(r.Tasks), r.Session)
	g.World.send(r)
}

// plugin lets something befall a plugin.
func (g *Game) plugin() {
	w := g.World
	if w.away > 0 {
		return
	}
	p := w.plugins[g.rng.IntN(len(w.plugins))]
	switch n := g.rng.IntN(8); {
	case p.Dead:
		w.StartPlugin(p.def.Name)
	case n < 2:
		w.KillPlugin(p.def.Name)
	case n < 4:
		p.Delay = g.upTo(1500 * time.Millisecond)
	case n == 4:
		p.Delay = g.upTo(5 * time.Second)
	case n == 5:
		p.Faulty = Errors
	case n == 6:
		p.Faulty = Keeps
	default:
		p.Mend(w)
	}
	w.tracef("plugin %s: dead %v, delay %s, fault %d", p.def.Name, p.Dead, p.Delay, p.Faulty)
	if g.chance(3) {
		g.echo(p)
	}
}

// echo has a plugin answer again what it was asked in a session that is over, or about what has changed since.
func (g *Game) echo(p *Plugin) {
	if p.Dead {
		return
	}
	old := engine.PluginVerdicts{Name: p.def.Name, Session: p.session - 1, Revision: p.applied}
	for _, c := range p.classes {
		old.Classes = append(old.Classes, engine.ClassVerdict{Class: c.ID, ClassRevision: c.Revision, Indifferent: true})
	}
	slices.SortFunc(old.Classes, func(a, b engine.ClassVerdict) int { return int(a.Class) - int(b.Class) })
	g.World.send(old, engine.PluginApplied{Name: p.def.Name, Session: p.session - 1, Revision: g.World.State().Revision})
}
