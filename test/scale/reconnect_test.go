// Package scale plays one server with many agents. The agents are real ones, all in the process of the test, with the simulated driver.
package scale

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/agent"
	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/agent/driver/sim"
	"github.com/setpointd/setpoint/sdk/cluster"
	"github.com/setpointd/setpoint/test/internal/bench"
)

// agents is how many there are: SETPOINT_AGENTS. Without it nothing is played, since each takes a share of the machine.
func agents(t *testing.T) int {
	t.Helper()
	text := os.Getenv("SETPOINT_AGENTS")
	if text == "" {
		t.Skip("SETPOINT_AGENTS says how many agents there are to be")
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("SETPOINT_AGENTS is %q, want how many agents there are to be", text)
	}
	return n
}

// All agents come back at once when the server was started again: within half a minute everything is as before, no node was marked down, and no task was started
// again.
func TestAllAgentsComeBackAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a while")
	}
	count := agents(t)
	dir := t.TempDir()
	bin, err := bench.Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := bench.Start(t, bin, bench.Options{SampleEvery: 2 * time.Second})
	many(t, c, dir, count)
	ready := func(what string) time.Duration {
		return c.Until(5*time.Minute, what, func() (bool, any) { n := c.Ready(); return n == count, n })
	}
	t.Logf("%d agents joined within %s", count, ready("all nodes are ready").Round(time.Millisecond))
	c.RunJobsWait(2*time.Minute, bench.Job{Name: "web", Count: count, CPU: 0.5})
	before := c.Usage()
	revision := c.Status().Revision

	c.KillServer()
	began := time.Now()
	c.StartServer()
	ready("all nodes are ready again")
	took := time.Since(began)
	for _, e := range c.EventsFrom(revision, "") {
		if e.Kind == "node_state" && strings.Contains(e.Text, "down") {
			t.Errorf("a node was marked down: %+v", e)
		}
	}
	if took > 30*time.Second {
		t.Errorf("%d agents were back after %s, want less than 30 s", count, took)
	}
	if records := c.Records("web"); len(records) != count {
		t.Errorf("%d tasks were made, want %d", len(records), count)
	}
	t.Logf("%d agents were back %s after the server was killed; it holds %d MB, and held %d", count, took.Round(time.Millisecond), c.Usage().RSS>>20, before.RSS>>20)
}

// many starts agents, which end with the test.
func many(t *testing.T, c *bench.Cluster, dir string, count int) {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(c.Dir, "token"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	for i := range count {
		data := filepath.Join(dir, fmt.Sprintf("a%d", i))
		d, err := sim.New(sim.Options{Dir: filepath.Join(data, "sim")})
		if err != nil {
			t.Fatal(err)
		}
		a, err := agent.New(agent.Config{
			DataDir: data, Server: c.Address(), Token: strings.TrimSpace(string(token)), Name: fmt.Sprintf("m%d", i), Drivers: []driver.Driver{d},
			Capacity: cluster.Resources{MilliCPU: 4000, Memory: 8 << 30}, Log: hclog.NewNullLogger(), StopTasksOnExit: func() bool { return false },
		})
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			if err := a.Run(ctx); err != nil {
				t.Errorf("agent %d: %v", i, err)
			}
		})
	}
}
