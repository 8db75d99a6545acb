package daemon

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/core/engine"
)

// What only the engine's net caught is an error that asks to be reported and says what differs.
func TestWhatTheNetCaughtIsLogged(t *testing.T) {
	var out bytes.Buffer
	log := hclog.New(&hclog.LoggerOptions{Output: &out})
	sayMissed(log, nil)
	if out.Len() > 0 {
		t.Errorf("a look that found nothing says %s", &out)
	}
	sayMissed(log, []engine.Caught{{What: engine.MissedUse, About: "node n1", Detail: "noted are 2 tasks"}})
	for _, want := range []string{"[ERROR]", "please report it", "what=use", `about="node n1"`, `detail="noted are 2 tasks"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log says %q, want %s in it", &out, want)
		}
	}
}
