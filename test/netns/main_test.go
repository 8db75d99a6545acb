package netns

import (
	"os"
	"sync"
	"testing"

	"github.com/setpointd/setpoint/test/internal/bench"
)

func TestMain(m *testing.M) { os.Exit(programs.Run(m)) }

var programs = bench.NewPrograms("setpoint-netns")

var missing = sync.OnceValue(bench.NetworkMissing)

// start starts a server and three agents, each at an address of its own.
func start(t *testing.T, opts bench.Options) *bench.Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes a while")
	}
	if why := missing(); why != "" {
		t.Skipf("no network namespaces here: %s", why)
	}
	opts.Network = true
	opts.Keep = os.Getenv("SETPOINT_SCENARIOS_KEEP") != ""
	if opts.Nodes == nil {
		opts.Nodes = bench.Ns(3)
	}
	t.Parallel()
	return bench.Start(t, programs.Binaries(t), opts)
}

// on returns how many tasks of a job run on each node.
func on(c *bench.Cluster, job string) map[string]int {
	out := map[string]int{}
	for _, task := range c.Running(job) {
		out[task.Node]++
	}
	return out
}

// pids returns the processes of a job's tasks, by node.
func pids(c *bench.Cluster) map[int]string {
	out := map[int]string{}
	for _, p := range c.Processes() {
		out[p.PID] = p.Node
	}
	return out
}
