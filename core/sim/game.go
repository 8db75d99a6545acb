package sim

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Game is one play of random operators and faults against a cluster, from a seed. The same seed plays the same game.
type Game struct {
	World *World

	rng    *rand.Rand
	more   *rand.Rand // decides about what games of the early kind had not; nil: this is one
	size   size
	played map[string]int // what was done and befell, by kind
	next   []Outcome      // of the commits to come
	nodes  int            // that ever joined
	jobs   []string
	faults bool
	report string // what went wrong in the game itself
}

// size is how large a game is.
type size struct {
	nodes, jobs, moves int
	count              int // slots of a job, at most
	pause              time.Duration
}

// sizes are picked by a seed: most games are small, since they find most for their time.
func sizeOf(rng *rand.Rand, large bool) size {
	switch n := rng.IntN(20); {
	case large:
		return size{nodes: 300, jobs: 16, moves: 40, count: 120, pause: 700 * time.Millisecond}
	case n < 14:
		return size{nodes: 3 + rng.IntN(5), jobs: 4, moves: 60, count: 7, pause: 1200 * time.Millisecond}
	case n < 18:
		return size{nodes: 6 + rng.IntN(6), jobs: 8, moves: 90, count: 10, pause: 900 * time.Millisecond}
	}
	return size{nodes: 15 + rng.IntN(25), jobs: 10, moves: 60, count: 25, pause: 600 * time.Millisecond}
}

// Kind says which game a seed stands for.
type Kind struct {
	Seed  uint64
	Large bool // with hundreds of nodes
	Early bool // without what games had not when the first of them failed, so that their seeds still play the same
	Ahead bool // turns are decided before the ones before them are committed, now and then
	NoNet bool // without the net, as those games were whose seeds failed before there was one
}

// NewGame returns a game that has not begun.
func NewGame(k Kind, plugins ...sdk.Plugin) *Game {
	seed := k.Seed
	rng := rand.New(rand.NewPCG(seed, 1))
	g := &Game{rng: rng, size: sizeOf(rng, k.Large), played: map[string]int{}}
	cfg := engine.Config{}
	if k.NoNet {
		cfg.Sweep = -1
	}
	if g.chance(4) {
		cfg.MaxChanges = 5 + rng.IntN(30)
	}
	if g.chance(3) {
		cfg.Strategy = cluster.StrategyBinpack
	}
	if !k.Early {
		g.more = rand.New(rand.NewPCG(seed, 3))
		g.widen(&cfg)
		plugins = append(plugins, Racks())
	}
	g.World = NewWith(cfg, plugins...)
	for _, p := range g.World.plugins {
		p.Delta = g.chance(2)
	}
	commits := rand.New(rand.NewPCG(seed, 2))
	often := 40 + 400*commits.IntN(5)
	g.World.CommitFault = func() Outcome {
		if len(g.next) > 0 {
			out := g.next[0]
			g.next = g.next[1:]
			return out
		}
		if g.faults && commits.IntN(often) == 0 {
			return Outcome(1 + commits.IntN(2))
		}
		return Durable
	}
	if k.Ahead {
		ahead := rand.New(rand.NewPCG(seed, 4))
		g.World.Ahead = func() bool { return ahead.IntN(3) > 0 }
	}
	for i := range g.size.jobs {
		g.jobs = append(g.jobs, fmt.Sprintf("%s%d", [...]string{"web", "batch", "all", "sweep"}[[...]int{0, 2, 1, 0, 0, 3}[i%6]], i))
	}
	if g.more != nil {
		g.jobs = append(g.jobs, "rack8", "rack9")
	}
	for range g.size.nodes {
		g.join()
	}
	g.faults = true
	return g
}

// Failures returns what did not hold.
func (g *Game) Failures() []string {
	if g.report != "" {
		return append(g.World.Failures, g.report)
	}
	return g.World.Failures
}

// Play plays the game to its end, or to the first failure. A panic is a failure.
func (g *Game) Play() {
	defer func() {
		if r := recover(); r != nil {
			g.report = fmt.Sprintf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	g.run(time.Second)
	for range g.size.moves {
		g.Move()
		g.run(g.between())
		if len(g.World.Failures) > 0 {
			return
		}
	}
	g.Peace()
	g.settle()
}

// Moves plays a number of moves without checking anything, and makes peace.
func (g *Game) Moves(n int) {
	for range n {
		g.Move()
		g.World.Run(g.between())
	}
	g.Peace()
	g.World.Run(10 * time.Second)
}

func (g *Game) between() time.Duration {
	return time.Duration(g.rng.Int64N(int64(g.size.pause))) + Tick
}

// run lets time pass and checks on the way.
func (g *Game) run(d time.Duration) {
	w := g.World
	for end := w.real + d; w.real < end; {
		w.Tick()
		w.CheckLedger()
		w.CheckReasons()
		if w.real%time.Second == 0 {
			w.CheckLive()
		}
		if len(w.Failures) > 0 {
			return
		}
	}
}

// Bounds of how long a cluster in peace may take.
const (
	settleWithin = 4 * time.Minute
	quietFor     = 30 * time.Second
)

// settle waits until the cluster is as it was asked to be, or says why not, and has come to rest.
func (g *Game) settle() {
	w := g.World
	quiet, rev := time.Duration(0), w.State().Revision
	for end := w.real + settleWithin; w.real < end && quiet < quietFor; {
		g.run(time.Second)
		if len(w.Failures) > 0 {
			return
		}
		g.confirm()
		if quiet += time.Second; w.State().Revision != rev {
			quiet, rev = 0, w.State().Revision
		}
	}
	if quiet < quietFor {
		w.failf("quiet: after %s of peace the cluster is at revision %d and goes on", settleWithin, rev)
	}
	for _, f := range w.Settled() {
		w.failf("settled: %s", f)
	}
	w.checkJournal()
}

func (g *Game) chance(oneIn int) bool { return g.rng.IntN(oneIn) == 0 }

func (g *Game) pick(words ...string) string { return words[g.rng.IntN(len(words))] }

func (g *Game) agent() *Agent { return g.World.Agents[g.rng.IntN(len(g.World.Agents))] }

func (g *Game) job() string { return g.jobs[g.rng.IntN(len(g.jobs))] }

func (g *Game) upTo(d time.Duration) time.Duration { return time.Duration(g.rng.Int64N(int64(d))) }
