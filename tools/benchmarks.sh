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

run() { # PACKAGE PATTERN [TIMES [COUNT]]
	echo "== $1 $2" >&2
	go test -run '^$' -bench "$2" -benchtime "${3:-1s}" -count "${4:-$count}" -timeout 60m "$1" | tee -a "$raw" >&2
}

run ./test/turn 'BenchmarkReference' 100x
run ./test/turn 'BenchmarkPlace/nodes=10*$' 3x
run ./test/turn 'BenchmarkPlace/nodes=10000$' 1x
# Worlds of 1,000,000 tasks take a while to make: these run once in each size.
run ./test/turn 'BenchmarkArrive' 200x 1
run ./test/turn 'BenchmarkDown' 5x 1
run ./test/turn 'BenchmarkLabel' 200x 1
run ./test/turn 'BenchmarkStalled' 40x 1
run ./test/turn 'BenchmarkRolling' 1x 1
run ./test/turn 'BenchmarkReports' 20x 1
run ./test/turn 'BenchmarkStart' 2x 1
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

The others play with a cluster that has run for a while, at a hundredth, a tenth and the whole of 10,000 nodes and 1,000,000 tasks, its plugins processes and
bbolt committing. \`cpu\` is processor time of the engine's thread. **Arrive**: one more task, from the command to its durable placement. **Down**: a node with 500
tasks, from its being down to a durable placement for each. **Label**: one label of one node, with as many classes as said. **Stalled**: changes of nodes that are
of no use to any of the tasks that wait. **Rolling**: a rolling update of a global job, one node at a time; a step is one node. **Reports**: one change of a task's
state, reported by itself. **Start**: from opening the store to the end of the first decision; \`heap\` is what is held in memory then. **Reference** is work that
has nothing to do with Setpoint, for comparison.

\`\`\`
TXT
	(cd "$dir" && "$benchstat" figures)
	echo '```'
	echo
	echo 'How figures grow with size, the last number in a name: 0 is not at all, 1 is in proportion; none is to be above 1.1.'
	echo
	echo '```'
	go run ./test/internal/figures growth "$raw"
	echo '```'
} >docs/BENCHMARKS.md
echo "wrote docs/BENCHMARKS.md" >&2
