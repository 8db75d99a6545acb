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

export BENCH_PROFILES=$dir/profiles
mkdir "$BENCH_PROFILES"

run() { # PACKAGE PATTERN [TIMES [COUNT]]
	echo "== $(date +%H:%M:%S) $1 $2" >&2
	go test -run '^$' -bench "$2" -benchtime "${3:-1s}" -count "${4:-$count}" -timeout 60m "$1" | tee -a "$raw" >&2
}

# Each row at a tenth and a hundredth of its size, several times, and once at its whole size, which takes a while to make.
rows() { # PATTERN SMALL LARGE TIMES
	run ./test/turn "$1/$2" "$4"
	run ./test/turn "$1/$3" "$4" 1
}

run ./test/turn 'BenchmarkReference' 100x
run ./test/turn 'BenchmarkPlace/nodes=10*$' 3x
run ./test/turn 'BenchmarkPlace/nodes=10000$' 1x
run ./test/turn 'BenchmarkFilter' 3x 1
run ./test/turn 'BenchmarkRecovery' 20x 1
rows 'BenchmarkArrive' 'nodes=1000?$' 'nodes=10000$' 200x
rows 'BenchmarkDown' 'nodes=1000?$' 'nodes=10000$' 5x
rows 'BenchmarkLabel' 'nodes=1000?$' 'nodes=10000$' 200x
rows 'BenchmarkStalled' 'nodes=1000?$' 'nodes=10000$' 40x
rows 'BenchmarkRolling' 'nodes=1000?$' 'nodes=10000$' 1x
rows 'BenchmarkReports' 'nodes=1000?$' 'nodes=10000$' 20x
rows 'BenchmarkStart' 'nodes=1000?$' 'nodes=10000$' 5x
run ./test/turn 'BenchmarkServer//nodes=1000?$' 2x 1
run ./test/turn 'BenchmarkServer//nodes=10000$' 2x 1
run ./test/turn 'BenchmarkTrace' 1x
run ./test/cli 'BenchmarkDev' 5x 1
run ./core/api 'BenchmarkWatch' 20x 1
run ./core/place 'BenchmarkPlace'
run ./core/store/bolt 'BenchmarkCommit'

cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
memory=$(awk '/MemTotal/ {printf "%.0f GiB", $2 / 1048576}' /proc/meminfo)
{
	cat <<TXT
# Benchmarks

Written by \`make bench\` on $(date -u +%Y-%m-%d): $(nproc) cores of $cpu, $memory, Linux $(uname -r), $(go version | cut -d ' ' -f 3), at
commit $(git rev-parse --short HEAD). BENCH_COUNT was $count: so often each was run, whole sizes and whole programs once; ± is what benchstat says.

What Setpoint is to reach on a machine of two cores, and what it reached; of several runs the median:

\`\`\`
$(go run ./test/internal/figures targets "$raw")
\`\`\`

**turn** is the whole way from committed jobs to committed placements: new jobs whose classes the constraint plugin, a process of its own, has to compile first,
their slots and tasks, a node for each task, and bbolt committing each turn to disk. \`decide\` is the time in the engine, \`commit\` the time in encoding and
bbolt, which go on side by side. **Trace** replays the openb trace (1,523 nodes and 8,152 pods
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
has nothing to do with Setpoint, for comparison: counting words, and a plain write and fsync of as many bytes as a turn of about 100 records has. **Server** is the program itself on
such a store, its agents away: from the command until it is ready, and what it holds in memory then. **Filter** places the
same tasks with the constraint filter as a process and in the engine's own, in one run. **Recovery**: from kill -9 of the filter to its first and its last answer. **Dev**:
a cluster of one node as somebody sees it who tries Setpoint; \`rss\` counts what is resident of the executable for each of its processes, \`pss\` shares it out. **Watch**:
telling watchers of events over TLS, their own reading included.

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
	cat <<'TXT'

What limits each row at its whole size. `busy` is how much of both processors' time is used while the row is measured, by Setpoint and its plugins: that far it is
from what the machine can do at most, if nothing had to wait for anything else. The rest is spent waiting: for the disk, for a plugin's answer, for one turn before the next.
The last column says what the server's own time goes to (what takes less than a twentieth is left out); bbolt is the store with its system calls.

TXT
	echo '```'
	go run ./test/internal/figures limits "$raw" "$BENCH_PROFILES"
	echo '```'
} >docs/BENCHMARKS.md
echo "wrote docs/BENCHMARKS.md" >&2
