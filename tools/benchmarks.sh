#!/usr/bin/env bash
# Runs the benchmarks named below and writes docs/BENCHMARKS.md: what each figure means, the figures as benchstat sums them up, and the machine.
# BENCH_COUNT is how often each is run (6).
set -euo pipefail
cd "$(dirname "$0")/.."
count=${BENCH_COUNT:-6}
benchstat=$(realpath "$1")
dir=$(mktemp -d)
raw=$dir/figures
trap 'rm -rf "$dir"' EXIT

run() { # PACKAGE PATTERN
	echo "== $1 $2" >&2
	go test -run '^$' -bench "$2" -benchtime "${3:-1s}" -count "$count" "$1" | tee -a "$raw" >&2
}

run ./test/turn 'BenchmarkPlace' 3x
run ./test/turn 'BenchmarkTrace' 1x
run ./core/place 'BenchmarkPlace'
run ./core/store/bolt 'BenchmarkCommit'

cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
memory=$(awk '/MemTotal/ {printf "%.0f GiB", $2 / 1048576}' /proc/meminfo)
{
	cat <<TXT
# Benchmarks

Written by \`make bench\` on $(date -u +%Y-%m-%d): $(nproc) cores of $cpu, $memory, Linux $(uname -r), $(go version | cut -d ' ' -f 3), at
commit $(git rev-parse --short HEAD). Each was run $count times; ± is what benchstat says.

**turn** is the whole way from committed jobs to committed placements: new jobs whose classes the constraint plugin, a process of its own, has to compile first,
their slots and tasks, a node for each task, and bbolt committing each turn to disk. \`decide\` is the time in the engine, \`commit\` the time in encoding and
bbolt; what is left is spent waiting for the plugin. **Trace** replays the openb trace (1,523 nodes and 8,152 pods
of a cluster with GPUs; skipped where it is not beside the project) the same way, each pod a job of one task, in the order in which they came: how many found a
place (\`placed\`), what the others lack where they come nearest (\`lack-…\`), and how much of the nodes that have a pod is used. \`gpu-stranded\` is the share of
all GPUs that is free on nodes which cannot take a pod that wants some, of the pods taken at random. GPUs are counted as devices, where a pod's share of one takes
it (\`whole\`), or in thousandths, where a share may lie on two (\`shares\`). \`plain\` is best fit as a loop over all nodes, in memory, for comparison.
**place** is the decision alone, in memory. **bolt** is one commit of that many random changes among 200,000
records, folding included.

\`\`\`
TXT
	(cd "$dir" && "$benchstat" figures)
	echo '```'
} >docs/BENCHMARKS.md
echo "wrote docs/BENCHMARKS.md" >&2
