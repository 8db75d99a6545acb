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
)

// TestChaos plays random operators and faults against a cluster, and then has it settle in peace.
func TestChaos(t *testing.T) {
	var failed atomic.Bool
	for seed := *first; seed < *first+*seeds; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			if *until && failed.Load() {
				t.Skip("another one has failed")
			}
			play(t, uint64(seed), *large)
			if t.Failed() {
				failed.Store(true)
			}
		})
	}
}

// TestManyNodes plays with hundreds of nodes.
func TestManyNodes(t *testing.T) { play(t, 1, true) }

func play(t *testing.T, seed uint64, large bool) {
	t.Helper()
	g := sim.NewGame(seed, large, plugins()...)
	g.Play()
	for _, f := range g.Failures() {
		t.Error(f)
	}
	if t.Failed() {
		for _, l := range g.World.Trace[max(0, len(g.World.Trace)-traceLines):] {
			t.Log(l)
		}
	}
}

// TestTheSameSeedPlaysTheSameGame commits the same changes at the same times.
func TestTheSameSeedPlaysTheSameGame(t *testing.T) {
	for seed := range uint64(10) {
		first := ""
		for range 3 {
			g := sim.NewGame(seed+1, false, plugins()...)
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
		g := sim.NewGame(seed, false, plugins()...)
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
