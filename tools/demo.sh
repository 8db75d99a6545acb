#!/usr/bin/env bash
# A cluster of three nodes on this machine with the jobs under examples/jobs/, for a first look. Ctrl-C ends it, its agents and its tasks;
# what it knows stays in the data directory, .demo unless SETPOINT_DATA_DIR says otherwise.
set -euo pipefail
cd "$(dirname "$0")/.."

setpoint=$PWD/bin/setpoint
export SETPOINT_DATA_DIR=${SETPOINT_DATA_DIR:-$PWD/.demo}
listen=${SETPOINT_LISTEN:-127.0.0.1:7480}

"$setpoint" dev --nodes 3 --data-dir "$SETPOINT_DATA_DIR" --listen "$listen" &
server=$!
events=
stop() {
	trap - EXIT INT TERM
	kill -TERM "$server" $events 2>/dev/null || true
	wait "$server" || true
}
trap stop EXIT
trap 'stop; exit 0' INT TERM

"$setpoint" status --wait 30s
for job in examples/jobs/*.hcl; do
	echo "+ setpoint job run $job"
	# A job that stalls is part of the demonstration.
	"$setpoint" job run "$job" || true
done

echo "+ setpoint task ls"
"$setpoint" task ls
echo "+ setpoint stalls"
"$setpoint" stalls || true

cat <<TEXT

The cluster runs. In a second terminal:

  export SETPOINT_DATA_DIR=$SETPOINT_DATA_DIR
  bin/setpoint status

Its events follow; Ctrl-C ends it.

TEXT
"$setpoint" events -f &
events=$!
wait "$server"
