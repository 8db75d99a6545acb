package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// target is what a figure is to reach at the size for which Setpoint is built.
type target struct {
	what      string
	benchmark string
	unit      string
	least     bool // the limit is the least that it is to be, not the most
	limit     float64
	of        string  // a unit of the same benchmark: the limit grows by times of it
	times     float64 //
}

const (
	full      = "/nodes=10000/tasks=1000000"
	fullPlace = "BenchmarkPlace/nodes=10000/tasks=100000/classes=100"
)

var targets = []target{
	{what: "place 100,000 tasks, committed", benchmark: fullPlace, unit: "tasks/s", least: true, limit: 50_000},
	{what: "decisions about placement alone", benchmark: "BenchmarkPlace/spread/nodes=10000/groups=100/tasks=100000", unit: "tasks/s", least: true, limit: 500_000},
	{what: "a filter as a process, by one in process", benchmark: "BenchmarkFilter", unit: "process/direct", limit: 1.1},
	{what: "one task arrives", benchmark: "BenchmarkArrive" + full, unit: "cpu-µs/op", limit: 1000},
	{what: "one task arrives: three commits and 5 ms", benchmark: "BenchmarkArrive" + full, unit: "arrival-p99-ms", limit: 5, of: "commit-p50-ms", times: 3},
	{what: "a node with 500 tasks is down: a commit and 100 ms", benchmark: "BenchmarkDown" + full, unit: "replaced-p99-ms", limit: 100, of: "commit-p50-ms", times: 1},
	{what: "one label changes, 1,000 classes", benchmark: "BenchmarkLabel/nodes=10000/classes=1000", unit: "cpu-µs/op", limit: 1000},
	{what: "messages to plugins about it", benchmark: "BenchmarkLabel/nodes=10000/classes=1000", unit: "told/op", limit: 1},
	{what: "and from them", benchmark: "BenchmarkLabel/nodes=10000/classes=1000", unit: "heard/op", limit: 1},
	{what: "1,000 stalled tasks: a tenth of a core at 1,000 changes a second", benchmark: "BenchmarkStalled/nodes=10000/stalled=1000", unit: "cpu-µs/change", limit: 100},
	{what: "writes for it", benchmark: "BenchmarkStalled/nodes=10000/stalled=1000", unit: "stalls-written/change", limit: 0},
	{what: "reports of agents, committed", benchmark: "BenchmarkReports" + full, unit: "changes/s", least: true, limit: 50_000},
	{what: "memory of the server with 1,000,000 tasks", benchmark: "BenchmarkServer/warm" + full, unit: "own-MiB", limit: 700e6 / (1 << 20)},
	{what: "of a plugin", benchmark: "BenchmarkServer/warm" + full, unit: "plugin-MiB", limit: 100e6 / (1 << 20)},
	{what: "open the store of 1,000,000 tasks and decide, warm", benchmark: "BenchmarkStart" + full, unit: "start-p50-ms", limit: 4000},
	{what: "the program's start until it is ready, cold", benchmark: "BenchmarkServer/cold" + full, unit: "ready-p50-ms", limit: 6000},
	{what: "an event for one of 1,000 watchers", benchmark: "BenchmarkWatch/watchers=1000/idle=0", unit: "cpu-µs/event", limit: 5},
	{what: "setpoint dev is ready", benchmark: "BenchmarkDev", unit: "ready-p50-ms", limit: 1000},
	{what: "its server's memory", benchmark: "BenchmarkDev", unit: "server-rss-MiB", limit: 50e6 / (1 << 20)},
	{what: "a plugin's", benchmark: "BenchmarkDev", unit: "plugin-rss-MiB", limit: 25e6 / (1 << 20)},
	{what: "1,000 simulated tasks are up", benchmark: "BenchmarkDev", unit: "thousand-up-p50-ms", limit: 1500},
}

// printTargets prints for each target what it is to reach, what was measured, and what follows.
func printTargets(out io.Writer, all figures) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "what\tunit\tto reach\tmeasured\t")
	for _, t := range targets {
		limit := t.limit + t.times*all[t.benchmark][t.of]
		sign := "at most"
		if t.least {
			sign = "at least"
		}
		got, ok := all[t.benchmark][t.unit]
		measured, verdict := short(got), "reached"
		switch {
		case !ok:
			measured, verdict = "-", "not measured"
		case t.least && got < limit, !t.least && got > limit:
			verdict = "not reached"
		}
		fmt.Fprintf(w, "%s\t%s\t%s %s\t%s\t%s\n", t.what, t.unit, sign, short(limit), measured, verdict)
	}
	_ = w.Flush()
}

// short writes a number with three digits, or all that stand before the point.
func short(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
