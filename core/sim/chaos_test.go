package sim_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/sim"
)

var (
	seeds = flag.Int("seeds", 50, "how many seeds to play")
	first = flag.Int("seed", 1, "the first seed")
)

// TestChaos plays random operators and faults against a cluster, and then has it settle in peace.
func TestChaos(t *testing.T) {
	for seed := *first; seed < *first+*seeds; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { play(t, uint64(seed)) })
	}
}

func play(t *testing.T, seed uint64) {
	w := sim.New(plugins()...)
	t.Cleanup(func() {
		if t.Failed() {
			for _, l := range w.Trace[max(0, len(w.Trace)-traceLines):] {
				t.Log(l)
			}
		}
	})
	c := sim.NewChaos(w, seed)
	for range 5 {
		c.AddNode()
	}
	w.Run(time.Second)
	for range 60 {
		c.Move()
		w.CheckLedger()
		w.Run(time.Duration(1+seed%5) * 300 * time.Millisecond)
		w.CheckLedger()
		w.CheckReasons()
		if len(w.Failures) > 0 {
			t.Fatal(w.Failures[0])
		}
	}
	c.Peace()
	w.Run(2 * time.Minute)
	for _, f := range w.Failures {
		t.Error(f)
	}
	for _, f := range w.Settled() {
		t.Error(f)
	}
	rev := w.State().Revision
	w.Run(20 * time.Second)
	if now := w.State().Revision; now != rev {
		t.Errorf("a settled cluster went from revision %d to %d", rev, now)
	}
}

// TestTheSameSeedPlaysTheSameGame commits the same changes at the same times.
func TestTheSameSeedPlaysTheSameGame(t *testing.T) {
	for seed := range uint64(10) {
		first := ""
		for range 3 {
			w := sim.New(plugins()...)
			game(w, seed+1)
			if first == "" {
				first = w.Digest
			}
			if w.Digest != first {
				t.Errorf("seed %d: %s and %s", seed+1, first, w.Digest)
			}
		}
	}
}

// game plays a short game.
func game(w *sim.World, seed uint64) {
	c := sim.NewChaos(w, seed)
	for range 5 {
		c.AddNode()
	}
	for range 40 {
		c.Move()
		w.Run(400 * time.Millisecond)
	}
	c.Peace()
	w.Run(10 * time.Second)
}

const traceLines = 400
