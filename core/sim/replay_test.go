package sim_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/sim"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// What was recorded of a life with faults is decided the same way again.
func TestReplayDecidesTheSame(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 3))
			w := sim.New(plugins()...)
			var record bytes.Buffer
			w.Engine.Record(engine.NewRecorder(&record, 64<<20), "test")
			for i := range 3 + rng.IntN(4) {
				w.AddNode(fmt.Sprintf("n%d", i+1), nil, cluster.Resources{MilliCPU: 4000, Memory: 8 << 30})
			}
			for range 60 {
				switch rng.IntN(8) {
				case 0:
					a := w.Agents[rng.IntN(len(w.Agents))]
					a.Silent = !a.Silent
				case 1:
					w.KillPlugin("constraint")
				case 2:
					w.StartPlugin("constraint")
				case 3:
					if _, err := w.Foresee(t.Context(), someOp(rng, len(w.Agents))); err != nil {
						t.Log(err)
					}
				default:
					_, _ = w.Do(someOp(rng, len(w.Agents)))
				}
				w.Run(time.Duration(rng.IntN(3000)) * time.Millisecond)
			}
			got, err := engine.Replay(&record)
			if err != nil {
				t.Fatal(err)
			}
			if got.First != nil {
				t.Fatalf("after %d turns, at %s: recorded r%d, now r%d\nonly recorded: %q\nonly now: %q", got.Turns, got.First.At.Engine, got.First.Recorded,
					got.First.Replayed, got.First.Only, got.First.New)
			}
			if got.To != w.State().Revision || got.Turns < 60 {
				t.Errorf("replayed %d turns to revision %d, want %d", got.Turns, got.To, w.State().Revision)
			}
		})
	}
}
