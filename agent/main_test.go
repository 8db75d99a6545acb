package agent

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/agent/driver/process"
	"github.com/setpointd/setpoint/agent/driver/sim"
)

// The test binary is also the process driver's shim.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "shim" {
		os.Exit(process.ShimMain(os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

// running is an agent that runs.
type running struct {
	t    *testing.T
	stop context.CancelFunc
	done chan error
}

// launch runs an agent until the test ends or stops it.
func launch(t *testing.T, cfg Config) *running {
	t.Helper()
	if cfg.Log == nil {
		cfg.Log = hclog.New(&hclog.LoggerOptions{Output: testWriter{t}, Level: hclog.Debug})
	}
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{t: t, stop: cancel, done: make(chan error, 1)}
	go func() { r.done <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case <-r.done:
		case <-time.After(deadline):
			t.Error("the agent does not end")
		}
	})
	return r
}

// end stops the agent and returns Run's result.
func (r *running) end() error {
	r.t.Helper()
	r.stop()
	return r.result()
}

// result waits for Run's result.
func (r *running) result() error {
	r.t.Helper()
	select {
	case err := <-r.done:
		r.done <- err
		return err
	case <-time.After(deadline):
		r.t.Fatal("the agent does not end")
		return nil
	}
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", p[:len(p)-1])
	return len(p), nil
}

func simDriver(t *testing.T, dir string) driver.Driver {
	t.Helper()
	d, err := sim.New(sim.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// started counts the starts of each task by the sim driver's own record.
func started(t *testing.T, dir string) map[string]int {
	t.Helper()
	events, err := sim.Events(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]int)
	for _, e := range events {
		if e.Kind == sim.Started {
			out[e.TaskID]++
		}
	}
	return out
}
