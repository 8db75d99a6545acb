package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Chaos plays operators and faults, from a seed.
type Chaos struct {
	w     *World
	rng   *rand.Rand
	nodes int
	jobs  []string
}

// NewChaos returns a player for the world. The same seed plays the same game.
func NewChaos(w *World, seed uint64) *Chaos {
	return &Chaos{w: w, rng: rand.New(rand.NewPCG(seed, 1)), jobs: []string{"a", "b", "c", "g"}}
}

// AddNode lets a machine of random size join.
func (c *Chaos) AddNode() {
	c.nodes++
	labels := map[string]string{"disk": c.pick("ssd", "hdd")}
	a := c.w.AddNode(fmt.Sprintf("n%d", c.nodes), labels, cluster.Resources{MilliCPU: int64(1+c.rng.IntN(4)) * 1000, Memory: 4 << 30})
	a.StartDelay = time.Duration(c.rng.IntN(800)) * time.Millisecond
	a.StopDelay = time.Duration(c.rng.IntN(1500)) * time.Millisecond
}

func (c *Chaos) pick(words ...string) string { return words[c.rng.IntN(len(words))] }

func (c *Chaos) agent() *Agent { return c.w.Agents[c.rng.IntN(len(c.w.Agents))] }

// Move does one random thing. What the cluster refuses is as good as nothing.
func (c *Chaos) Move() {
	a, job := c.agent(), c.pick(c.jobs...)
	switch c.rng.IntN(22) {
	case 0, 1, 2, 3:
		_, _ = c.w.Do(engine.RunJob{Spec: c.spec(job)})
	case 4:
		_, _ = c.w.Do(engine.ScaleJob{Job: job, Count: c.rng.IntN(8)})
	case 5:
		_, _ = c.w.Do(engine.RestartJob{Job: job})
	case 6:
		_, _ = c.w.Do(engine.StopJob{Job: job, Grace: -1})
	case 7:
		_, _ = c.w.Do(engine.StartJob{Job: job})
	case 8:
		_, _ = c.w.Do(engine.RemoveJob{Job: job})
	case 9:
		_, _ = c.w.Do(engine.RollbackJob{Job: job})
	case 10, 11:
		_, _ = c.w.Do(engine.SetAvailability{Node: string(a.Node), Availability: cluster.Availability(c.pick("active", "active", "pause", "drain"))})
	case 12:
		_, _ = c.w.Do(engine.LabelNode{Node: string(a.Node), Set: map[string]string{"disk": c.pick("ssd", "hdd")}})
	case 13, 14:
		a.Silent = !a.Silent
		c.w.tracef("%s silent %v", a.Name, a.Silent)
	case 15:
		c.power(a)
	case 16:
		for _, p := range a.Procs() {
			if p.State == cluster.Running {
				a.Kill(c.w, p.Task, 1+c.rng.IntN(3))
				break
			}
		}
	case 17:
		c.plugin()
	case 18:
		c.w.Restart()
	case 19:
		c.decommission(a)
	case 20:
		a.session = 0 // the connection breaks and is made again
	case 21:
		_, _ = c.w.Do(engine.ControlUpdate{Job: job, Action: engine.UpdateAction(c.pick("pause", "resume", "resume", "cancel"))})
	}
}

func (c *Chaos) power(a *Agent) {
	if !a.Off {
		a.PowerOff(c.w)
		c.w.tracef("%s off", a.Name)
		return
	}
	a.Off = false
	c.w.tracef("%s on", a.Name)
	if c.rng.IntN(2) == 0 {
		a.Forget()
	}
}

func (c *Chaos) plugin() {
	p := c.w.plugins[c.rng.IntN(len(c.w.plugins))]
	switch {
	case p.Dead:
		c.w.StartPlugin(p.def.Name)
	case c.rng.IntN(2) == 0:
		c.w.KillPlugin(p.def.Name)
	default:
		p.Delay = time.Duration(c.rng.IntN(2000)) * time.Millisecond
	}
}

func (c *Chaos) decommission(a *Agent) {
	n := c.w.State().Node(a.Node)
	if n == nil || n.Status.State != cluster.NodeDown || len(c.w.Agents) < 3 || n.Spec.Decommissioned {
		return
	}
	c.w.MustDo(engine.Decommission{Node: string(a.Node)})
	c.AddNode()
}

// Constraints returns the settings with which a job says what it asks of nodes.
func Constraints(exprs ...string) []cluster.PluginSettings {
	b, err := json.Marshal(map[string][]string{"constraints": exprs})
	if err != nil {
		panic(err) // strings can always be encoded
	}
	return []cluster.PluginSettings{{Plugin: "constraint", JSON: string(b)}}
}

func (c *Chaos) spec(job string) cluster.JobSpec {
	s := cluster.JobSpec{Name: job, Type: cluster.TypeReplicated, Count: c.rng.IntN(7), Priority: 1 + c.rng.IntN(99)}
	s.Task = cluster.TaskSpec{
		Driver: "sim", Command: []string{"x"}, Resources: cluster.Resources{MilliCPU: int64(100 * (1 + c.rng.IntN(12)))},
		Env: map[string]string{"V": c.pick("1", "2", "3")},
	}
	if job == "g" {
		s.Type, s.Count = cluster.TypeGlobal, 0
	}
	if c.rng.IntN(3) == 0 {
		s.Plugins = Constraints("node.labels.disk == " + c.pick("ssd", "hdd", "tape"))
	}
	if c.rng.IntN(3) == 0 {
		s.Task.Ports = []cluster.Port{{Name: "http", Static: uint16(8000 + c.rng.IntN(2))}, {Name: "any"}}
	}
	s.MaxUnavailable = cluster.Amount{Count: 1 + c.rng.IntN(3)}
	s.MaxPerNode = c.rng.IntN(3)
	s.Update = cluster.UpdateSpec{
		Parallelism: 1 + c.rng.IntN(3), Order: cluster.Order(c.pick("stop-first", "start-first")), Monitor: time.Duration(c.rng.IntN(2)+1) * time.Second,
		OnFailure: cluster.OnFailure(c.pick("pause", "continue", "rollback")),
	}
	s.Restart = cluster.RestartSpec{Delay: time.Second, MaxDelay: 4 * time.Second}
	return s.WithDefaults()
}

// Peace ends all faults: machines run and speak, plugins answer, nodes take tasks.
func (c *Chaos) Peace() {
	for _, a := range c.w.Agents {
		a.Silent, a.Off = false, false
		_, _ = c.w.Do(engine.SetAvailability{Node: string(a.Node), Availability: cluster.Active})
	}
	for _, p := range c.w.plugins {
		p.Delay = 0
		if p.Dead {
			c.w.StartPlugin(p.def.Name)
		}
	}
}
