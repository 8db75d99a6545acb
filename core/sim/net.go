package sim

import (
	"time"

	"github.com/setpointd/setpoint/core/engine"
)

// netRound is how long the net takes to look at everything: much less than on a server, so that what is forgotten is caught before something else wakes it.
const netRound = 2 * time.Second

// checkNet checks that the net catches nothing: whatever is to be done was marked when it came to be, and what is counted is kept in step.
func (w *World) checkNet(s engine.Swept) {
	for _, c := range s.Caught {
		w.Caught = append(w.Caught, c)
		if !w.Forgetful {
			w.failf("net: %s of %s was missed: %s", c.What, c.About, c.Detail)
		}
	}
	if s.Round {
		w.looked("rounds of the net")
	}
}
