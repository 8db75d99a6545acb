#!/usr/bin/env bash
# Runs the smaller sizes of the benchmarks and compares what does not depend on the machine with test/turn/baseline.json; with "save" it writes that file.
# BENCH_COUNT is how often each is run (3); the best counts.
set -euo pipefail
cd "$(dirname "$0")/.."
raw=$(mktemp)
trap 'rm -f "$raw"' EXIT

run() { # PATTERN TIMES
	go test -run '^$' -bench "$1" -benchtime "$2" -count "${BENCH_COUNT:-3}" -benchmem ./test/turn | tee -a "$raw"
}

run 'BenchmarkReference' 50x
run 'BenchmarkArrive/nodes=1000?$' 50x
run 'BenchmarkDown/nodes=1000?$' 3x
run 'BenchmarkLabel/nodes=1000?$' 50x
run 'BenchmarkStalled/nodes=1000?$' 20x
run 'BenchmarkRolling/nodes=1000?$' 2x
run 'BenchmarkReports/nodes=1000?$' 20x
go run ./test/internal/figures "${1:-check}" "$raw" test/turn/baseline.json
