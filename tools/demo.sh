#!/usr/bin/env bash
# A cluster of three nodes on this machine with the jobs under examples/jobs/, for a first look. Ctrl-C ends it, its agents and its tasks;
# what it knows stays in the data directory, .demo unless SETPOINT_DATA_DIR says otherwise.
set -euo pipefail
cd "$(dirname "$0")/.."

setpoint=$PWD/bin/setpoint
export SETPOINT_DATA_DIR=${SETPOINT_DATA_DIR:-$PWD/.demo}
listen=${SETPOINT_LISTEN:-127.0.0.1:7480}

# What is done is shown as one would type it.
show() {
	echo
	echo "\$ setpoint $*"
	"$setpoint" "$@"
}

echo "\$ setpoint dev --nodes 3 --data-dir $SETPOINT_DATA_DIR --listen $listen &"
"$setpoint" dev --nodes 3 --data-dir "$SETPOINT_DATA_DIR" --listen "$listen" &
server=$!
events=
stop() {
	trap - EXIT INT TERM
	[ -z "$events" ] || kill -TERM "$events" 2>/dev/null || true
	if ! kill -0 "$server" 2>/dev/null; then
		echo
		echo "The server has ended. Agents and tasks of one that was killed run on, and this takes them up again, and ends them with Ctrl-C:"
		echo
		echo "  setpoint dev --data-dir $SETPOINT_DATA_DIR --listen $listen"
		return
	fi
	echo
	echo "Ending the cluster, its agents and its tasks…"
	kill -TERM "$server" 2>/dev/null || true
	wait "$server" || true
}
trap stop EXIT
trap 'stop; exit 0' INT TERM

# It is not waited for what has ended already: why, it has said.
"$setpoint" status --wait 30s >/dev/null &
wait -n "$!" "$server" || exit 1
show node ls
for job in examples/jobs/*.hcl; do
	case $job in
	*/needs-ssd.hcl) show job run "$job" --detach ;; # no node can run it, which is the point
	*) show job run "$job" --wait 30s ;;
	esac
done
show job ls
show stalls

cat <<TEXT

The cluster runs. In a second terminal:

  export SETPOINT_DATA_DIR=$SETPOINT_DATA_DIR PATH=$PWD/bin:\$PATH
  setpoint task why needs-ssd/1        # why does it not run?
  setpoint node label n2 disk=ssd      # now it does
  setpoint node drain n1 --wait 60s
  setpoint status

What happens follows; Ctrl-C ends it all.

TEXT
"$setpoint" events -f --recent 1 &
events=$!
wait "$server" || true
