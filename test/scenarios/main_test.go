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

// build builds the binaries, once for all tests.
var build = sync.OnceValues(func() (bench.Binaries, error) {
	dir, err := os.MkdirTemp("", "setpoint-scenarios")
	if err != nil {
		return bench.Binaries{}, err
	}
	builtIn = dir
	return bench.Build(dir)
})

// full reports whether scenarios are played in full.
func full() bool { return os.Getenv("SETPOINT_SCENARIOS") == "full" }

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
	if testing.Short() {
		t.Skip("it takes a while")
	}
	opts.Keep = os.Getenv("SETPOINT_SCENARIOS_KEEP") != ""
	return bench.Start(t, binaries(t), opts)
}

// buildClocked builds the program whose clock can be shifted, once for all tests, beside the others.
var buildClocked = sync.OnceValues(func() (string, error) {
	if _, err := build(); err != nil {
		return "", err
	}
	return bench.BuildClocked(builtIn)
})

// clocked is the program whose clock can be shifted.
func clocked(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes a while")
	}
	program, err := buildClocked()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

func binaries(t *testing.T) bench.Binaries {
	t.Helper()
	b, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return b
}
