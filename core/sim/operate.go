package sim

import (
	"fmt"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Move does one random thing, as an operator or as fate. What the cluster refuses is as good as nothing.
func (g *Game) Move() {
	switch {
	case g.more != nil && g.more.IntN(4) == 0:
		g.extend()
	case g.rng.IntN(5) < 3:
		g.operate()
	default:
		g.strike()
	}
}

func (g *Game) do(op engine.Op) {
	if _, err := g.World.Do(op); err == nil {
		g.count(fmt.Sprintf("op %T", op))
	}
}

// count notes that something was done or befell.
func (g *Game) count(kind string) { g.played[kind]++ }

// operate does what an operator may do.
func (g *Game) operate() {
	a, job := g.agent(), g.job()
	switch g.rng.IntN(26) {
	case 0, 1, 2, 3, 4, 5:
		g.do(engine.RunJob{Spec: g.spec(job)})
	case 6, 7:
		g.edit(job)
	case 8, 9:
		g.do(engine.ScaleJob{Job: job, Count: g.rng.IntN(g.size.count + 1)})
	case 10:
		g.do(engine.RestartJob{Job: job})
	case 11:
		g.do(engine.StopJob{Job: job, Grace: -1})
		if g.chance(2) {
			g.World.Run(g.upTo(500 * time.Millisecond))
			g.do(engine.StopJob{Job: job, Grace: 0})
		}
	case 12, 13:
		g.do(engine.StartJob{Job: job})
	case 14:
		g.do(engine.RemoveJob{Job: job})
		if g.chance(2) {
			g.do(engine.RunJob{Spec: g.spec(job)})
		}
	case 15:
		g.do(engine.RollbackJob{Job: job})
	case 16:
		g.do(engine.SetAvailability{Nodes: []string{string(a.Node)}, Availability: cluster.Active})
	case 17:
		g.do(engine.SetAvailability{Nodes: []string{string(a.Node)}, Availability: cluster.Pause})
	case 18, 19:
		g.drain(a)
	case 20:
		g.do(engine.LabelNode{Node: string(a.Node), Set: map[string]string{"disk": g.pick("ssd", "hdd")}})
		if g.chance(3) {
			g.do(engine.LabelNode{Node: string(a.Node), Remove: []string{"disk"}})
		}
	case 21:
		g.do(engine.ControlUpdate{Job: job, Action: engine.UpdateAction(g.pick("pause", "resume", "resume", "cancel"))})
	case 22:
		g.decommission(a)
	case 23:
		if g.nodes < 2*g.size.nodes {
			g.join()
		}
	case 24:
		g.confirm()
	case 25:
		g.reactivate()
	}
}

// edit changes one thing of a job, as people mostly do.
func (g *Game) edit(job string) {
	j := g.World.State().Job(job)
	if j == nil {
		return
	}
	s, other := j.Control.Spec, g.spec(job)
	switch g.rng.IntN(7) {
	case 0:
		s.Task = other.Task
	case 1:
		s.Plugins = other.Plugins
	case 2:
		s.Update = other.Update
	case 3:
		s.Restart = other.Restart
	case 4:
		s.MaxPerNode, s.MaxUnavailable, s.Priority = other.MaxPerNode, other.MaxUnavailable, other.Priority
	case 5:
		s.Task.Resources = other.Task.Resources
	case 6:
		s.OnLost, s.LostAfter, s.OnDrift, s.OnDrain = other.OnLost, other.LostAfter, other.OnDrift, other.OnDrain
	}
	g.do(engine.RunJob{Spec: s})
}

func (g *Game) drain(a *Agent) {
	op := engine.SetAvailability{Nodes: []string{string(a.Node)}, Availability: cluster.Drain}
	if g.chance(2) {
		op.DrainDeadline = time.Second + g.upTo(5*time.Second)
	}
	g.do(op)
}

// reactivate lets most nodes take tasks again, so that games do not starve.
func (g *Game) reactivate() {
	for _, a := range g.World.Agents {
		if g.rng.IntN(4) > 0 {
			g.do(engine.SetAvailability{Nodes: []string{string(a.Node)}, Availability: cluster.Active})
		}
	}
}

func (g *Game) decommission(a *Agent) {
	st := g.World.State()
	n := st.Node(a.Node)
	present := 0
	for x := range st.Nodes() {
		if !x.Spec.Decommissioned {
			present++
		}
	}
	switch {
	case n == nil:
	case n.Spec.Decommissioned:
		g.do(engine.RemoveNode{Node: string(a.Node)})
	case present > 2:
		g.do(engine.Decommission{Node: string(a.Node), Force: g.chance(3)})
		if g.chance(2) {
			g.join()
		}
	}
}

// confirm has an operator accept what waits for one.
func (g *Game) confirm() {
	for _, p := range g.World.plugins {
		g.do(engine.ConfirmPlugin{Plugin: p.def.Name})
	}
	if !g.faults {
		return
	}
	for n := range g.World.State().Nodes() {
		if n.Status.State == cluster.NodeSilent && g.chance(2) {
			g.do(engine.ConfirmDown{Nodes: []string{string(n.ID)}})
			return
		}
	}
}

// Peace ends all faults: machines run and speak, plugins answer, nodes take tasks, and processes do what they are for.
func (g *Game) Peace() {
	w := g.World
	w.tracef("peace")
	g.faults, g.next, w.calm = false, nil, true
	if w.away > 0 {
		w.away = w.real + Tick
		w.Tick()
	}
	for _, a := range w.Agents {
		a.Silent, a.Off, a.Lag = false, false, 0
		for _, p := range a.Procs() {
			p.Sick = false
		}
		if n := w.State().Node(a.Node); n == nil || n.Spec.Decommissioned {
			continue
		}
		g.do(engine.SetAvailability{Nodes: []string{string(a.Node)}, Availability: cluster.Active})
	}
	for _, p := range w.plugins {
		if p.Dead {
			w.StartPlugin(p.def.Name)
		}
		p.Mend(w)
	}
}
