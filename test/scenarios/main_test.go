package scenarios

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/setpointd/setpoint/test/internal/bench"
)

// clusters is how many clusters run at a time unless -parallel says it: a scenario mostly waits.
const clusters = "4"

func TestMain(m *testing.M) {
	if os.Getenv("SCENARIO_LISTEN") != "" {
		listenAsTask()
	}
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if !said {
		if err := flag.Set("test.parallel", clusters); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	os.Exit(programs.Run(m))
}

var programs = bench.NewPrograms("setpoint-scenarios")

// full reports whether scenarios are played in full.
func full() bool { return os.Getenv("SETPOINT_SCENARIOS") == "full" }

var missing = sync.OnceValue(bench.NetworkMissing)

// cabled reports whether the server and each node have a network namespace and an address of their own.
func cabled() bool { return os.Getenv("SETPOINT_SCENARIOS_APART") != "" }

// scaled returns the first value, or the second if scenarios are played in full.
func scaled[T int | time.Duration](brief, whole T) T {
	if full() {
		return whole
	}
	return brief
}

// start starts the test's cluster, and has the test run beside others. A test has one cluster.
func start(t *testing.T, opts bench.Options) *bench.Cluster {
	t.Helper()
	t.Parallel()
	opts.Keep = os.Getenv("SETPOINT_SCENARIOS_KEEP") != ""
	if opts.Network = cabled(); opts.Network {
		if why := missing(); why != "" {
			t.Skipf("no network namespaces here: %s", why)
		}
	}
	return bench.Start(t, programs.Binaries(t), opts)
}
