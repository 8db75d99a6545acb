#!/bin/sh
# Before a removal, which dpkg calls "remove" and rpm 0; upgrades stop nothing. An agent that is stopped leaves its tasks running.
set -e
[ -z "$DPKG_ROOT" ] || exit 0
case "$1" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl --no-reload disable --now setpoint-server.service setpoint-agent.service || true
	fi
	;;
esac
