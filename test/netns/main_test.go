package netns

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/setpointd/setpoint/test/internal/bench"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if builtIn != "" {
		if err := os.RemoveAll(builtIn); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	os.Exit(code)
}

// builtIn is the directory of the binaries once they are built.
var builtIn string

var build = sync.OnceValues(func() (bench.Binaries, error) {
	dir, err := os.MkdirTemp("", "setpoint-netns")
	if err != nil {
		return bench.Binaries{}, err
	}
	builtIn = dir
	return bench.Build(dir)
})

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
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	opts.Network = true
	opts.Keep = os.Getenv("SETPOINT_SCENARIOS_KEEP") != ""
	if opts.Nodes == nil {
		opts.Nodes = bench.Ns(3)
	}
	t.Parallel()
	return bench.Start(t, bin, opts)
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
