package daemon

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/core/engine"
)

// sweepRound is how long the engine takes to look at everything once more.
const sweepRound = 10 * time.Minute

// swept says and counts what only the engine's net found.
func (s *Server) swept(found engine.Swept) {
	sayMissed(s.opts.Log, found.Caught)
	s.metrics.Swept(found)
}

// sayMissed logs what only the net caught: it is a fault of this program, which people are to report.
func sayMissed(log hclog.Logger, caught []engine.Caught) {
	for _, c := range caught {
		log.Error("something was missed and is put right: this is a fault of Setpoint, please report it", "what", string(c.What), "about", c.About, "detail", c.Detail)
	}
}
