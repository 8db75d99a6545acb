package daemon

import (
	"time"

	"github.com/setpointd/setpoint/core/engine"
)

// sweepRound is how long the engine takes to look at everything once more.
const sweepRound = 10 * time.Minute

// swept says what only the engine's net found: it is a fault of this program, which people are to report.
func (s *Server) swept(found engine.Swept) {
	for _, c := range found.Caught {
		s.opts.Log.Error("something was missed and is put right: this is a fault of Setpoint, please report it", "what", string(c.What), "about", c.About, "detail", c.Detail)
	}
	s.metrics.Swept(found)
}
