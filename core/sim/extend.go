package sim

import (
	"fmt"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// This file holds what games of the early kind do not have. It draws from g.more alone, so that nothing of it changes what they play.

func (g *Game) maybe(oneIn int) bool { return g.more.IntN(oneIn) == 0 }

func (g *Game) within(d time.Duration) time.Duration { return time.Duration(g.more.Int64N(int64(d))) }

// widen gives the cluster pools of addresses, and perhaps a limit to how fast lost nodes are replaced.
func (g *Game) widen(cfg *engine.Config) {
	bits := 28
	if g.size.nodes > 100 {
		bits = 25
	}
	cfg.Pools = []engine.Pool{{Name: "lan", CIDR: fmt.Sprintf("10.1.0.0/%d", bits)}, {Name: "few", CIDR: "10.2.0.0/29"}}
	if g.maybe(3) {
		cfg.ReplaceEvery = time.Second + g.within(4*time.Second)
	}
}

// ask has a job ask for addresses, and prefer some nodes.
func (g *Game) ask(s *cluster.JobSpec) {
	if g.more == nil {
		return
	}
	if g.maybe(4) {
		s.Task.Addresses = []cluster.Address{{Name: "eth0", Pool: [...]string{"lan", "lan", "few"}[g.more.IntN(3)]}}
		if g.maybe(3) {
			s.Task.Addresses = append(s.Task.Addresses, cluster.Address{Name: "eth1", Pool: "lan"})
		}
		if g.maybe(12) {
			s.Task.Addresses[0].Pool = "none"
		}
	}
	if g.maybe(4) && len(s.Plugins) == 0 {
		settings := map[string]any{"affinity": []map[string]any{{"expr": "node.labels.disk == ssd", "weight": 20 + g.more.IntN(80)}}}
		if g.maybe(2) {
			settings["constraints"] = []string{"node.labels.rack != r1"}
		}
		s.Plugins = wishes(settings)
	}
	s.Update.Parallelism *= max(1, g.size.nodes/20) // so that an update of a job on every node comes to its end
	if s.Type == TypeRack && g.maybe(3) {
		s.Labels = map[string]string{"hold": fmt.Sprintf("r%d", g.more.IntN(2))}
	}
}

// extend does what an operator or fate may do, in a few steps that belong together.
func (g *Game) extend() {
	w := g.World
	a, job := w.Agents[g.more.IntN(len(w.Agents))], g.jobs[g.more.IntN(len(g.jobs))]
	all := []struct {
		name string
		play func()
	}{
		{"rebalance", func() { g.rebalance(job) }},
		{"steered update", func() { g.steer(job) }},
		{"type of a plugin", func() { g.do(engine.RunJob{Spec: g.spec(g.jobs[len(g.jobs)-1-g.more.IntN(2)])}) }},
		{"decommission by force", func() { g.force(a) }},
		{"loss of a rack", func() { g.loseRack(a) }},
		{"restart of an agent", func() { g.restartAgent(a) }},
		{"failed commits", func() { g.failCommits() }},
		{"filter that is not waited for", func() { g.ignore(a) }},
		{"addresses", func() { g.addresses(job) }},
		{"sickness of a job", func() { g.sickenAll(job) }},
		{"priority", func() { g.urge(job) }},
		{"silence of most", func() { g.hush() }},
	}
	x := all[g.more.IntN(len(all))]
	g.count("play " + x.name)
	x.play()
}

// rebalance has tasks move back once there is room for them, on a machine that joined or came back.
func (g *Game) rebalance(job string) {
	g.reactivate()
	if g.nodes < 2*g.size.nodes && g.maybe(2) {
		g.join()
	}
	g.run(g.within(4 * time.Second))
	g.do(engine.RebalanceJob{Job: job})
	if g.maybe(4) {
		g.run(g.within(time.Second))
		g.do(engine.RestartJob{Job: job})
	}
}

// steer begins an update, most often one that starts first, and takes a hand in it.
func (g *Game) steer(job string) {
	j := g.World.State().Job(job)
	if j == nil || j.Control.Stopped {
		g.do(engine.RunJob{Spec: g.spec(job)})
		g.run(g.within(4 * time.Second))
		if j = g.World.State().Job(job); j == nil {
			return
		}
	}
	s := j.Control.Spec
	s.Update = g.update()
	if !g.maybe(3) {
		s.Update.Order = cluster.StartFirst
	}
	s.Task.Env = g.task(s.Ends()).Env
	g.do(engine.RunJob{Spec: s})
	for _, actions := range [][]engine.UpdateAction{{engine.PauseUpdate}, {engine.ResumeUpdate, engine.CancelUpdate, ""}} {
		g.run(g.within(2 * time.Second))
		if action := actions[g.more.IntN(len(actions))]; action != "" {
			g.do(engine.ControlUpdate{Job: job, Action: action})
			g.count("update " + string(action))
			continue
		}
		g.do(engine.RollbackJob{Job: job})
	}
}

// force declares that a machine never comes back which is alive, and lets it speak on.
func (g *Game) force(a *Agent) {
	present := 0
	for n := range g.World.State().Nodes() {
		if !n.Spec.Decommissioned {
			present++
		}
	}
	if present <= 2 {
		return
	}
	g.do(engine.Decommission{Node: string(a.Node), Force: true})
	if g.maybe(2) {
		g.run(g.within(3 * time.Second))
		g.do(engine.RemoveNode{Node: string(a.Node)})
	}
	if g.nodes < 2*g.size.nodes {
		g.join()
	}
}

// loseRack takes a whole rack away, for shorter or longer than its nodes' grace, and mostly brings it back.
func (g *Game) loseRack(a *Agent) {
	w := g.World
	st := w.State()
	n := st.Node(a.Node)
	if n == nil {
		return
	}
	off, forget := g.maybe(2), g.maybe(2)
	var rack []*Agent
	for _, b := range w.Agents {
		if m := st.Node(b.Node); m != nil && m.Spec.Labels["rack"] == n.Spec.Labels["rack"] && !b.Off && !b.Silent {
			rack = append(rack, b)
			if off {
				g.power(b)
			} else {
				b.Silent = true
			}
		}
	}
	w.tracef("rack %s: %d nodes, off %v", n.Spec.Labels["rack"], len(rack), off)
	g.run(g.within(8 * time.Second))
	if g.maybe(4) {
		return
	}
	for _, b := range rack {
		b.Off, b.Silent = false, false
		if off && forget {
			b.Forget(w)
		}
	}
	w.tracef("rack %s is back, forgetful %v", n.Spec.Labels["rack"], off && forget)
}

// restartAgent ends an agent and starts it again a moment later. Its processes go on, and it knows them by its records, or only by their mark.
func (g *Game) restartAgent(a *Agent) {
	a.HangUp()
	if g.maybe(3) {
		a.Forget(g.World)
	}
	was := a.Silent
	a.Silent = true
	g.World.tracef("agent of %s restarts", a.Name)
	g.run(g.within(1500 * time.Millisecond))
	a.Silent = was
}

// failCommits has the next commits fail, before or after they were written, one of them perhaps while what came before is still being taken up.
func (g *Game) failCommits() {
	for range 1 + g.more.IntN(3) {
		for range g.more.IntN(4) {
			g.next = append(g.next, Durable)
		}
		g.next = append(g.next, Outcome(1+g.more.IntN(2)))
	}
}

// ignore has a filter go away that is not waited for, while labels change and tasks are wanted.
func (g *Game) ignore(a *Agent) {
	w := g.World
	if w.away > 0 {
		return
	}
	for _, p := range w.plugins {
		if p.def.Filter == nil {
			continue
		}
		if !p.Dead {
			w.KillPlugin(p.def.Name)
		}
		p.Open = true
		w.StartPlugin(p.def.Name)
		g.run(g.within(300 * time.Millisecond))
		if w.away > 0 {
			return
		}
		w.KillPlugin(p.def.Name)
		w.tracef("plugin %s is away, and not waited for", p.def.Name)
	}
	g.do(engine.LabelNode{Node: string(a.Node), Set: map[string]string{"disk": [...]string{"ssd", "hdd"}[g.more.IntN(2)]}})
	g.do(engine.RunJob{Spec: g.spec(g.jobs[g.more.IntN(len(g.jobs))])})
	g.run(g.within(2 * time.Second))
	for _, p := range w.plugins {
		if p.def.Filter != nil && w.away == 0 {
			p.Open = g.maybe(2)
			w.StartPlugin(p.def.Name)
		}
	}
}

// addresses has a job ask for more of a small pool than it gives, and gives some back.
func (g *Game) addresses(job string) {
	s := g.spec(job)
	s.Task.Addresses = []cluster.Address{{Name: "eth0", Pool: "few"}}
	if s.Numbered() {
		s.Count = 5 + g.more.IntN(6)
	}
	g.do(engine.RunJob{Spec: s})
	g.run(g.within(4 * time.Second))
	if g.maybe(2) {
		g.do(engine.ScaleJob{Job: job, Count: 2})
	}
}

// sickenAll has the health checks of a job's processes fail, wherever they run, and mostly pass again.
func (g *Game) sickenAll(job string) {
	sick := func(yes bool) {
		for _, a := range g.World.Agents {
			for _, p := range a.Procs() {
				if j, _, _, err := p.Task.Parts(); err == nil && j == job && p.checked {
					p.Sick = yes
				}
			}
		}
	}
	sick(true)
	g.run(g.within(5 * time.Second))
	sick(g.maybe(4))
}

// urge runs a job before all others, when room becomes free.
func (g *Game) urge(job string) {
	s := g.spec(job)
	s.Priority = 100
	g.do(engine.RunJob{Spec: s})
	g.do(engine.StopJob{Job: g.jobs[g.more.IntN(len(g.jobs))], Grace: 0})
}

// hush makes most machines fall silent at once, as a network does, and lets some of them speak again.
func (g *Game) hush() {
	for i, a := range g.World.Agents {
		a.Silent = i%4 > 0
	}
	g.run(g.within(8 * time.Second))
	left := g.more.IntN(3)
	for _, a := range g.World.Agents {
		if left--; left < 0 {
			a.Silent = false
		}
	}
}

// Played returns what was done and befell in the game, what its checkers looked at and what they saw, each with how often.
func (g *Game) Played() map[string]int {
	out := map[string]int{"games": 1, "moves": g.size.moves, "steps": g.World.Steps, "turns": int(g.World.State().Revision), "nodes": g.nodes}
	for kind, n := range g.played {
		out[kind] += n
	}
	for what, n := range g.World.Looked() {
		out["saw "+what] += n
	}
	return out
}
