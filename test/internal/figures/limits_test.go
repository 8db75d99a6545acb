package main

import (
	"maps"
	"regexp"
	"strings"
	"testing"
)

const traces = `File: turn.test
Type: cpu
-----------+-------------------------------------------------------
      20ms   runtime.mallocgc
             runtime.newobject
             github.com/setpointd/setpoint/sdk/wire.DesiredToProto (inline)
             github.com/setpointd/setpoint/core/store.Journal.Commit
             github.com/setpointd/setpoint/test/turn.(*bench).turn
-----------+-------------------------------------------------------
      30ms   internal/runtime/syscall/linux.Syscall6
             go.etcd.io/bbolt.(*Tx).Commit
             github.com/setpointd/setpoint/core/store/bolt.(*Backend).Commit
-----------+-------------------------------------------------------
     100ms   runtime.scanobject
             runtime.gcBgMarkWorker.func2
-----------+-------------------------------------------------------
      50ms   github.com/setpointd/setpoint/core/store/bolt..drain.Keys[go.shape.map[github.com/setpointd/setpoint/sdk/cluster.NodeID]bool].1
             github.com/setpointd/setpoint/core/store/bolt.(*Backend).append
-----------+-------------------------------------------------------
       2ms   runtime.mapaccess1
             github.com/setpointd/setpoint/test/turn.BenchmarkArrive
-----------+-------------------------------------------------------
       1ms   runtime.futex
             runtime.findRunnable
`

func TestTimeGoesToTheInnermostKnownHome(t *testing.T) {
	want := map[string]float64{
		"sdk/wire": 20, "bbolt": 30, "garbage collection": 100, "core/store/bolt": 50, "the benchmark itself": 2, "the runtime": 1,
	}
	got := byHome(traces)
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := shares(got), "garbage collection 49 %, core/store/bolt 25 %, bbolt 15 %, sdk/wire 10 %"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLimitsAreOfTheLargestSize(t *testing.T) {
	got := largest(map[string][]string{"BenchmarkX~nodes100~tasks1000": {"a"}, "BenchmarkX~nodes1000~tasks10000": {"b"}, "BenchmarkY": {"c"}})
	if len(got) != 2 || got["BenchmarkX~nodes1000~tasks10000"] == nil || got["BenchmarkY"] == nil {
		t.Errorf("got %v", got)
	}
}

func TestTargets(t *testing.T) {
	var out strings.Builder
	printTargets(&out, typical(`
BenchmarkPlace/nodes=10000/tasks=100000/classes=100-2  1  10 ns/op  60000 tasks/s
BenchmarkPlace/nodes=10000/tasks=100000/classes=100-2  1  10 ns/op  40000 tasks/s
BenchmarkPlace/nodes=10000/tasks=100000/classes=100-2  1  10 ns/op  45000 tasks/s
BenchmarkArrive/nodes=10000/tasks=1000000-2  1  10 ns/op  900 cpu-µs/op  2.5 commit-p50-ms  12 arrival-p99-ms
`))
	for _, want := range []string{
		`(?m)^place 100,000 tasks, committed +tasks/s +at least 50000 +45000 +not reached$`,
		`(?m)^one task arrives: .*arrival-p99-ms +at most 12\.5 +12 +reached$`,
		`(?m)^setpoint dev is ready .* - +not measured$`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("%s is not in\n%s", want, &out)
		}
	}
}
