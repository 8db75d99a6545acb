package cli

import (
	"fmt"
	"os"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/setpointd/setpoint/core/trace/tracetest"
)

// cmdCollector starts a collector of spans, whose address is $COLLECTOR from then on. It draws what it has taken into a file.
//
//	collector FILE
func cmdCollector(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: collector FILE")
	}
	file := ts.MkAbs(args[0])
	ts.Check(os.WriteFile(file, nil, 0o600))
	c := tracetest.New()
	ts.Defer(c.Close)
	c.OnTaken(func() {
		text := tracetest.Draw(c.Spans(), false)
		for _, h := range c.Headers() {
			text += fmt.Sprintf("authorization: %s\n", h.Get("Authorization"))
		}
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err == nil {
			_ = os.Rename(file+".new", file) // the script waits for it
		}
	})
	ts.Setenv("COLLECTOR", c.Endpoint())
}
