package sim_test

import (
	"flag"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/sim"
)

var (
	seeds = flag.Int("seeds", 50, "how many seeds to play")
	first = flag.Int("seed", 1, "the first seed")
	large = flag.Bool("large", false, "play with hundreds of nodes")
	until = flag.Bool("until-failure", false, "begin no game once one has failed")

	rewrite  = flag.Bool("update", false, "write what the first games have to see")
	progress = flag.Bool("progress", false, "say how far the games are, and at their end what they have seen")
)

// TestChaos plays random operators and faults against a cluster, and then has it settle in peace. Games that have become tame are a failure as well.
func TestChaos(t *testing.T) {
	var failed atomic.Bool
	sum := &tally{of: *seeds, began: time.Now(), seen: map[string]int{}}
	t.Run("seed", func(t *testing.T) {
		for seed := *first; seed < *first+*seeds; seed++ {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				if *until && failed.Load() {
					t.Skip("another one has failed")
				}
				g := play(t, sim.Kind{Seed: uint64(seed), Large: *large, Ahead: seed%2 == 0})
				sum.add(g, t.Failed())
				if t.Failed() {
					failed.Store(true)
				}
			})
		}
	})
	if *progress {
		sum.print()
	}
	switch played := *first == 1 && *seeds >= enough && !*large && !*until; {
	case *rewrite && *first == 1 && *seeds == enough:
		sum.write(t)
	case played && !t.Failed():
		sum.check(t)
	}
}

// TestManyNodes plays with hundreds of nodes.
func TestManyNodes(t *testing.T) { play(t, sim.Kind{Seed: 1, Large: true}) }

func play(t *testing.T, k sim.Kind) *sim.Game {
	t.Helper()
	g := sim.NewGame(k, plugins()...)
	g.Play()
	for _, f := range g.Failures() {
		t.Error(f)
	}
	if t.Failed() {
		t.Logf("the game of %+v:", k)
		for _, l := range g.World.Trace[max(0, len(g.World.Trace)-traceLines):] {
			t.Log(l)
		}
	}
	return g
}

// TestTheSameSeedPlaysTheSameGame commits the same changes at the same times.
func TestTheSameSeedPlaysTheSameGame(t *testing.T) {
	for seed := range uint64(10) {
		first := ""
		for range 3 {
			g := sim.NewGame(sim.Kind{Seed: seed + 1, Ahead: seed%2 == 0}, plugins()...)
			g.Moves(40)
			if first == "" {
				first = g.World.Digest
			}
			if g.World.Digest != first {
				t.Errorf("seed %d: %s and %s", seed+1, first, g.World.Digest)
			}
		}
	}
}

// TestTheWallClockDecidesNothing plays games with a wall clock that jumps at every step and comes to the same decisions.
func TestTheWallClockDecidesNothing(t *testing.T) {
	outline := func(seed uint64, jump time.Duration) string {
		g := sim.NewGame(sim.Kind{Seed: seed}, plugins()...)
		for i := range 30 {
			g.World.JumpClock(jump * time.Duration(i%3-1))
			g.Move()
			g.World.Run(300 * time.Millisecond)
		}
		return g.World.Outline
	}
	for seed := range uint64(10) {
		if a, b := outline(seed, 0), outline(seed, 77*time.Hour); a != b {
			t.Errorf("seed %d: decisions differ where the wall clock jumps", seed)
		}
	}
}

const traceLines = 400
