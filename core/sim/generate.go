package sim

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// join lets a machine of random size join.
func (g *Game) join() {
	g.nodes++
	name := fmt.Sprintf("n%d", g.nodes)
	labels := map[string]string{"disk": g.pick("ssd", "hdd"), "rack": fmt.Sprintf("r%d", g.nodes%max(2, g.size.nodes/5))}
	c := cluster.Resources{MilliCPU: int64(1+g.rng.IntN(4)) * 1000, Memory: int64(2+g.rng.IntN(4)) << 30}
	if g.chance(3) {
		c.Units = map[string]int64{"gpu": int64(1 + g.rng.IntN(2))}
	}
	a := NewAgent(name, c)
	a.StartDelay, a.StopDelay, a.HealthyIn = g.upTo(800*time.Millisecond), g.upTo(1500*time.Millisecond), g.upTo(2*time.Second)
	if g.chance(4) {
		a.Lag = g.upTo(600 * time.Millisecond)
	}
	if _, err := g.World.Do(engine.JoinNode{ID: a.Node, Name: name, Labels: labels, Description: a.desc}); err != nil && g.World.store.records["node/"+string(a.Node)] == nil {
		return // the daemon died, and nobody knows the machine
	}
	g.World.Agents = append(g.World.Agents, a)
}

// Constraints returns the settings with which a job says what it asks of nodes.
func Constraints(exprs ...string) []cluster.PluginSettings {
	return wishes(map[string]any{"constraints": exprs})
}

func wishes(settings map[string]any) []cluster.PluginSettings {
	b, err := json.Marshal(settings)
	if err != nil {
		panic(err) // strings can always be encoded
	}
	return []cluster.PluginSettings{{Plugin: "constraint", JSON: string(b)}}
}

// spec returns a random specification of a job, whose name says its type.
func (g *Game) spec(job string) cluster.JobSpec {
	s := cluster.JobSpec{Name: job, Count: g.rng.IntN(g.size.count), Priority: 1 + g.rng.IntN(99)}
	switch {
	case strings.HasPrefix(job, "web"):
		s.Type = cluster.TypeReplicated
	case strings.HasPrefix(job, "batch"):
		s.Type = cluster.TypeBatch
	case strings.HasPrefix(job, "all"):
		s.Type, s.Count = cluster.TypeGlobal, 0
	case strings.HasPrefix(job, "rack"):
		s.Type, s.Count = TypeRack, 0
	default:
		s.Type, s.Count = cluster.TypeGlobalBatch, 0
	}
	s.Task = g.task(s.Ends())
	switch g.rng.IntN(6) {
	case 0, 1:
		s.Plugins = Constraints("node.labels.disk == " + g.pick("ssd", "hdd", "tape"))
	case 2:
		s.Plugins = Constraints("node.labels.disk == "+g.pick("ssd", "hdd"), "node.labels.rack != r1")
	}
	s.MaxUnavailable = cluster.Amount{Count: 1 + g.rng.IntN(3)}
	if g.chance(4) {
		s.MaxUnavailable = cluster.Amount{Percent: 10 + g.rng.IntN(60)}
	}
	s.MaxPerNode = max(0, g.rng.IntN(5)-1)
	if s.Count == 0 {
		s.MaxPerNode = 0
	}
	if g.chance(4) {
		s.OnDrift = cluster.DriftKeep
	}
	switch g.rng.IntN(6) {
	case 0:
		s.OnLost = cluster.LostWait
	case 1:
		s.LostAfter = g.upTo(8 * time.Second)
	}
	if g.chance(4) {
		s.Spread = []cluster.Spread{{Attribute: "node.labels.rack"}}
	}
	if g.chance(5) {
		s.OnDrain = cluster.DrainLast
	}
	s.HistoryLimit = g.rng.IntN(4)
	if s.Ends() && g.chance(2) {
		s.Parallelism = 1 + g.size.nodes/10 + g.rng.IntN(3)
	}
	s.Update, s.Restart = g.update(), g.restart()
	g.ask(&s)
	return s.WithDefaults()
}

func (g *Game) task(ends bool) cluster.TaskSpec {
	t := cluster.TaskSpec{
		Driver: "sim", Command: []string{"x"}, Resources: cluster.Resources{MilliCPU: int64(100 * (1 + g.rng.IntN(12)))}, Env: map[string]string{"V": g.pick("1", "2", "3")},
	}
	if g.chance(3) {
		t.Resources.Memory = int64(1+g.rng.IntN(8)) << 28
	}
	if g.chance(8) {
		t.Resources.Units = map[string]int64{"gpu": 1}
	}
	if g.chance(3) {
		t.Ports = []cluster.Port{{Name: "http", Static: uint16(8000 + g.rng.IntN(2))}, {Name: "any"}}
	}
	if g.chance(4) {
		t.Health = &cluster.HealthSpec{TCP: "127.0.0.1:1"}
	}
	switch {
	case ends:
		t.Env["RUN"], t.Env["JOB"] = fmt.Sprintf("%dms", 200+g.rng.IntN(4000)), "ends"
		if g.chance(3) {
			t.Env["EXIT"] = "1"
		}
	case g.chance(6): // a version that fails
		t.Env["RUN"], t.Env["EXIT"] = fmt.Sprintf("%dms", 100+g.rng.IntN(3000)), g.pick("0", "1", "3")
	}
	return t
}

func (g *Game) update() cluster.UpdateSpec {
	return cluster.UpdateSpec{
		Parallelism: 1 + g.rng.IntN(3), Order: cluster.Order(g.pick("stop-first", "start-first")), Monitor: time.Second + g.upTo(2*time.Second),
		Delay: g.upTo(500 * time.Millisecond), OnFailure: cluster.OnFailure(g.pick("pause", "continue", "rollback")),
		MaxFailureRatio: float64(g.rng.IntN(3)) / 4, ProgressDeadline: 5*time.Second + g.upTo(20*time.Second),
	}
}

func (g *Game) restart() cluster.RestartSpec {
	r := cluster.RestartSpec{Delay: 500*time.Millisecond + g.upTo(1500*time.Millisecond), Condition: cluster.RestartCondition(g.pick("any", "any", "on-failure", "none"))}
	r.MaxDelay = r.Delay + g.upTo(4*time.Second)
	if g.chance(3) {
		r.Attempts, r.Window = 1+g.rng.IntN(4), 20*time.Second+g.upTo(20*time.Second)
		if g.chance(2) {
			r.Window = time.Hour
		}
	}
	return r
}
