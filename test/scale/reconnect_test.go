// Package scale plays one server with many agents. The agents are real ones, all in the process of the test, with the simulated driver.
package scale

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
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
	// The sampler does not see what these agents do, and takes what runs there for dead; and at first there are no nodes to remember.
	c := bench.Start(t, bin, bench.Options{SampleEvery: 2 * time.Second, Unchecked: []string{"V1", "V5", "V7 memory"}})
	use := meter{c: c}
	use.begin()
	many(t, c, machines(t), count)
	t.Logf("%d agents joined: %s", count, use.end())
	use.begin()
	c.RunJobsWait(2*time.Minute, bench.Job{Name: "web", Count: count, CPU: 0.5})
	t.Logf("a task on each: %s", use.end())
	use.begin()
	c.Pass(10 * time.Second)
	t.Logf("at rest: %s", use.end())
	before := c.Usage()
	revision := c.Status().Revision

	c.KillServer()
	began := time.Now()
	c.StartServer()
	use.begin()
	ready(c, count)
	took := time.Since(began)
	t.Logf("%d agents were back %s after the server was killed: %s; it holds %d MB, and held %d",
		count, took.Round(time.Millisecond), use.end(), c.Usage().RSS>>20, before.RSS>>20)
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
}

// ready waits until so many nodes are. It looks seldom, since a list of thousands of nodes takes its share of the processors as well.
func ready(c *bench.Cluster, count int) {
	c.Until(5*time.Minute, "all nodes are ready", func() (bool, any) {
		c.Pass(time.Duration(count) * 250 * time.Microsecond)
		n := c.Ready()
		return n == count, n
	})
}

// meter tells who used the processors in a time.
type meter struct {
	c             *bench.Cluster
	began         time.Time
	server, tests time.Duration // processor time at its beginning
}

func (m *meter) begin() {
	m.began, m.server, m.tests = time.Now(), m.c.Usage().CPU, bench.UsageOf(os.Getpid()).CPU
}

// end says what the server and this process, which is the agents and the test, used since the beginning.
func (m *meter) end() string {
	took := time.Since(m.began)
	server, tests := m.c.Usage().CPU-m.server, bench.UsageOf(os.Getpid()).CPU-m.tests
	return fmt.Sprintf("%s; the server used %s of processor time, the agents and the test %s, of %s that the machine has",
		took.Round(time.Millisecond), server, tests, (took * time.Duration(runtime.NumCPU())).Round(time.Millisecond))
}

// machines returns a directory for what agents keep. It is in memory if there is such a place: each of these agents stands for a machine with a disk of its own, and
// one disk for all would be what is measured.
func machines(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "setpoint-agents")
	if err != nil {
		t.Logf("the agents share the disk of this machine: %v", err)
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// together is how many machines join at a time.
const together = 200

// many starts agents, which end with the test, and returns once their nodes are ready.
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
		if i%together == together-1 || i == count-1 {
			ready(c, i+1)
		}
	}
}
